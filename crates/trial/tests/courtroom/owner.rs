//! The owner of a lock that is a process: whether it is still there, and its fence.

use rusqlite::{OptionalExtension, Transaction, params};

use crate::flaw::Flaw;

/// Returns whether the owner of a lock is dead, as far as the lock looks at that.
pub(crate) fn owner_is_gone(transaction: &Transaction<'_>, flaw: Option<Flaw>, name: &str) -> bool {
    let looks = matches!(flaw, Some(Flaw::LooksAlive | Flaw::KnowsItsOwner));
    let Some(token) = record_owner(transaction, name).filter(|_| looks) else {
        return false;
    };
    match token.split_once(' ') {
        None => started(&token).is_none(),
        Some((pid, since)) => started(pid).as_deref() != Some(since),
    }
}

/// Returns when the process with this process id started, as the kernel counts it; `None` if there is none.
pub(crate) fn started(pid: &str) -> Option<String> {
    const PLACE: usize = 19;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(") ")?;
    after_name.split(' ').nth(PLACE).map(str::to_owned)
}

/// Returns what the record of a lock says about its owner.
pub(crate) fn record_owner(transaction: &Transaction<'_>, key: &str) -> Option<String> {
    let sql = "SELECT token FROM latch WHERE key = ?1";
    let token = transaction.query_row(sql, [key], |row| row.get(0));
    token.optional().unwrap()
}

/// Keeps the fence of a grant.
pub(crate) fn keep_fence(transaction: &Transaction<'_>, key: &str, fence: Option<&str>) {
    let sql = "INSERT OR REPLACE INTO courtroom_kept VALUES (?1, ?2)";
    transaction.execute(sql, params![key, fence]).unwrap();
}

/// Returns the fence of the latest grant.
pub(crate) fn fence_kept(transaction: &Transaction<'_>, key: &str) -> Option<String> {
    let sql = "SELECT fence FROM courtroom_kept WHERE key = ?1";
    let fence = transaction.query_row(sql, [key], |row| row.get(0));
    fence.optional().unwrap().flatten()
}
