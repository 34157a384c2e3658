//! Why a command was not started, and what this program does while it waits to start it.

use std::time::Duration;

use fencepost::backend::Record;
use fencepost::{Backend, Error, ErrorKind, LockName, Locker};
use nix::sys::signal::Signal;

use super::messages;
use super::signals::Signals;
use super::watch::is_end;
use super::{Supervised, terminal};
use crate::exit;
use crate::store::{LockStore, NotOpened};
use crate::wording::harmless_record;

/// Why the command was not started: an exit code and lines for standard error.
#[derive(Debug)]
pub(crate) struct NotStarted {
    pub(crate) code: u8,
    pub(crate) lines: Vec<String>,
}

/// The time after which a line about the holder is printed.
const SUSPENSE: Duration = Duration::from_secs(1);
/// How long leaving the queue may take.
const EXIT_GRACE: Duration = Duration::from_secs(2);

impl NotStarted {
    pub(crate) fn store(plan: &Supervised, reason: &NotOpened) -> Self {
        Self {
            code: reason.code,
            lines: vec![
                format!("cannot use the store {}: {}", reason.place, reason.words),
                format!("{} was not started", plan.program()),
            ],
        }
    }

    /// The reason is an error of the library: the store failed, or something was asked that can never be.
    pub(crate) fn because(plan: &Supervised, store: &LockStore, error: &Error) -> Self {
        match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::Unsupported => Self {
                code: exit::USAGE,
                lines: vec![
                    error.message().to_owned(),
                    format!("{} was not started", plan.program()),
                ],
            },
            _ => Self::store(plan, &NotOpened::new(store, error)),
        }
    }

    /// Prints why, and returns the exit code.
    pub(crate) fn report(self) -> u8 {
        self.lines.iter().for_each(messages::say);
        self.code
    }
}

/// Returns the output of `work`, unless a signal asks this program to end first.
pub(crate) async fn unless_interrupted<W: Future>(
    plan: &Supervised,
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
pub(crate) async fn leave(locker: &Locker) {
    let _ = tokio::time::timeout(EXIT_GRACE, locker.shutdown()).await;
}

/// Completes when a signal asks this program to end. Pauses the program on signals that ask for that.
async fn interruption(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            signal if is_end(signal) => return signal,
            Signal::SIGTSTP => terminal::pause_self(),
            _ => {}
        }
    }
}

/// Prints who holds the lock, after waiting for a while, unless the user wants it quiet. Never completes.
pub(crate) async fn suspense(plan: &Supervised, locker: &Locker, quiet: bool) {
    tokio::time::sleep(SUSPENSE).await;
    if !quiet && let Some(record) = look(&**locker.backend(), &plan.name).await {
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

/// Returns the store's record of the lock. Errors are ignored, since the record only serves to explain.
pub(crate) async fn look(backend: &dyn Backend, name: &LockName) -> Option<Record> {
    let record = tokio::time::timeout(SUSPENSE, backend.inspect(name)).await;
    record.ok()?.ok().flatten().map(harmless_record)
}
