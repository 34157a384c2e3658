//! Detects a connection pooler that does not keep a connection on one Postgres session.

use fencepost::Error;
use fencepost::stores::postgres::Connection;

use super::facts::ask;

const WHO: &str = "select pg_backend_pid() as pid";

/// Returns whether each connection keeps its session.
///
/// Asks for the session of `one` before and while `other` is in a transaction. A pooler in transaction mode gives the session to `other`
/// in between, or has no session left and makes `one` wait.
pub(super) async fn keeps_sessions(one: &Connection, other: &Connection) -> Result<bool, Error> {
    let pid = |row: std::collections::HashMap<String, String>| row.get("pid").cloned();
    let before = pid(ask(one, WHO).await?);
    // A pooler in statement mode disconnects clients that begin a transaction.
    let is_transaction = ask(other, "begin").await.is_ok();
    let theirs = ask(other, WHO).await.ok().and_then(pid);
    let after = ask(one, WHO).await.ok().and_then(pid);
    let _ended = ask(other, "rollback").await;
    Ok(is_transaction && before == after && theirs != before)
}
