//! Redlock on several servers of Redis: a lock is granted by a majority.

use std::time::Duration;

use crate::flaw::Flaw;
use crate::part::ExternalLock;
use crate::redis_latch::RedisLatch;
use crate::remote::Remote;

/// The lock from the point of view of one process.
pub(crate) struct RedlockLatch {
    servers: Vec<RedisLatch>,
    ttl: Duration,
    flaw: Option<Flaw>,
}

impl RedlockLatch {
    pub(crate) fn at(endpoints: &[String], ttl: Duration, lock: ExternalLock) -> Self {
        let servers = endpoints.iter();
        Self {
            servers: servers
                .filter_map(|endpoint| RedisLatch::at(endpoint, lock))
                .collect(),
            ttl,
            flaw: lock.flaw,
        }
    }

    fn quorum(&self) -> usize {
        match self.flaw {
            Some(Flaw::OneIsEnough) => 1,
            _ => self.servers.len() / 2 + 1,
        }
    }
}

impl Remote for RedlockLatch {
    fn take(&mut self, key: &str, token: &str) -> bool {
        let servers = self.servers.iter();
        let granted = servers.filter(|server| server.take(key, token, self.ttl));
        if granted.count() >= self.quorum() {
            return true;
        }
        for server in &self.servers {
            match self.flaw {
                Some(Flaw::BlindCleanup) => server.delete(key),
                _ => drop(server.give_back(key, token)),
            }
        }
        false
    }

    fn give_back(&mut self, key: &str, token: &str) -> bool {
        let servers = self.servers.iter();
        let released = servers.filter(|server| server.give_back(key, token));
        released.count() >= self.quorum()
    }
}
