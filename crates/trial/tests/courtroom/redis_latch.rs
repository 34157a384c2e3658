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
/// How long before the answer to a release it is announced.
const ANNOUNCED_BEFORE: Duration = Duration::from_millis(1);
/// How long it waits for a replica.
const REPLICA_TIMEOUT_MS: &str = "400";
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
    /// Whether it waits until a replica has what it granted.
    replicates: bool,
}

impl RedisLatch {
    /// Parses `redis://HOST:PORT#SPACE`. `None` if it is another kind of address.
    pub(crate) fn at(endpoint: &str, lock: ExternalLock) -> Option<Self> {
        let (address, space) = endpoint.strip_prefix("redis://")?.split_once('#')?;
        Some(Self {
            address: address.into(),
            space: space.into(),
            flaw: lock.flaw,
            replicates: lock.claims.survives,
            answer_timeout: match lock.manners {
                Manners::Good | Manners::NeverStops => LONG_ANSWER_TIMEOUT,
                _ => ANSWER_TIMEOUT,
            },
        })
    }

    /// Tries once. A server that does not answer grants nothing.
    pub(crate) fn take(&self, key: &str, token: &str, ttl: Duration) -> bool {
        if self.flaw == Some(Flaw::AnyWordIsRenewal) {
            let _ = self.ask(&["PUBLISH", &self.key("asked"), token]);
        }
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
        if self.replicates {
            return self.take_replicated(&key, token, &ttl);
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

    /// Tries once, and gives the lock back if no replica acknowledges it in time.
    fn take_replicated(&self, key: &str, token: &str, ttl: &str) -> bool {
        let Ok(mut connection) = self.connect() else {
            return false;
        };
        let set = connection.ask(&["SET", key, token, "NX", "PX", ttl]);
        if !set.is_ok_and(|set| set == Value::Word("OK".into())) {
            return false;
        }
        let wait = ["WAIT", "1", REPLICA_TIMEOUT_MS];
        let replicas = match self.flaw {
            Some(Flaw::WaitsElsewhere) => self.ask(&wait),
            _ => connection.ask(&wait),
        };
        let is_there = replicas.is_ok_and(|replicas| replicas != Value::Number(0));
        if is_there || self.flaw == Some(Flaw::IgnoresReplicas) {
            return true;
        }
        let _ = connection.ask(&["EVAL", RELEASE, "1", key, token]);
        false
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

    /// Releases a grant, and does not wait for the answer.
    pub(crate) fn release_unheard(&self, key: &str, token: &str) {
        if let Ok(mut connection) = self.connect() {
            let _ = connection.send(&["EVAL", RELEASE, "1", &self.key(key), token]);
        }
    }

    /// Announces a release to whoever listens. The connection stays open, and nobody reads the answer.
    fn announce(&self, key: &str) -> Option<Connection> {
        let mut connection = self.connect().ok()?;
        connection.send(&["PUBLISH", key, "released"]).ok()?;
        // The answer is on its way when the release is answered.
        std::thread::sleep(ANNOUNCED_BEFORE);
        Some(connection)
    }

    /// Returns what the server sends to whoever listens to all processes that ask for locks, if this lock listens.
    pub(crate) fn listen(&self) -> Option<Connection> {
        if self.flaw != Some(Flaw::AnyWordIsRenewal) {
            return None;
        }
        let mut connection = Connection::open(&*self.address, LONG_ANSWER_TIMEOUT).ok()?;
        let subscribed = connection.ask(&["SUBSCRIBE", &self.key("asked")]);
        subscribed.ok().map(|_| connection)
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
        let (name, one) = (self.key(key), Value::Number(1));
        let release = || self.ask(&["EVAL", RELEASE, "1", &name, token]);
        let delete = || self.ask(&["DEL", &name]);
        match self.flaw {
            Some(Flaw::BlindDelete) => {
                self.delete(key);
                return true;
            }
            Some(Flaw::RepeatsDelete) => return delete().or_else(|_| delete()).is_ok(),
            Some(Flaw::GetThenDelete | Flaw::LostLookIsRelease) => {
                return self.looks_and_deletes(&name, token);
            }
            Some(Flaw::AnnouncesRelease) => {
                let is_released = release().is_ok_and(|answer| answer == one);
                let _announced = self.announce(&name);
                return is_released;
            }
            _ => {}
        }
        match (release(), self.flaw) {
            (Ok(answer), _) => answer == one,
            (Err(_), Some(Flaw::ErrorIsRelease)) => true,
            (Err(_), Some(Flaw::RepeatsRelease)) => release().is_ok_and(|answer| answer == one),
            (Err(_), Some(Flaw::RepeatsBlindly)) => delete().is_ok_and(|answer| answer == one),
            (Err(_), _) => false,
        }
    }

    /// Looks whose lock it is, and deletes it in a second step.
    fn looks_and_deletes(&self, name: &str, token: &str) -> bool {
        match self.ask(&["GET", name]) {
            Err(_) => self.flaw == Some(Flaw::LostLookIsRelease),
            Ok(owner) => owner == Value::Text(token.into()) && self.ask(&["DEL", name]).is_ok(),
        }
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
        match self.connect()?.ask(words)? {
            Value::Error(error) => Err(io::Error::other(error)),
            answer => Ok(answer),
        }
    }

    fn connect(&self) -> io::Result<Connection> {
        Connection::open(&*self.address, self.answer_timeout)
    }
}
