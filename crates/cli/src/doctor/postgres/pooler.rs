//! Whether a connection keeps its session.

use fencepost::Error;
use fencepost::stores::postgres::Connection;

use super::facts::ask;

const WHO: &str = "select pg_backend_pid() as pid";

/// Whether there is no pooler in between that gives sessions away.
///
/// Asks with `one` which session it has, before and while `other` is in a transaction: a pooler in transaction mode gives the
/// session away in between, or has none left and lets `one` wait.
pub(super) async fn keeps_sessions(one: &Connection, other: &Connection) -> Result<bool, Error> {
    let pid = |row: std::collections::HashMap<String, String>| row.get("pid").cloned();
    let before = pid(ask(one, WHO).await?);
    // In statement mode there are no transactions, and who begins one is thrown out.
    let is_transaction = ask(other, "begin").await.is_ok();
    let theirs = ask(other, WHO).await.ok().and_then(pid);
    let after = ask(one, WHO).await.ok().and_then(pid);
    let _ended = ask(other, "rollback").await;
    Ok(is_transaction && before == after && theirs != before)
}
