//! How `serve` ends: which signals stop it, and what it leaves behind.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::sqlite::Sqlite;
use fencepost_checkout::storage::Storage;
use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::tell;
use crate::ignored::is_ignored;

/// How long each file may take: longer only if its thread hangs, and then the file is as after a kill, complete with its log.
const LONGEST: Duration = Duration::from_secs(8);

/// The files of the service, each by the connection that is open: at its path there may be another file by now.
pub(super) struct Files {
    pub(super) storage: Arc<dyn Storage>,
    /// None where a server has the locks.
    pub(super) locks: Option<Arc<Sqlite>>,
}

impl Files {
    /// The last step of an orderly end: a copy of the database's file, or of the locks', is complete without its `-wal`.
    ///
    /// A failure is logged and has no other effect: whoever opens the file next finds the log beside it.
    pub(super) async fn leave_whole(&self) {
        let database = async {
            let done = self.storage.checkpoint().await;
            done.map_err(|error| error.to_string())
        };
        warn_unless_done("database", tokio::time::timeout(LONGEST, database).await);
        if let Some(locks) = &self.locks {
            let locks = async {
                let done = locks.checkpoint().await;
                done.map_err(|error| error.to_string())
            };
            warn_unless_done("locks", tokio::time::timeout(LONGEST, locks).await);
        }
    }
}

fn warn_unless_done(file: &str, done: Result<Result<bool, String>, tokio::time::error::Elapsed>) {
    let reason = match done {
        Ok(Ok(true)) => return,
        Ok(Ok(false)) => "another program reads or writes it".to_owned(),
        Ok(Err(error)) => error,
        Err(_) => "it took too long".to_owned(),
    };
    tracing::warn!(
        file,
        reason,
        "part of the data stays in the -wal beside the file: copy them together"
    );
}

/// Ctrl-C, SIGTERM and a closed terminal stop it; a second signal does not wait. `nohup` keeps it from hearing that the terminal is closed.
pub(super) fn signals(stop: &CancellationToken) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = match is_ignored(Signal::SIGHUP) {
        true => None,
        false => Some(signal(SignalKind::hangup())?),
    };
    let stop = stop.clone();
    tokio::spawn(async move {
        for is_second in [false, true] {
            let number = tokio::select! {
                _ = interrupt.recv() => SignalKind::interrupt(),
                _ = terminate.recv() => SignalKind::terminate(),
                () = heard(&mut hangup) => SignalKind::hangup(),
            };
            if is_second {
                tell(
                    "stopped at once: locks end with their TTL, orders under way by their transaction\n",
                );
                std::process::exit(128 + number.as_raw_value());
            }
            stop.cancel();
        }
    });
    Ok(())
}

/// Never, for a signal that is ignored.
async fn heard(signal: &mut Option<unix::Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
