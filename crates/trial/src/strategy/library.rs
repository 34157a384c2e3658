//! The library's lock as a strategy.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fencepost::backend::sqlite::Sqlite;
use fencepost::{BoxFuture, DEFAULT_STORE_TIMEOUT, ErrorKind, Guard, Locker, ReleaseOutcome};

use super::{Failure, Halt, Held, Locking, Setup};
use crate::ground::Ground;
use crate::protocol::ReleaseWord;

/// Takes locks with the library.
pub(super) struct Library {
    locker: Locker,
    keep_alive: bool,
    holds: HashMap<u64, Guard>,
    last_hold: u64,
}

/// The file with the library's tables.
pub(super) fn file(setup: &Setup) -> Result<&Path, Failure> {
    match &setup.ground {
        Ground::Sqlite(path) => Ok(path),
        Ground::Redis(_) => Err(Failure::definite("not available on redis yet")),
    }
}

impl Library {
    /// Connects to the store. Without keep-alive, the holder does not look at the clock either.
    pub(super) async fn open(setup: &Setup, keep_alive: bool) -> Result<Self, Failure> {
        let path = file(setup)?;
        // A new file for every run: small fences are easier to read.
        let backend = Sqlite::builder(path).first_epoch(1).open().await;
        let backend = backend.map_err(Failure::definite)?;
        let locker = Locker::builder(Arc::new(backend))
            .ttl(setup.ttl)
            .keep_alive(keep_alive)
            .build();
        Ok(Self {
            locker: locker.map_err(Failure::definite)?,
            keep_alive,
            holds: HashMap::new(),
            last_hold: 0,
        })
    }

    /// The guard of a hold.
    pub(super) fn guard(&self, hold: u64) -> Option<&Guard> {
        self.holds.get(&hold)
    }

    async fn take(
        &mut self,
        key: &str,
        wait: Duration,
        halt: &mut dyn Halt,
    ) -> Result<Option<Held>, Failure> {
        let at_once = self.locker.try_acquire(key).await;
        let at_once = at_once.map_err(Failure::indefinite)?;
        let contended = at_once.is_none();
        let guard = match at_once {
            None if !wait.is_zero() => self.wait(key, wait).await?,
            at_once => at_once,
        };
        let Some(guard) = guard else {
            return Ok(None);
        };
        halt.after(1, 1, "takes the lock");
        self.last_hold += 1;
        let held = Held {
            hold: self.last_hold,
            fence: Some(guard.fence().to_string()),
            valid_ms: Some(guard.valid_for().as_secs_f64() * 1e3),
            contended,
        };
        self.holds.insert(self.last_hold, guard);
        Ok(Some(held))
    }

    async fn wait(&self, key: &str, wait: Duration) -> Result<Option<Guard>, Failure> {
        match self.locker.acquire_within(key, wait).await {
            // The store said before that the lock is taken; for the same again there was not time enough.
            Err(error) if error.kind() == ErrorKind::Timeout && wait < DEFAULT_STORE_TIMEOUT => {
                Ok(None)
            }
            turn => turn.map_err(Failure::indefinite),
        }
    }

    async fn give_back(&mut self, hold: u64, halt: &mut dyn Halt) -> Result<ReleaseWord, Failure> {
        let guard = self.holds.remove(&hold);
        let guard = guard.ok_or_else(|| Failure::definite("there is no such hold"))?;
        let outcome = guard.release().await;
        halt.after(1, 1, "gives the lock back if it is its own");
        Ok(match outcome {
            ReleaseOutcome::Released => ReleaseWord::Released,
            ReleaseOutcome::AlreadyLost => ReleaseWord::AlreadyLost,
            ReleaseOutcome::StillHeld | ReleaseOutcome::Unknown(_) => ReleaseWord::Unknown,
        })
    }
}

impl Locking for Library {
    fn acquire<'a>(
        &'a mut self,
        key: &'a str,
        wait: Duration,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<Option<Held>, Failure>> {
        Box::pin(self.take(key, wait, halt))
    }

    fn knows_lost(&mut self, hold: u64) -> bool {
        self.keep_alive && self.holds.get(&hold).is_some_and(Guard::is_lost)
    }

    fn release<'a>(
        &'a mut self,
        hold: u64,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<ReleaseWord, Failure>> {
        Box::pin(self.give_back(hold, halt))
    }
}
