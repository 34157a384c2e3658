//! How `serve` ends: the signals that stop it, and the checkpoint of its files.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::sqlite::Sqlite;
use fencepost_checkout::storage::Storage;
use fencepost_rig::is_ignored;
use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::tell;

/// How long the checkpoint of a file may take. It takes longer only if its thread hangs; the file is then as after a kill, complete
/// together with its `-wal`.
const LONGEST: Duration = Duration::from_secs(8);

/// The open files of the service. We use the open connections, because there may be another file at the path by now.
pub(super) struct Files {
    pub(super) storage: Arc<dyn Storage>,
    /// `None` if the locks are on a server.
    pub(super) locks: Option<Arc<Sqlite>>,
}

impl Files {
    /// Checkpoints the files of the database and the locks, so that a copy of each is complete without its `-wal`. This is the last step of
    /// an orderly end.
    ///
    /// A failure is only logged: SQLite reads the `-wal` when the file is opened again.
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
        "part of the data is still in the -wal beside the file: copy them together"
    );
}

/// Waits for a signal that stops the service: Ctrl-C, SIGTERM or, unless `nohup` ignores it, SIGHUP. A second signal stops it at once.
pub(super) fn signals(stop: &CancellationToken) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = if is_ignored(Signal::SIGHUP) {
        None
    } else {
        Some(signal(SignalKind::hangup())?)
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
                    "stopped at once: locks end with their TTL; orders under way are committed or rolled back\n",
                );
                std::process::exit(128 + number.as_raw_value());
            }
            stop.cancel();
        }
    });
    Ok(())
}

/// Waits for a signal; never completes if the signal is ignored.
async fn heard(signal: &mut Option<unix::Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
