//! Takes the lock for `exec`, or reports why it cannot.

use std::time::Duration;

use fencepost::backend::Record;
use fencepost::{Backend, Guard, LockName, Locker};
use nix::sys::signal::Signal;

use super::messages::{self, Spoken};
use super::signals::Signals;
use super::{Plan, terminal};
use crate::exit;
use crate::store::NotOpened;
use crate::wording::{harmless_record, seconds};

/// Why the command was not started: an exit code and lines for standard error.
#[derive(Debug)]
pub(super) struct NotStarted {
    pub(super) code: u8,
    pub(super) lines: Vec<String>,
}

/// The time after which a line about the holder is printed.
const SUSPENSE: Duration = Duration::from_secs(1);
/// How long leaving the queue may take.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// Takes the lock, and queues for it if `--wait` allows.
pub(super) async fn for_the_lock(
    plan: &Plan,
    locker: &Locker,
    signals: &mut Signals,
) -> Result<Guard, NotStarted> {
    let timeout = plan.wait.unwrap_or(Duration::ZERO);
    let asking = async {
        tokio::select! {
            biased;
            asked = for_the_full_time(plan, locker, timeout) => asked,
            () = suspense(plan, locker) => unreachable!("it never ends"),
        }
    };
    let asked = match unless_interrupted(plan, signals, asking).await {
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
        Ok(None) if timeout.is_zero() => Err(NotStarted {
            code: exit::BUSY,
            lines: vec![
                busy(plan, &**locker.backend()).await,
                format!(
                    "{} was not started. To queue: --wait 5m. To look: fencepost locks show {}",
                    plan.program(),
                    plan.named_here()
                ),
            ],
        }),
        Ok(None) => Err(NotStarted {
            code: exit::TIMED_OUT,
            lines: vec![format!(
                "{} was not started: {} was not free within {}",
                plan.program(),
                plan.name,
                seconds(timeout)
            )],
        }),
        Err(error) => Err(NotStarted::store(
            plan,
            &NotOpened::new(&plan.store, &error),
        )),
    }
}

/// Takes the lock and renews it once, so that the lease has its full TTL. After a wait, less may be left at first, and the rest could be
/// too short to stop the command in time.
async fn for_the_full_time(
    plan: &Plan,
    locker: &Locker,
    timeout: Duration,
) -> fencepost::Result<Option<Guard>> {
    let guard = locker.acquire_within(&plan.name, timeout).await?;
    if let Some(guard) = guard
        .as_ref()
        .filter(|guard| guard.valid_for() < plan.ttl / 2)
    {
        guard.extend(plan.ttl).await?;
    }
    Ok(guard)
}

impl NotStarted {
    pub(super) fn store(plan: &Plan, reason: &NotOpened) -> Self {
        Self {
            code: reason.code,
            lines: vec![
                format!("cannot use the store {}: {}", reason.place, reason.words),
                format!("{} was not started", plan.program()),
            ],
        }
    }
}

/// Returns the output of `work`, unless a signal asks this program to end first.
pub(super) async fn unless_interrupted<W: Future>(
    plan: &Plan,
    signals: &mut Signals,
    work: W,
) -> Result<W::Output, NotStarted> {
    tokio::select! {
        biased;
        output = work => Ok(output),
        signal = interruption(signals) => Err(NotStarted {
            code: exit::interrupted(signal),
            lines: vec![format!(
                "{} was not started: {signal} while waiting for {}",
                plan.program(),
                plan.name
            )],
        }),
    }
}

/// Leaves the queue before the program ends, because the process would not live long enough to do it in the background.
async fn leave(locker: &Locker) {
    let _ = tokio::time::timeout(EXIT_GRACE, locker.shutdown()).await;
}

/// Completes when a signal asks this program to end. Pauses the program on signals that ask for that.
async fn interruption(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            signal @ (Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT) => {
                return signal;
            }
            Signal::SIGTSTP => terminal::pause_self(),
            _ => {}
        }
    }
}

/// Prints who holds the lock, after waiting for a while. Never completes.
async fn suspense(plan: &Plan, locker: &Locker) {
    tokio::time::sleep(SUSPENSE).await;
    if !plan.quiet
        && let Some(record) = look(&**locker.backend(), &plan.name).await
    {
        let now = locker.backend().clock().now();
        let has_line = locker.backend().capabilities().fifo;
        messages::say(messages::waiting(
            &plan.name,
            &record,
            (now, has_line),
            locker.label(),
        ));
    }
    std::future::pending().await
}

async fn busy(plan: &Plan, backend: &dyn Backend) -> Spoken {
    let record = look(backend, &plan.name).await;
    messages::busy(&plan.name, record.as_ref(), backend.clock().now())
}

/// Returns the store's record of the lock. Errors are ignored, since the record only serves to explain.
async fn look(backend: &dyn Backend, name: &LockName) -> Option<Record> {
    let record = tokio::time::timeout(SUSPENSE, backend.inspect(name)).await;
    record.ok()?.ok().flatten().map(harmless_record)
}
