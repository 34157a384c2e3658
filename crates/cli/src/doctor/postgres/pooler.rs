//! Whether a connection keeps its session.

use fencepost::Error;
use fencepost::stores::postgres::Connection;

use super::super::finding::{Finding, Harm};
use super::facts::ask;

const WHO: &str = "select pg_backend_pid() as pid";

/// Asks with `one` which session it has, before and while `other` is in a transaction: a pooler in transaction mode gives the
/// session away in between, or has none left and lets `one` wait.
pub(super) async fn judge(one: &Connection, other: &Connection) -> Result<Finding, Error> {
    let pid = |row: std::collections::HashMap<String, String>| row.get("pid").cloned();
    let before = pid(ask(one, WHO).await?);
    // In statement mode there are no transactions, and who begins one is thrown out.
    let is_transaction = ask(other, "begin").await.is_ok();
    let theirs = ask(other, WHO).await.ok().and_then(pid);
    let after = ask(one, WHO).await.ok().and_then(pid);
    let _ended = ask(other, "rollback").await;
    if is_transaction && before == after && theirs != before {
        return Ok(Finding::fine("pooler", "a session of its own"));
    }
    let what =
        "a pooler hands statements to changing sessions (pool_mode = transaction or statement)";
    Ok(Finding::danger("pooler", Harm::NoLocks, what)
        .means("A lock belongs to a session, and would be stranded in one that somebody else uses.")
        .advice("the address of the server itself, or a pool in session mode"))
}
