//! Checks once, with a lock that nobody else knows, that locks of two sessions exclude each other.

use std::sync::Arc;
use std::time::Duration;

use super::rows::text;
use super::session::{Session, pooled};
use super::{STORE, statements};
use crate::clock::{BootClock, Clock, within};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::random::{Random, SystemRandom};

/// How long to wait for an answer. A pool without a free session makes its clients wait; a server does not.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

const OPERATION: Operation = Operation::Open;

/// Takes a lock with `one`, and checks that `other` does not get it and that `one` still has it while `other` is in a transaction. In that
/// state, a pooler in transaction mode has to give `one` a different session.
pub(super) async fn check(one: &Arc<Session>, other: &Arc<Session>) -> Result<()> {
    let random: &dyn Random = &SystemRandom;
    let key = random.next_u128() as i64;
    let try_lock = format!("select pg_backend_pid(), pg_try_advisory_lock('{key}'::bigint)");
    if text(&one.ask(OPERATION, &try_lock).await?, 1) != "t" {
        return Err(unfit("a lock that nobody knows is taken"));
    }
    other.ask_all(OPERATION, "begin").await?;
    if text(&other.ask(OPERATION, &try_lock).await?, 1) != "f" {
        let told_apart = one.pid != other.pid;
        let _undone = other.ask(OPERATION, &statements::only_unlock(key)).await;
        return Err(if told_apart {
            unfit("two sessions can have the same lock")
        } else {
            pooled(OPERATION)
        });
    }
    let unlock = statements::only_unlock(key);
    let until = BootClock.now() + ANSWER_TIMEOUT;
    let freed = within(&BootClock, until, one.ask(OPERATION, &unlock)).await;
    let freed = freed.unwrap_or_else(|| Err(pooled(OPERATION)))?;
    if text(&freed, 1) != "t" {
        return Err(pooled(OPERATION));
    }
    other.ask_all(OPERATION, "rollback").await?;
    Ok(())
}

fn unfit(what: &str) -> Error {
    let message =
        format!("the advisory locks of this server exclude nobody: {what}; is it Postgres?");
    let error = Error::unexpected_answer(STORE, OPERATION, what);
    Error::new(ErrorKind::Unusable, STORE, OPERATION, message).with_source(error)
}
