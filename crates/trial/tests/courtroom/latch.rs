//! A lock written from scratch on the run's SQLite file, one row per lock, with optional flaws.
//!
//! It uses nothing from the library but the clock, and keeps its rows where the lab can see them.

use std::time::Duration;

use fencepost::clock::{BootClock, Clock};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::part::ExternalLock;

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
    /// A process that is started again creates the table of fences anew.
    FenceRestarts,
    /// A release deletes every lock of its process whose name begins like that of the lock.
    ReleasesPrefix,
    /// Names are cut off, and a process gets a lock again that it has.
    CutsNames,
    /// Only the latest of several locks is renewed.
    RenewsLast,
}

/// How many letters of a name count, if names are cut off.
const LETTERS: usize = 9;

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
    pub(crate) fn open(path: &str, ttl: Duration, lock: ExternalLock, is_restarted: bool) -> Self {
        let (flaw, has_fences) = (lock.flaw, lock.claims.fencing);
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        let table = "CREATE TABLE IF NOT EXISTS courtroom_fence (n INTEGER)";
        connection.execute_batch(table).unwrap();
        if flaw == Some(Flaw::FenceRestarts) && is_restarted {
            let anew = "DELETE FROM courtroom_fence";
            connection.execute_batch(anew).unwrap();
        }
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
        let name = record_of(flaw, key);
        let transaction = self.begin();
        let now_ns = now_ns();
        let until_ns = now_ns + i64::try_from(ttl.as_nanos()).unwrap();
        if flaw != Some(Flaw::NoLock) {
            let end = end_of(&transaction, name);
            let is_own = flaw == Some(Flaw::CutsNames)
                && owner_of(&transaction, name).as_deref() == owner(token);
            let is_taken = match end {
                None => false,
                Some(end) => end.is_none_or(|end| end > now_ns),
            };
            if is_taken && !is_own {
                return None;
            }
            let stays = matches!(flaw, Some(Flaw::NoExpiry | Flaw::ForgetsToRelease));
            if end.is_none() || flaw != Some(Flaw::TwiceAfterExpiry) {
                let row = params![name, token, (!stays).then_some(until_ns)];
                transaction
                    .execute("INSERT OR REPLACE INTO latch VALUES (?1, ?2, ?3)", row)
                    .unwrap();
            }
        }
        let fence = has_fences.then(|| fence(&transaction, flaw)).flatten();
        transaction.commit().unwrap();
        Some(Grant {
            key: name.into(),
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
            Some(Flaw::ReleasesPrefix | Flaw::CutsNames) => {
                let sql = "DELETE FROM latch WHERE key LIKE ?1 || '%' AND token LIKE ?2 || ' %'";
                let parameters = params![grant.key, owner(&grant.token)];
                return self.connection.execute(sql, parameters).unwrap() > 0;
            }
            _ => "DELETE FROM latch WHERE key = ?1 AND token = ?2",
        };
        let parameters = params![grant.key, grant.token];
        self.connection.execute(sql, parameters).unwrap() > 0
    }

    /// Renews a grant.
    pub(crate) fn renew(&mut self, grant: &Grant) {
        let until_ns = now_ns() + i64::try_from(self.ttl.as_nanos()).unwrap();
        let sql = "UPDATE latch SET expires_ns = ?3 WHERE key = ?1 AND token = ?2";
        let parameters = params![grant.key, grant.token, until_ns];
        self.connection.execute(sql, parameters).unwrap();
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

/// Returns the name under which a lock is kept.
fn record_of(flaw: Option<Flaw>, key: &str) -> &str {
    match flaw {
        Some(Flaw::CutsNames) => key.get(..LETTERS).unwrap_or(key),
        _ => key,
    }
}

/// Returns the process that a token belongs to.
fn owner(token: &str) -> Option<&str> {
    token.split(' ').next()
}

fn owner_of(transaction: &Transaction<'_>, key: &str) -> Option<String> {
    let sql = "SELECT token FROM latch WHERE key = ?1";
    let token = transaction.query_row(sql, [key], |row| row.get::<_, String>(0));
    let token = token.optional().unwrap()?;
    owner(&token).map(str::to_owned)
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
