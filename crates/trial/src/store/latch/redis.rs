//! Lock records as keys on a Redis server, with the commands that handmade locks commonly use.

use std::time::Duration;

use redis::cmd;

use super::Latches;
use crate::protocol::Failure;
use crate::store::LockState;
use crate::store::redis::{Connection, StoreError};

const COMPARE_AND_DELETE: &str = "
    if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
    return 0";

/// A connection to the lock records on a Redis server.
pub(crate) struct RedisLatches(Connection);

impl RedisLatches {
    /// Connects to the server of an endpoint, `redis://…`.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached.
    pub(crate) fn open(endpoint: &str) -> Result<Self, Failure> {
        Ok(Self(Connection::open(endpoint)?))
    }

    /// Returns the full name of a key after checking the connection. Operations are independent of each other, so reconnecting
    /// is safe.
    fn fresh_key(&mut self, key: &str) -> String {
        self.0.freshen();
        self.0.key("lock", key)
    }
}

/// Converts to whole milliseconds, at least one, because Redis accepts no less.
fn milliseconds(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1)
}

impl Latches for RedisLatches {
    fn set_if_absent(
        &mut self,
        key: &str,
        token: &str,
        ttl: Option<Duration>,
    ) -> Result<bool, Failure> {
        let mut set = cmd("SET");
        set.arg(self.fresh_key(key)).arg(token).arg("NX");
        if let Some(ms) = ttl.map(milliseconds).or(self.0.lasts_ms()) {
            set.arg("PX").arg(ms);
        }
        let done: Option<String> = self.0.ask(&set).map_err(StoreError::into_write_failure)?;
        Ok(done.is_some())
    }

    fn expire(&mut self, key: &str, ttl: Duration) -> Result<bool, Failure> {
        let key = self.fresh_key(key);
        let done = self.0.ask(cmd("PEXPIRE").arg(key).arg(milliseconds(ttl)));
        done.map_err(StoreError::into_write_failure)
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, Failure> {
        let key = self.fresh_key(key);
        self.0
            .ask(cmd("GET").arg(key))
            .map_err(StoreError::into_read_failure)
    }

    fn delete(&mut self, key: &str) -> Result<bool, Failure> {
        let key = self.fresh_key(key);
        self.0
            .ask(cmd("DEL").arg(key))
            .map_err(StoreError::into_write_failure)
    }

    fn delete_if(&mut self, key: &str, token: &str) -> Result<bool, Failure> {
        let key = self.fresh_key(key);
        let done = self.0.run(COMPARE_AND_DELETE, &[&key], &[token]);
        done.map_err(StoreError::into_write_failure)
    }

    fn inspect(&mut self, key: &str) -> Result<LockState, Failure> {
        let key = self.fresh_key(key);
        let left: i64 = self
            .0
            .ask(cmd("PTTL").arg(key))
            .map_err(StoreError::into_read_failure)?;
        Ok(match left {
            ..=-2 => LockState::FREE,
            -1 => LockState {
                taken: true,
                ttl_left: None,
            },
            left => LockState {
                taken: true,
                ttl_left: Some(Duration::from_millis(left.unsigned_abs())),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_latches() {
        let Some(server) = crate::store::tests::redis() else {
            return;
        };
        let open = || RedisLatches::open(&server.url()).unwrap();
        super::super::tests::keeps_its_promises(&mut open(), &mut open());
    }
}
