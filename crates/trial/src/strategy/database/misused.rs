//! Advisory locks that are used wrongly: the locks are the database's own, and the program mistakes what ends them.

use std::time::Duration;

use fencepost::clock::BoxFuture;

use super::super::{Failure, Granted, Halt, Locking};
use super::Misuse;
use super::session::SessionLock;
use crate::protocol::ReleaseResult;

/// An advisory lock, and the mistake.
pub(super) struct MisusedLock {
    lock: SessionLock,
    misuse: Misuse,
}

impl MisusedLock {
    pub(super) fn new(lock: SessionLock, misuse: Misuse) -> Self {
        Self { lock, misuse }
    }

    async fn take(
        &mut self,
        key: &str,
        wait: Duration,
        halt: &mut dyn Halt,
    ) -> Result<Option<Granted>, Failure> {
        if self.misuse == Misuse::TrustsRollback {
            self.lock.run("BEGIN")?;
        }
        let taken = self.lock.acquire(key, wait, halt).await;
        let ends = match (self.misuse, &taken) {
            (Misuse::TrustsRollback, Ok(Some(_))) | (Misuse::KeptByPool, _) => false,
            (Misuse::TrustsRollback, _) => true,
            // Something in the work has failed, and whoever handles that does not know of the lock.
            (Misuse::RolledBack, taken) => matches!(taken, Ok(Some(_))),
        };
        if ends {
            self.lock.run("ROLLBACK")?;
        }
        taken
    }

    fn give_back(&mut self, hold: u64) -> Result<ReleaseResult, Failure> {
        self.lock.forget(hold);
        if self.misuse == Misuse::TrustsRollback {
            self.lock.run("ROLLBACK")?;
        }
        Ok(ReleaseResult::Released)
    }
}

impl Locking for MisusedLock {
    fn acquire<'a>(
        &'a mut self,
        key: &'a str,
        wait: Duration,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<Option<Granted>, Failure>> {
        Box::pin(self.take(key, wait, halt))
    }

    fn release<'a>(
        &'a mut self,
        hold: u64,
        _: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<ReleaseResult, Failure>> {
        Box::pin(async move { self.give_back(hold) })
    }
}
