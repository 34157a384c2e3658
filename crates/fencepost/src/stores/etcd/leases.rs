//! Grants, keeps alive and revokes etcd leases.

use std::time::Duration;

use etcd_client::{Client, Error as Cause, LeaseGrantOptions};

use super::failure;
use super::hub::{ANSWER_TIMEOUT, Failed, Hub};
use super::owners::Leases;
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Effect, Operation, Result};
use crate::random::{Random, SystemRandom};

/// A lease that the store has just granted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Granted {
    pub(super) lease: i64,
    pub(super) ttl: Duration,
    /// A moment before the lease was requested.
    pub(super) asked_at: Moment,
}

/// Requests a lease of at least `ttl`, rounded up to whole seconds and to the server's minimum.
///
/// The lease gets the number `wanted`, unless a lease of that number exists or may exist; then it gets another one.
pub(super) async fn grant(
    hub: &Hub,
    leases: &mut Leases,
    wanted: i64,
    ttl: Duration,
) -> Result<Granted> {
    let seconds = whole_seconds(ttl);
    // A lease that was granted to an earlier attempt has been running since then; the answer "it exists" would not tell how much of it is
    // left.
    let may_be_there = leases.numbers().contains(&wanted);
    let mut lease = if leases.may_revoke_late() || may_be_there {
        another()
    } else {
        wanted
    };
    loop {
        let asked_at = BootClock.now();
        leases.note(
            lease,
            asked_at + Duration::from_secs(seconds.cast_unsigned()),
        );
        let asked = hub.ask(
            Operation::Acquire,
            ANSWER_TIMEOUT,
            |mut client| async move {
                let options = LeaseGrantOptions::new().with_id(lease);
                client.lease_grant(seconds, Some(options)).await
            },
        );
        let ttl = match asked.await {
            Ok(granted) => granted.ttl(),
            Err(Failed::Refused {
                cause,
                repeated: true,
            }) if failure::is_known_lease(&cause) => seconds,
            // The lease belongs to an earlier attempt, and nobody knows how much of it is left.
            Err(Failed::Refused { cause, .. }) if failure::is_known_lease(&cause) => {
                lease = another();
                continue;
            }
            Err(failed) => {
                let error = failed.into_error(Operation::Acquire);
                if error.effect() == Effect::None {
                    leases.settle(lease);
                }
                return Err(error);
            }
        };
        let ttl = Duration::from_secs(u64::try_from(ttl).unwrap_or(0));
        leases.note(lease, asked_at + ttl);
        return Ok(Granted {
            lease,
            ttl,
            asked_at,
        });
    }
}

/// Returns a number that no lease has.
pub(super) fn another() -> i64 {
    (SystemRandom.next_u64() >> 1).cast_signed().max(1)
}

fn whole_seconds(ttl: Duration) -> i64 {
    let up = u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(ttl.as_secs() + up).unwrap_or(i64::MAX).max(1)
}

/// The state of a lease that was kept alive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) ttl: Duration,
    /// The term of the leader that kept it alive. This counts only if that leader still leads afterwards: an old leader does not know that
    /// it was replaced, and keeps leases alive that only it believes in.
    pub(super) term: u64,
}

/// Restarts a lease. Returns `None` if the lease does not exist.
pub(super) async fn keep_alive(
    hub: &Hub,
    operation: Operation,
    lease: i64,
    silence: Duration,
) -> Result<Option<Kept>> {
    let asked = hub.ask(operation, silence, |client| keep_alive_over(client, lease));
    match asked.await {
        Ok(kept) => Ok(kept),
        Err(Failed::Refused { cause, .. }) if failure::is_unknown_lease(&cause) => Ok(None),
        Err(failed) => Err(failed.into_error(operation)),
    }
}

async fn keep_alive_over(
    mut client: Client,
    lease: i64,
) -> std::result::Result<Option<Kept>, Cause> {
    // The client consumes the first answer.
    let (mut keeper, mut answers) = client.lease_keep_alive(lease).await?;
    keeper.keep_alive().await?;
    let Some(answer) = answers.message().await? else {
        let said = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        return Err(Cause::IoError(said));
    };
    let ttl = u64::try_from(answer.ttl()).unwrap_or(0);
    let term = answer.header().map_or(0, |header| header.raft_term());
    Ok((ttl > 0).then_some(Kept {
        ttl: Duration::from_secs(ttl),
        term,
    }))
}

/// Ends a lease and the keys that are attached to it. Returns whether the lease existed.
pub(super) async fn revoke(
    hub: &Hub,
    operation: Operation,
    leases: &mut Leases,
    lease: i64,
) -> Result<bool> {
    let asked = hub.ask(operation, ANSWER_TIMEOUT, |mut client| async move {
        client.lease_revoke(lease).await
    });
    let was_there = match asked.await {
        Ok(_) => true,
        Err(Failed::Refused { cause, repeated }) if failure::is_unknown_lease(&cause) => {
            if repeated {
                leases.record_unanswered_revoke(BootClock.now());
            }
            repeated
        }
        Err(failed) => {
            leases.record_unanswered_revoke(BootClock.now());
            return Err(failed.into_error(operation));
        }
    };
    leases.settle(lease);
    Ok(was_there)
}

/// Ends all leases that an owner may have.
pub(super) async fn revoke_all(hub: &Hub, operation: Operation, leases: &mut Leases) -> Result<()> {
    for lease in leases.numbers() {
        revoke(hub, operation, leases, lease).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_up_to_whole_seconds() {
        for (ttl, seconds) in [(1, 1), (1000, 1), (1001, 2), (60_000, 60)] {
            assert_eq!(whole_seconds(Duration::from_millis(ttl)), seconds);
        }
    }
}
