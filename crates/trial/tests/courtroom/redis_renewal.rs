//! The connection on which a process renews its grants on Redis.

use std::time::Duration;

use fencepost_rig::resp::Connection;

use crate::flaw::Flaw;
use crate::latch::Grant;
use crate::redis_latch::RedisLatch;

/// Renews what still has its token. The last argument is the length of a lease.
const RENEW: &str = "for at, key in ipairs(KEYS) do
    if redis.call('GET', key) == ARGV[at] then redis.call('PEXPIRE', key, ARGV[#ARGV]) end
end return 1";

/// A connection that is kept from one renewal to the next.
pub(crate) struct RenewalLine {
    redis: RedisLatch,
    ttl: Duration,
    connection: Option<Connection>,
    has_failed: bool,
}

impl RenewalLine {
    pub(crate) fn of(redis: RedisLatch, ttl: Duration) -> Self {
        Self {
            redis,
            ttl,
            connection: None,
            has_failed: false,
        }
    }

    /// Renews these grants, all of them with one command unless the flaw says otherwise.
    pub(crate) fn renew(&mut self, grants: &[Grant]) {
        let at_once = match self.redis.flaw() {
            Some(Flaw::RenewsOneByOne) => 1,
            Some(Flaw::RenewsByFifties) => 50,
            _ => grants.len().max(1),
        };
        for some in grants.chunks(at_once) {
            // A connection that failed is replaced, and the request repeated.
            if !self.renew_some(some) {
                self.renew_some(some);
            }
        }
    }

    fn connect(&mut self) {
        let flaw = self.redis.flaw();
        let is_over = flaw == Some(Flaw::NeverReconnects) && self.has_failed;
        if self.connection.is_some() || is_over {
            return;
        }
        let timeout = match flaw {
            Some(Flaw::TrustsConnection) => 3 * self.ttl,
            _ => self.ttl / 5,
        };
        self.connection = Connection::open(self.redis.address(), timeout).ok();
    }

    /// Returns whether the server answered.
    fn renew_some(&mut self, grants: &[Grant]) -> bool {
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
        self.connect();
        let Some(connection) = &mut self.connection else {
            return false;
        };
        let is_answered = connection.ask(&words).is_ok();
        if !is_answered {
            self.connection = None;
            self.has_failed = true;
        }
        is_answered
    }
}
