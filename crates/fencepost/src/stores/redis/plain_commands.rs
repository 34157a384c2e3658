//! Acquires a lock that nobody else seems to want with plain commands instead of a script.

use std::sync::Arc;

use redis::Value;

use super::failure;
use super::keys::{fence_of, line_of};
use super::scripts::{LAYOUT, ReadValue, millis};
use super::session::Session;
use crate::claim::Claim;
use crate::error::{Operation, Result};
use crate::stores::kit::wall_clock::unix_millis;

/// The result of the plain commands.
pub(super) enum PlainAttempt {
    Granted,
    /// We may have the lock, but without an epoch: the script must check.
    Otherwise {
        lost_count: bool,
        /// Whether the commands set the key.
        is_set: bool,
    },
}

/// Acquires a lock that nobody seems to want with plain commands, which cost the server half as much as the script. Each command can fail,
/// and anything can happen between them. If an answer is not exactly as expected, the script takes over.
pub(super) async fn try_plain_commands(
    session: &Arc<Session>,
    claim: &Claim,
    epoch: u64,
) -> Result<PlainAttempt> {
    let name = claim.name.as_str();
    let ttl = millis(claim.ttl);
    let (owner, since, label) = (claim.owner, unix_millis(), &claim.label);
    let mut commands = redis::Pipeline::with_capacity(3);
    let set = commands.cmd("SET").arg(name);
    set.arg(format!("{owner} ~{epoch} {ttl} {since} {label}"));
    set.arg("NX").arg("PX").arg(ttl);
    // With XX, `ZADD` does not recreate a counter that the server has forgotten. It would never expire if we died before the script set its
    // expiry.
    let count = commands.cmd("ZADD").arg(fence_of(name));
    count.arg("XX").arg("INCR").arg(1).arg(LAYOUT);
    commands.cmd("EXISTS").arg(line_of(name));
    let answers = session.send_all(&commands).await;
    let answers = answers.map_err(|cause| failure::of_command(Operation::Acquire, cause))?;
    let [set, counted, waiting] = answers.as_slice() else {
        return Err(failure::unexpected(Operation::Acquire, "too few answers"));
    };
    let is_expected = counted.integer() == Some(epoch.cast_signed());
    Ok(match (set, waiting.integer()) {
        (Value::Okay, Some(0)) if is_expected => PlainAttempt::Granted,
        _ => PlainAttempt::Otherwise {
            lost_count: !is_expected,
            is_set: matches!(set, Value::Okay),
        },
    })
}
