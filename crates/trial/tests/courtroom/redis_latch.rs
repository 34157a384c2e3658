//! A lock on Redis, written from scratch: `SET NX PX`, and a release that compares and deletes in one step.
//!
//! Every request has its own connection, so that a server that was replaced is simply the next one that answers.

use std::io;
use std::time::Duration;

use fencepost_rig::resp::{Connection, Value};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_millis(500);
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// The lock from the point of view of one process.
#[derive(Debug, Clone)]
pub(crate) struct RedisLatch {
    address: String,
    space: String,
}

impl RedisLatch {
    /// Parses `redis://HOST:PORT#SPACE`. `None` if it is another kind of address.
    pub(crate) fn at(endpoint: &str) -> Option<Self> {
        let (address, space) = endpoint.strip_prefix("redis://")?.split_once('#')?;
        Some(Self {
            address: address.into(),
            space: space.into(),
        })
    }

    /// Tries once. A server that does not answer grants nothing.
    pub(crate) fn take(&self, key: &str, token: &str, ttl: Duration) -> bool {
        let (key, ttl) = (self.key(key), ttl.as_millis().to_string());
        let answer = self.ask(&["SET", &key, token, "NX", "PX", &ttl]);
        answer.is_ok_and(|answer| answer == Value::Word("OK".into()))
    }

    /// Releases the lock. Returns whether the grant was still there.
    pub(crate) fn give_back(&self, key: &str, token: &str) -> bool {
        let answer = self.ask(&["EVAL", RELEASE, "1", &self.key(key), token]);
        answer.is_ok_and(|answer| answer == Value::Number(1))
    }

    /// Returns whether the server has this grant; `None` if it does not answer.
    pub(crate) fn has(&self, key: &str) -> Option<bool> {
        match self.ask(&["EXISTS", &self.key(key)]) {
            Ok(Value::Number(count)) => Some(count == 1),
            _ => None,
        }
    }

    fn key(&self, key: &str) -> String {
        format!("{}:courtroom:{key}", self.space)
    }

    fn ask(&self, words: &[&str]) -> io::Result<Value> {
        Connection::open(&*self.address, PATIENCE)?.ask(words)
    }
}
