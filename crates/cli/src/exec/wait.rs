//! Takes the lock for `exec`, or reports why it cannot.

use std::time::Duration;

use fencepost::{Guard, Locker};

use super::Plan;
use crate::exit;
use crate::store::NotOpened;
use crate::supervision::{NotStarted, Signals, busy, leave, look, suspense, unless_interrupted};
use crate::wording::seconds;

/// Takes the lock, and queues for it if `--wait` allows.
pub(super) async fn for_the_lock(
    plan: &Plan,
    locker: &Locker,
    signals: &mut Signals,
) -> Result<Guard, NotStarted> {
    let supervised = &plan.supervised;
    let timeout = plan.wait.unwrap_or(Duration::ZERO);
    let asking = async {
        tokio::select! {
            biased;
            asked = for_the_full_time(plan, locker, timeout) => asked,
            () = suspense(supervised, locker, plan.quiet) => unreachable!("it never ends"),
        }
    };
    let asked = match unless_interrupted(supervised, signals, asking).await {
        Ok(asked) => asked,
        Err(interrupted) => {
            leave(locker).await;
            return Err(interrupted);
        }
    };
    if !matches!(asked, Ok(Some(_))) {
        leave(locker).await;
    }
    match asked {
        Ok(Some(guard)) => Ok(guard),
        Ok(None) if timeout.is_zero() => Err(is_busy(plan, locker).await),
        Ok(None) => Err(NotStarted {
            code: exit::TIMED_OUT,
            lines: vec![format!(
                "{} was not started: {} was not free within {}",
                supervised.program(),
                supervised.name,
                seconds(timeout)
            )],
        }),
        Err(error) => {
            let reason = NotOpened::new(&plan.store, &error);
            Err(NotStarted::store(supervised, &reason))
        }
    }
}

/// Takes the lock and renews it once, so that the lease has its full TTL. After a wait, less may be left at first, and the rest could be
/// too short to stop the command in time.
async fn for_the_full_time(
    plan: &Plan,
    locker: &Locker,
    timeout: Duration,
) -> fencepost::Result<Option<Guard>> {
    let Plan { supervised, .. } = plan;
    let guard = locker.acquire_within(&supervised.name, timeout).await?;
    if let Some(guard) = guard
        .as_ref()
        .filter(|guard| guard.valid_for() < supervised.ttl / 2)
    {
        guard.extend(supervised.ttl).await?;
    }
    Ok(guard)
}

async fn is_busy(plan: &Plan, locker: &Locker) -> NotStarted {
    let (supervised, backend) = (&plan.supervised, &**locker.backend());
    let record = look(backend, &supervised.name).await;
    NotStarted {
        code: exit::BUSY,
        lines: vec![
            busy(&supervised.name, record.as_ref(), backend.clock().now()),
            format!(
                "{} was not started. To queue: --wait 5m. To look: fencepost locks show {}",
                supervised.program(),
                plan.named_here()
            ),
        ],
    }
}
