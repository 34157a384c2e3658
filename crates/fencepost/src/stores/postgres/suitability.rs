//! Checks once, with a lock that nobody else knows, that locks of two sessions exclude each other.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::rows::text;
use super::session::{Session, pooled};
use super::{STORE, failure, statements};
use crate::clock::{BootClock, Clock, within};
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::random::{Random, SystemRandom};

/// How long the other session stays in its transaction if a statement is not answered. A pool makes its clients wait if it has no free
/// session, so the answer may come only after that transaction.
const POOL_TIMEOUT: Duration = Duration::from_millis(250);

const OPERATION: Operation = Operation::Open;

/// Takes a lock with `one`, and checks that `other` does not get it and that `one` still has it while `other` is in a transaction. In that
/// state, a pooler in transaction mode has to give `one` a different session. If that does not show here, it does later: every statement
/// checks on which session it was executed.
///
/// Every statement must be answered within `answer_timeout`.
pub(super) async fn check(
    one: &Arc<Session>,
    other: &Arc<Session>,
    answer_timeout: Duration,
) -> Result<()> {
    let random: &dyn Random = &SystemRandom;
    let key = random.next_u128() as i64;
    let try_lock = format!("select pg_backend_pid(), pg_try_advisory_lock('{key}'::bigint)");
    let unlock = statements::only_unlock(key);
    let taken = answered(answer_timeout, one.ask(OPERATION, &try_lock)).await?;
    if text(&taken, 1) != "t" {
        return Err(unfit("a lock that nobody knows is taken"));
    }
    answered(answer_timeout, other.ask_all(OPERATION, "begin")).await?;
    let taken_again = answered(answer_timeout, other.ask(OPERATION, &try_lock)).await?;
    if text(&taken_again, 1) != "f" {
        let told_apart = one.pid != other.pid;
        let _undone = answered(answer_timeout, other.ask(OPERATION, &unlock)).await;
        return Err(if told_apart {
            unfit("two sessions can have the same lock")
        } else {
            pooled(OPERATION)
        });
    }
    let mut freeing = pin!(one.ask(OPERATION, &unlock));
    let at_once = within(&BootClock, BootClock.now() + POOL_TIMEOUT, &mut freeing).await;
    answered(answer_timeout, other.ask_all(OPERATION, "rollback")).await?;
    let freed = match at_once {
        Some(freed) => freed?,
        None => answered(answer_timeout, freeing).await?,
    };
    if text(&freed, 1) != "t" {
        return Err(pooled(OPERATION));
    }
    Ok(())
}

/// Waits for an answer of the server.
async fn answered<T>(
    answer_timeout: Duration,
    answer: impl Future<Output = Result<T>>,
) -> Result<T> {
    let until = BootClock.now() + answer_timeout;
    let answer = within(&BootClock, until, answer).await;
    answer.unwrap_or_else(|| Err(failure::unreachable(STORE, OPERATION)))
}

fn unfit(what: &str) -> Error {
    let message =
        format!("the advisory locks of this server exclude nobody: {what}; is it Postgres?");
    let error = Error::unexpected_answer(STORE, OPERATION, what);
    Error::new(ErrorKind::Unusable, STORE, OPERATION, message).with_source(error)
}
