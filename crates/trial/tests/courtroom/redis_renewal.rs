//! The connection on which a process renews its grants on Redis.

use std::collections::HashMap;
use std::time::Duration;

use fencepost_rig::resp::{Connection, Value};

use crate::flaw::Flaw;
use crate::latch::{Grant, now_ns};
use crate::redis_latch::RedisLatch;

/// Renews what still has its token, and returns how many did. The last argument is the length of a lease.
const RENEW: &str = "local renewed = 0
for at, key in ipairs(KEYS) do
    if redis.call('GET', key) == ARGV[at] then renewed = renewed + redis.call('PEXPIRE', key, ARGV[#ARGV]) end
end return renewed";

/// A connection that is kept from one renewal to the next.
pub(crate) struct RenewalLine {
    redis: RedisLatch,
    ttl: Duration,
    connection: Option<Connection>,
    has_failed: bool,
    /// A connection that is open from the start. That for renewals is not: it comes with the first of them.
    _first: Option<Connection>,
}

impl RenewalLine {
    pub(crate) fn of(redis: RedisLatch, ttl: Duration) -> Self {
        let trusts = redis.flaw() == Some(Flaw::TrustsConnection);
        let first = trusts.then(|| Connection::open(redis.address(), ttl).ok());
        Self {
            redis,
            ttl,
            connection: None,
            has_failed: false,
            _first: first.flatten(),
        }
    }

    /// Renews these grants, all of them with one command unless the flaw says otherwise. Returns the ends of the leases that were renewed, by
    /// their tokens.
    pub(crate) fn renew(&mut self, grants: &[Grant]) -> HashMap<String, i64> {
        let at_once = match self.redis.flaw() {
            Some(Flaw::RenewsOneByOne) => 1,
            Some(Flaw::RenewsByFifties) => 50,
            _ => grants.len().max(1),
        };
        let mut ends = HashMap::new();
        for some in grants.chunks(at_once) {
            // A connection that failed is replaced, and the request repeated.
            let is_answered = self.renew_some(some, &mut ends);
            if !is_answered && !self.has_given_up() {
                self.renew_some(some, &mut ends);
            }
        }
        ends
    }

    /// Returns whether a renewal has failed, and the lock does not try again.
    pub(crate) fn has_given_up(&self) -> bool {
        let gives_up = matches!(
            self.redis.flaw(),
            Some(Flaw::RenewalGivesUp | Flaw::ErrorEndsRenewal)
        );
        self.has_failed && gives_up
    }

    /// Sends one renewal over a connection of its own. It counts, whatever becomes of it.
    fn send_only(&mut self, words: &[&str], grants: &[Grant], ends: &mut HashMap<String, i64>) {
        let connection = Connection::open(self.redis.address(), self.ttl / 5);
        let is_sent = connection.and_then(|mut connection| connection.send(words));
        if is_sent.is_ok() {
            self.note(grants, now_ns(), ends);
        }
    }

    /// Notes that these grants are renewed from this time on.
    fn note(&self, grants: &[Grant], asked_ns: i64, ends: &mut HashMap<String, i64>) {
        let until_ns = asked_ns + i64::try_from(self.ttl.as_nanos()).unwrap();
        ends.extend(grants.iter().map(|grant| (grant.token.clone(), until_ns)));
    }

    fn connect(&mut self) {
        let flaw = self.redis.flaw();
        let is_over = flaw == Some(Flaw::NeverReconnects) && self.has_failed;
        if self.connection.is_some() || is_over {
            return;
        }
        let timeout = match flaw {
            Some(Flaw::TrustsConnection) => 3 * self.ttl,
            // Shorter than what is left of a brief stop when the next renewal is due, so that every such stop makes one fail.
            Some(Flaw::RenewalGivesUp) => Duration::from_millis(250),
            _ => self.ttl / 5,
        };
        self.connection = Connection::open(self.redis.address(), timeout).ok();
    }

    /// Returns whether the server answered. If it has renewed all of them, notes their ends.
    fn renew_some(&mut self, grants: &[Grant], ends: &mut HashMap<String, i64>) -> bool {
        let keys = grants.iter().map(|grant| self.redis.key(&grant.key));
        let tokens = grants.iter().map(|grant| grant.token.clone());
        let head = ["EVAL", RENEW].map(str::to_owned).into_iter();
        let words: Vec<String> = head
            .chain([grants.len().to_string()])
            .chain(keys)
            .chain(tokens)
            .chain([self.ttl.as_millis().to_string()])
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if self.redis.flaw() == Some(Flaw::SentIsRenewal) {
            self.send_only(&words, grants, ends);
            return true;
        }
        self.connect();
        let Some(connection) = &mut self.connection else {
            return false;
        };
        let asked_ns = now_ns();
        let Ok(answer) = connection.ask(&words) else {
            self.connection = None;
            self.has_failed = true;
            let releases = self.redis.flaw() == Some(Flaw::ReleasesUnanswered);
            for grant in grants.iter().filter(|_| releases) {
                self.redis.release_unheard(&grant.key, &grant.token);
            }
            return releases;
        };
        self.has_failed |= matches!(answer, Value::Error(_));
        let is_done = answer == Value::Number(i64::try_from(grants.len()).unwrap());
        if is_done || self.redis.flaw() == Some(Flaw::ErrorIsRenewal) {
            self.note(grants, asked_ns, ends);
        }
        true
    }
}
