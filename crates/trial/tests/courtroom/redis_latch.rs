//! A lock on Redis, written from scratch: `SET NX PX`, and a release that compares and deletes in one step.
//!
//! Every request has its own connection, so that a server that was replaced is simply the next one that answers.

use std::io;
use std::time::Duration;

use fencepost_rig::resp::{Connection, Value};

use crate::flaw::Flaw;
use crate::part::ExternalLock;
use crate::player::Manners;

/// How long a server may take to answer, if it may also be gone.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// The same, if only the network may be slow.
const LONG_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const RENEW: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// The lock from the point of view of one process.
#[derive(Debug, Clone)]
pub(crate) struct RedisLatch {
    address: String,
    space: String,
    flaw: Option<Flaw>,
    answer_timeout: Duration,
}

impl RedisLatch {
    /// Parses `redis://HOST:PORT#SPACE`. `None` if it is another kind of address.
    pub(crate) fn at(endpoint: &str, lock: ExternalLock) -> Option<Self> {
        let (address, space) = endpoint.strip_prefix("redis://")?.split_once('#')?;
        Some(Self {
            address: address.into(),
            space: space.into(),
            flaw: lock.flaw,
            answer_timeout: match lock.manners {
                Manners::Good | Manners::NeverStops => LONG_ANSWER_TIMEOUT,
                _ => ANSWER_TIMEOUT,
            },
        })
    }

    /// Tries once. A server that does not answer grants nothing.
    pub(crate) fn take(&self, key: &str, token: &str, ttl: Duration) -> bool {
        let (key, ttl) = (self.key(key), ttl.as_millis().to_string());
        let unit = match self.flaw {
            Some(Flaw::TtlInSeconds) => "EX",
            _ => "PX",
        };
        if self.flaw == Some(Flaw::ExpiresInSecondStep) {
            let ok = Value::Word("OK".into());
            let is_taken = self
                .ask(&["SET", &key, token, "NX"])
                .is_ok_and(|it| it == ok);
            return is_taken && self.ask(&["PEXPIRE", &key, &ttl]).is_ok();
        }
        let answer = self.ask(&["SET", &key, token, "NX", unit, &ttl]);
        if self.flaw == Some(Flaw::WaitersProlong) {
            let _ = self.ask(&["PEXPIRE", &key, &ttl]);
        }
        match answer {
            Ok(answer) => answer == Value::Word("OK".into()),
            Err(_) => self.takes_anyway(&key, token, &ttl),
        }
    }

    /// Returns whether an error counts as a grant after all.
    fn takes_anyway(&self, key: &str, token: &str, ttl: &str) -> bool {
        match self.flaw {
            Some(Flaw::ErrorIsGrant) => true,
            Some(Flaw::WritesAfterError) => self.ask(&["SET", key, token, "PX", ttl]).is_ok(),
            Some(Flaw::LooksAfterError) => {
                let there = self.ask(&["EXISTS", key]);
                there.is_ok_and(|there| there == Value::Number(1))
            }
            _ => false,
        }
    }

    /// Renews a grant. Returns whether it was still there. A server that does not answer has lost nothing.
    pub(crate) fn renew(&self, key: &str, token: &str, ttl: Duration) -> bool {
        let (key, ttl) = (self.key(key), ttl.as_millis().to_string());
        if self.flaw == Some(Flaw::RenewsAnyKey) {
            let _ = self.ask(&["PEXPIRE", &key, &ttl]);
            return true;
        }
        let answer = self.ask(&["EVAL", RENEW, "1", &key, token, &ttl]);
        !answer.is_ok_and(|answer| answer == Value::Number(0))
    }

    /// Returns the next fence, if fences are counted.
    pub(crate) fn fence(&self) -> Option<String> {
        if self.flaw != Some(Flaw::FenceOfCounter) {
            return None;
        }
        match self.ask(&["INCR", &self.key("fence")]) {
            Ok(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        }
    }

    /// Gives back what was granted too late.
    pub(crate) fn regret(&self, key: &str, token: &str) {
        if self.flaw == Some(Flaw::BlindRegret) {
            self.delete(key);
        } else {
            self.give_back(key, token);
        }
    }

    /// Deletes what is there.
    pub(crate) fn delete(&self, key: &str) {
        let _ = self.ask(&["DEL", &self.key(key)]);
    }

    /// Releases the lock. Returns whether the grant was still there.
    pub(crate) fn give_back(&self, key: &str, token: &str) -> bool {
        if self.flaw == Some(Flaw::BlindDelete) {
            self.delete(key);
            return true;
        }
        if self.flaw == Some(Flaw::GetThenDelete) {
            let owner = self.ask(&["GET", &self.key(key)]);
            let is_own = owner.is_ok_and(|owner| owner == Value::Text(token.into()));
            return is_own && self.ask(&["DEL", &self.key(key)]).is_ok();
        }
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

    pub(crate) fn key(&self, key: &str) -> String {
        format!("{}:courtroom:{key}", self.space)
    }

    /// Returns the address of the server.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns what is wrong with the lock.
    pub(crate) fn flaw(&self) -> Option<Flaw> {
        self.flaw
    }

    fn ask(&self, words: &[&str]) -> io::Result<Value> {
        Connection::open(&*self.address, self.answer_timeout)?.ask(words)
    }
}
