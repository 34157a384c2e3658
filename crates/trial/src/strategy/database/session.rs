//! Locks that end with a transaction or a session of the database, so nothing remains of them when their holder is gone.
//!
//! All locks of a process use one session, so that the database sees which process waits for which. Waiters wait in the
//! database's own queue.

use std::collections::HashMap;
use std::time::Duration;

use fencepost::clock::BoxFuture;
use tokio_postgres::error::SqlState;

use super::super::customer::Turn;
use super::super::{Buyer, Failure, Granted, Halt, Locking, Order, read_work_write};
use super::LockKind;
use crate::protocol::{Purchase, ReleaseResult};
use crate::store::latch::postgres::advisory_key;
use crate::store::postgres::{Connection, StoreError, table_of};
use crate::store::stock::postgres::PostgresStock;

/// What represents the name of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The stock of that product, which is the protected data.
    Stock,
    /// An object with that name; the protected data is kept by the lab.
    Thing,
}

/// Takes locks in one session.
pub(super) struct SessionLock {
    stock: PostgresStock,
    kind: LockKind,
    target: Target,
    holds: HashMap<u64, Hold>,
    forfeited: Vec<u64>,
    last_hold: u64,
}

struct Hold {
    key: String,
    /// The session it belongs to.
    generation: i64,
}

/// The database's answer to a request for a lock.
enum Answer {
    Granted,
    Taken,
    /// The database detected a deadlock and aborted this request.
    Deadlock,
}

impl SessionLock {
    pub(super) fn open(endpoint: &str, kind: LockKind, target: Target) -> Result<Self, Failure> {
        Ok(Self {
            stock: PostgresStock::open(endpoint)?,
            kind,
            target,
            holds: HashMap::new(),
            forfeited: Vec::new(),
            last_hold: 0,
        })
    }

    fn connection(&mut self) -> &mut Connection {
        self.stock.connection()
    }

    /// Returns whether its locks end with a transaction. Otherwise they end only with the session.
    fn in_transaction(&self) -> bool {
        self.kind != LockKind::Advisory
    }

    fn take(
        &mut self,
        key: &str,
        wait: Duration,
        halt: &mut dyn Halt,
    ) -> Result<Option<Granted>, Failure> {
        if self.holds.is_empty() {
            self.begin()?;
        }
        let taken = self.try_twice(key, wait);
        match taken {
            Ok((Answer::Granted, contended)) => {
                halt.after(1, 1, "takes the lock");
                Ok(Some(self.granted(key, contended)))
            }
            Ok((Answer::Taken, _)) => {
                self.end_if_idle();
                Ok(None)
            }
            Ok((Answer::Deadlock, _)) => {
                self.forfeit();
                Err(Failure::definite(
                    "a deadlock, which the database ended here",
                ))
            }
            Err(failure) => {
                self.forfeit();
                Err(failure)
            }
        }
    }

    /// Tries once immediately and then, if there is time, in the queue. Also returns whether the lock was taken at the first
    /// try.
    fn try_twice(&mut self, key: &str, wait: Duration) -> Result<(Answer, bool), Failure> {
        let at_once = self.attempt(key, None)?;
        if wait.is_zero() || !matches!(at_once, Answer::Taken) {
            return Ok((at_once, false));
        }
        Ok((self.attempt(key, Some(wait))?, true))
    }

    /// Makes one request. Locks that were held before are still held afterwards, except after a deadlock.
    fn attempt(&mut self, key: &str, wait: Option<Duration>) -> Result<Answer, Failure> {
        if self.in_transaction() {
            self.run("SAVEPOINT attempt")?;
        }
        if let Some(wait) = wait {
            self.set_wait(wait)?;
        }
        let asked = match (self.kind, self.target) {
            (LockKind::Row, Target::Stock) => self.lock_row(key, wait, ROW_OF_STOCK),
            (LockKind::Row, Target::Thing) => self.lock_row(key, wait, ROW_OF_THING),
            (LockKind::Table, Target::Stock) => self.lock_table("stock", wait),
            (LockKind::Table, Target::Thing) => self.lock_table(&table_of(key), wait),
            (LockKind::Advisory | LockKind::AdvisoryOfTransaction, _) => {
                self.lock_number(key, wait)
            }
        };
        let answer = match asked {
            Ok(granted) => {
                let found = granted?;
                if found {
                    Answer::Granted
                } else {
                    Answer::Taken
                }
            }
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                if self.in_transaction() {
                    self.run("ROLLBACK TO attempt")?;
                }
                Answer::Taken
            }
            Err(error) if error.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED) => {
                Answer::Deadlock
            }
            Err(error) => return Err(error.into_read_failure()),
        };
        Ok(answer)
    }

    /// Sets how long the database lets a request wait.
    fn set_wait(&mut self, wait: Duration) -> Result<(), Failure> {
        let milliseconds = wait.as_millis().clamp(1, 2_000_000_000);
        let scope = if self.in_transaction() {
            "LOCAL"
        } else {
            "SESSION"
        };
        self.run(&format!("SET {scope} lock_timeout = {milliseconds}"))
    }

    fn lock_row(
        &mut self,
        key: &str,
        wait: Option<Duration>,
        [at_once, waiting]: [&'static str; 2],
    ) -> LockAnswer {
        let sql = if wait.is_none() { at_once } else { waiting };
        let rows = self
            .connection()
            .ask_within(sql, &[&key], wait.unwrap_or_default())?;
        // If there is no row, nothing was locked.
        Ok(if rows.is_empty() {
            Err(Failure::definite(format!(
                "there is no row of {key} to lock"
            )))
        } else {
            Ok(true)
        })
    }

    fn lock_table(&mut self, table: &str, wait: Option<Duration>) -> LockAnswer {
        let at_once = if wait.is_none() { " NOWAIT" } else { "" };
        let sql = format!("LOCK TABLE {table} IN EXCLUSIVE MODE{at_once}");
        self.connection()
            .run_within(&sql, wait.unwrap_or_default())
            .map(|()| Ok(true))
    }

    fn lock_number(&mut self, key: &str, wait: Option<Duration>) -> LockAnswer {
        let number = advisory_key(self.connection().schema(), key);
        let [at_once, waiting] = if self.in_transaction() {
            NUMBER_OF_TRANSACTION
        } else {
            NUMBER_OF_SESSION
        };
        let sql = if wait.is_none() { at_once } else { waiting };
        let rows = self
            .connection()
            .ask_within(sql, &[&number], wait.unwrap_or_default())?;
        Ok(Ok(rows.first().is_some_and(|row| row.get(0))))
    }

    fn granted(&mut self, key: &str, contended: bool) -> Granted {
        self.last_hold += 1;
        let hold = Hold {
            key: key.to_owned(),
            generation: self.connection().generation(),
        };
        self.holds.insert(self.last_hold, hold);
        Granted::plain(self.last_hold, contended)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.connection().pin(false);
        if self.in_transaction() {
            self.run("BEGIN")?;
        } else {
            // The session must exist before it is pinned.
            self.run("SELECT")?;
        }
        self.connection().pin(true);
        Ok(())
    }

    /// Ends the transaction if no locks are left.
    fn end_if_idle(&mut self) {
        if self.holds.is_empty() {
            self.give_up();
        }
    }

    /// Ends everything. Writes of the transaction are rolled back.
    fn give_up(&mut self) {
        let statement = if self.in_transaction() {
            "ROLLBACK"
        } else {
            "SELECT pg_advisory_unlock_all()"
        };
        // A session that is gone has already ended everything.
        let _ = self.run(statement);
        self.connection().pin(false);
    }

    /// Gives up, and loses all its locks.
    fn forfeit(&mut self) {
        self.forfeited
            .extend(self.holds.drain().map(|(hold, _)| hold));
        self.give_up();
    }

    /// Ends the hold after successful work. The last hold also commits the transaction.
    fn give_back(&mut self, hold: u64, halt: &mut dyn Halt) -> Result<ReleaseResult, Failure> {
        let held = self.holds.remove(&hold);
        let held = held.ok_or_else(|| Failure::definite("there is no such hold"))?;
        if self.connection().generation() != held.generation {
            self.end_if_idle();
            return Ok(ReleaseResult::AlreadyLost);
        }
        let word = match self.kind {
            LockKind::Advisory => self.unlock(&held.key)?,
            LockKind::Row | LockKind::Table | LockKind::AdvisoryOfTransaction => {
                if self.holds.is_empty() {
                    self.connection()
                        .run("COMMIT")
                        .map_err(StoreError::into_write_failure)?;
                }
                ReleaseResult::Released
            }
        };
        if self.holds.is_empty() {
            self.connection().pin(false);
        }
        halt.after(1, 1, "releases the lock");
        Ok(word)
    }

    fn unlock(&mut self, key: &str) -> Result<ReleaseResult, Failure> {
        const SQL: &str = "SELECT pg_advisory_unlock($1)";
        let number = advisory_key(self.connection().schema(), key);
        let row = self.connection().ask_one(SQL, &[&number]);
        let row = row.map_err(StoreError::into_write_failure)?;
        Ok(if row.is_some_and(|row| row.get(0)) {
            ReleaseResult::Released
        } else {
            ReleaseResult::AlreadyLost
        })
    }

    /// Forgets a hold, and leaves it to the database.
    pub(super) fn forget(&mut self, hold: u64) {
        self.holds.remove(&hold);
        if self.holds.is_empty() {
            self.connection().pin(false);
        }
    }

    pub(super) fn run(&mut self, statement: &str) -> Result<(), Failure> {
        self.connection()
            .run(statement)
            .map_err(StoreError::into_read_failure)
    }
}

/// The database's answer to a request and, inside, its meaning for the lock.
type LockAnswer = Result<Result<bool, Failure>, StoreError>;

const NUMBER_OF_SESSION: [&str; 2] = [
    "SELECT pg_try_advisory_lock($1)",
    "SELECT true FROM (SELECT pg_advisory_lock($1)) AS granted",
];

const NUMBER_OF_TRANSACTION: [&str; 2] = [
    "SELECT pg_try_advisory_xact_lock($1)",
    "SELECT true FROM (SELECT pg_advisory_xact_lock($1)) AS granted",
];

const ROW_OF_STOCK: [&str; 2] = [
    "SELECT 1 FROM stock WHERE product = $1 FOR UPDATE NOWAIT",
    "SELECT 1 FROM stock WHERE product = $1 FOR UPDATE",
];

const ROW_OF_THING: [&str; 2] = [
    "SELECT 1 FROM thing WHERE name = $1 FOR UPDATE NOWAIT",
    "SELECT 1 FROM thing WHERE name = $1 FOR UPDATE",
];

impl Locking for SessionLock {
    fn acquire<'a>(
        &'a mut self,
        key: &'a str,
        wait: Duration,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<Option<Granted>, Failure>> {
        Box::pin(async move { self.take(key, wait, halt) })
    }

    fn forfeited(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.forfeited)
    }

    fn knows_lost(&mut self, hold: u64) -> bool {
        let generation = self.connection().generation();
        let held = self.holds.get(&hold);
        held.is_none_or(|held| held.generation != generation)
    }

    fn release<'a>(
        &'a mut self,
        hold: u64,
        halt: &'a mut dyn Halt,
    ) -> BoxFuture<'a, Result<ReleaseResult, Failure>> {
        Box::pin(async move { self.give_back(hold, halt) })
    }
}

/// Buys under such a lock in the same session. The commit of the purchase also releases the lock, or the release follows it.
pub(super) struct SessionBuyer(SessionLock);

impl SessionBuyer {
    pub(super) fn new(lock: SessionLock) -> Self {
        Self(lock)
    }

    async fn buy(&mut self, order: &Order) -> Result<Purchase, Failure> {
        let turn = Turn::take(&mut self.0, order, order.wait).await?;
        let Some(held) = turn.held else {
            return Ok(turn.busy());
        };
        let bought = match read_work_write(&mut self.0.stock, order) {
            Ok(bought) => bought,
            Err(failure) => {
                self.0.forfeit();
                // A purchase that was not committed did not happen.
                return Err(if self.0.in_transaction() {
                    Failure::definite(failure)
                } else {
                    failure
                });
            }
        };
        self.0.finish(held.hold)?;
        Ok(Purchase {
            contended: held.contended,
            waited_ms: turn.waited_ms,
            fence: held.fence,
            ..bought
        })
    }
}

impl SessionLock {
    /// Commits the purchase. Without a transaction it is already final, whatever happens to the lock.
    fn finish(&mut self, hold: u64) -> Result<(), Failure> {
        let released = self.give_back(hold, &mut super::super::customer::Onwards);
        match (self.in_transaction(), released) {
            (true, Ok(ReleaseResult::AlreadyLost)) => {
                Err(Failure::definite("the session ended before the commit"))
            }
            (true, Err(failure)) => Err(failure),
            _ => Ok(()),
        }
    }
}

impl Buyer for SessionBuyer {
    fn purchase<'a>(&'a mut self, order: &'a Order) -> BoxFuture<'a, Result<Purchase, Failure>> {
        Box::pin(self.buy(order))
    }
}
