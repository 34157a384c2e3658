//! Getting the lock, or saying why not.

use std::time::Duration;

use fencepost::{Backend, Guard, LockName, Locker, Record};
use nix::sys::signal::Signal;

use super::signals::Signals;
use super::words::{self, Spoken};
use super::{Plan, terminal};
use crate::exit;
use crate::store::NotOpened;
use crate::wording::{harmless_record, seconds};

/// The command is not started.
#[derive(Debug)]
pub(super) struct NotStarted {
    pub(super) code: u8,
    pub(super) lines: Vec<String>,
}

/// A line about the holder appears when it takes longer than this.
const SUSPENSE: Duration = Duration::from_secs(1);
/// How long leaving the line in order may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// Takes the lock, in line if there is time for it.
pub(super) async fn for_the_lock(
    plan: &Plan,
    locker: &Locker,
    signals: &mut Signals,
) -> Result<Guard, NotStarted> {
    let patience = plan.wait.unwrap_or(Duration::ZERO);
    let asking = async {
        tokio::select! {
            biased;
            asked = for_the_full_time(plan, locker, patience) => asked,
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
        Ok(None) if patience.is_zero() => Err(NotStarted {
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
                seconds(patience)
            )],
        }),
        Err(error) => Err(NotStarted::store(
            plan,
            &NotOpened::new(&plan.store, &error),
        )),
    }
}

/// The lock, and a lease of the whole TTL with it: one who has waited may have less at first, which would be too short to
/// stop the command in time.
async fn for_the_full_time(
    plan: &Plan,
    locker: &Locker,
    patience: Duration,
) -> fencepost::Result<Option<Guard>> {
    let guard = locker.acquire_within(&plan.name, patience).await?;
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

/// The output of `work`, unless somebody asks this program to end before.
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

/// Leaves the line before the program ends: what is given back in the background would not be.
async fn leave(locker: &Locker) {
    let _ = tokio::time::timeout(FAREWELL, locker.shutdown()).await;
}

/// Completes when somebody wants this program to end. Pauses it when that is wanted.
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

/// Says whom it waits for, once it has waited a while. Never ends.
async fn suspense(plan: &Plan, locker: &Locker) {
    tokio::time::sleep(SUSPENSE).await;
    if !plan.quiet
        && let Some(record) = look(&**locker.backend(), &plan.name).await
    {
        let now = locker.backend().clock().now();
        let has_line = locker.backend().capabilities().fifo;
        words::say(words::waiting(
            &plan.name,
            &record,
            (now, has_line),
            &plan.label,
        ));
    }
    std::future::pending().await
}

async fn busy(plan: &Plan, backend: &dyn Backend) -> Spoken {
    let record = look(backend, &plan.name).await;
    words::busy(&plan.name, record.as_ref(), backend.clock().now())
}

/// What the store says about the lock, if it says anything: an answer that only serves to explain is not insisted on.
async fn look(backend: &dyn Backend, name: &LockName) -> Option<Record> {
    let record = tokio::time::timeout(SUSPENSE, backend.inspect(name)).await;
    record.ok()?.ok().flatten().map(harmless_record)
}
