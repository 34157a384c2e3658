//! A lock written from scratch on the run's SQLite file, one row per lock, with optional flaws.
//!
//! It uses nothing from the library but the clock, and keeps its rows where the lab can see them.

use std::time::Duration;

use fencepost::clock::{BootClock, Clock};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

/// The flaw of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Every process gets the lock.
    NoLock,
    /// A release deletes whatever is there.
    BlindDelete,
    /// Grants never expire.
    NoExpiry,
    /// A grant that has expired is not replaced by the next, so every later process gets the lock.
    TwiceAfterExpiry,
    /// A release does nothing, and grants never expire.
    ForgetsToRelease,
    /// Every grant has the same fence.
    FenceConstant,
    /// Every fence is lower than the one before.
    FenceRegressing,
    /// Fences are words, which have no order.
    FenceOfWords,
    /// There is no fence.
    NoFence,
}

/// The lock from the point of view of one process.
pub(crate) struct Latch {
    connection: Connection,
    ttl: Duration,
    flaw: Option<Flaw>,
    has_fences: bool,
}

/// A grant.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) key: String,
    pub(crate) token: String,
    pub(crate) fence: Option<String>,
    pub(crate) until_ns: i64,
}

impl Latch {
    pub(crate) fn open(path: &str, ttl: Duration, flaw: Option<Flaw>, has_fences: bool) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        let table = "CREATE TABLE IF NOT EXISTS courtroom_fence (n INTEGER)";
        connection.execute_batch(table).unwrap();
        Self {
            connection,
            ttl,
            flaw,
            has_fences,
        }
    }

    /// Tries once.
    pub(crate) fn take(&mut self, key: &str, token: &str) -> Option<Grant> {
        let (flaw, ttl, has_fences) = (self.flaw, self.ttl, self.has_fences);
        let transaction = self.begin();
        let now_ns = now_ns();
        let until_ns = now_ns + i64::try_from(ttl.as_nanos()).unwrap();
        if flaw != Some(Flaw::NoLock) {
            let end = end_of(&transaction, key);
            if matches!(end, Some(None)) || matches!(end, Some(Some(end)) if end > now_ns) {
                return None;
            }
            let stays = matches!(flaw, Some(Flaw::NoExpiry | Flaw::ForgetsToRelease));
            if end.is_none() || flaw != Some(Flaw::TwiceAfterExpiry) {
                let row = params![key, token, (!stays).then_some(until_ns)];
                transaction
                    .execute("INSERT OR REPLACE INTO latch VALUES (?1, ?2, ?3)", row)
                    .unwrap();
            }
        }
        let fence = has_fences.then(|| fence(&transaction, flaw)).flatten();
        transaction.commit().unwrap();
        Some(Grant {
            key: key.into(),
            token: token.into(),
            fence,
            until_ns,
        })
    }

    /// Releases the lock. Returns whether the grant was still there.
    pub(crate) fn give_back(&mut self, grant: &Grant) -> bool {
        let sql = match self.flaw {
            Some(Flaw::NoLock | Flaw::ForgetsToRelease) => return true,
            Some(Flaw::BlindDelete) => "DELETE FROM latch WHERE key = ?1 AND ?2 <> ''",
            _ => "DELETE FROM latch WHERE key = ?1 AND token = ?2",
        };
        let parameters = params![grant.key, grant.token];
        self.connection.execute(sql, parameters).unwrap() > 0
    }

    pub(crate) fn units(&self, product: &str) -> i64 {
        let sql = "SELECT units FROM stock WHERE product = ?1";
        let units = self.connection.query_row(sql, [product], |row| row.get(0));
        units.unwrap()
    }

    pub(crate) fn set_units(&self, product: &str, units: i64) {
        let sql = "UPDATE stock SET units = ?2 WHERE product = ?1";
        self.connection
            .execute(sql, params![product, units])
            .unwrap();
    }

    fn begin(&mut self) -> Transaction<'_> {
        let behavior = TransactionBehavior::Immediate;
        self.connection.transaction_with_behavior(behavior).unwrap()
    }
}

/// Returns when the current grant expires; `Some(None)` means never.
fn end_of(transaction: &Transaction<'_>, key: &str) -> Option<Option<i64>> {
    let sql = "SELECT expires_ns FROM latch WHERE key = ?1";
    let end = transaction.query_row(sql, [key], |row| row.get(0));
    end.optional().unwrap()
}

fn fence(transaction: &Transaction<'_>, flaw: Option<Flaw>) -> Option<String> {
    let sql = "INSERT INTO courtroom_fence SELECT 1 + COUNT(*) FROM courtroom_fence RETURNING n";
    let number: i64 = transaction.query_row(sql, [], |row| row.get(0)).unwrap();
    match flaw {
        Some(Flaw::NoFence) => None,
        Some(Flaw::FenceConstant) => Some("7".into()),
        Some(Flaw::FenceOfWords) => Some(format!("word {number}")),
        Some(Flaw::FenceRegressing) => Some((1_000 - number).to_string()),
        _ => Some(number.to_string()),
    }
}

pub(crate) fn now_ns() -> i64 {
    i64::try_from(BootClock.now().as_nanos()).unwrap()
}
