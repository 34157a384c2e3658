//! Runs a command for as long as a lock is held, for `exec`, `elect` and `once`: the command is stopped, with all it started, before the
//! lock ends.
//!
//! [`supervise`] forks the [`warden`], which starts and stops the command. [`run_command`] is what this process does meanwhile.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use fencepost::kinds::election::Leadership;
use fencepost::{FailedRenewals, Fence, Guard, LockName, Lost};
use fencepost_trial::text::shell_word;
use nix::errno::Errno;
use nix::sys::wait::waitpid;

use crate::command_error::system_words;
use crate::exit;

mod channel;
mod family;
mod messages;
mod not_started;
mod settings;
mod signals;
mod terminal;
mod warden;
mod watch;

pub(crate) use channel::WardenChannel;
pub(crate) use messages::{busy, say};
pub(crate) use not_started::{NotStarted, leave, look, suspense, unless_interrupted};
pub(crate) use settings::{checked_command, checked_grace, checked_name, checked_ttl};
pub(crate) use signals::Signals;
pub(crate) use terminal::is_ours_alone;
use warden::Warden;
pub(crate) use watch::{Outcome, run_command};

/// The time from SIGTERM to SIGKILL, unless the user says otherwise; a fifth of the TTL if that is shorter.
const DEFAULT_GRACE: Duration = Duration::from_secs(2);

/// What the command is, and therefore what ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    /// A command like any other: it receives the signals that ask this program to end, and what it leaves running stays.
    Job,
    /// A part of this program: a signal that asks this program to end stops the command, and everything that it started ends with it.
    Service,
}

/// A command, and how it is stopped.
#[derive(Debug, Clone)]
pub(crate) struct Supervised {
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    /// The name of the lock.
    pub(crate) name: LockName,
    pub(crate) ttl: Duration,
    /// The time between SIGTERM and SIGKILL.
    pub(crate) grace: Duration,
    pub(crate) workload: Workload,
    /// What the command finds in its environment, besides the name and the fence of the lock.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Whether the command gets the terminal.
    pub(crate) takes_terminal: bool,
}

/// A lock that is held while a command runs.
pub(crate) trait Held {
    fn fence(&self) -> Fence;

    fn valid_for(&self) -> Duration;

    fn failed_renewals(&self) -> Option<FailedRenewals>;

    async fn lost(&self) -> Lost;

    /// If the lock ends within `room` because it may be held no longer, returns for how long it may be held in all.
    fn is_over_time(&self, _room: Duration) -> Option<Duration> {
        None
    }
}

impl Held for Guard {
    fn fence(&self) -> Fence {
        self.fence()
    }

    fn valid_for(&self) -> Duration {
        self.valid_for()
    }

    fn failed_renewals(&self) -> Option<FailedRenewals> {
        self.failed_renewals()
    }

    async fn lost(&self) -> Lost {
        self.lost().await
    }
}

impl Held for Leadership {
    fn fence(&self) -> Fence {
        self.term()
    }

    fn valid_for(&self) -> Duration {
        self.valid_for()
    }

    fn failed_renewals(&self) -> Option<FailedRenewals> {
        self.failed_renewals()
    }

    async fn lost(&self) -> Lost {
        self.lost().await
    }
}

impl Supervised {
    /// Returns the program as typed, without control characters.
    pub(crate) fn program(&self) -> String {
        let program = self
            .command
            .first()
            .map(|program| program.to_string_lossy());
        let program = program.unwrap_or_default();
        program.replace(char::is_control, "?")
    }

    /// Returns the time between SIGKILL and the end of the lease, so that a busy machine has time to kill the command.
    pub(crate) fn margin(&self) -> Duration {
        margin(self.ttl)
    }

    /// Returns how often to check how long the lock is held, and to tell the warden.
    fn look_every(&self) -> Duration {
        (self.ttl / 30).min(Duration::from_secs(1))
    }

    /// Prints why the command could not be started, and returns the exit code.
    pub(crate) fn could_not_start(&self, errno: i32) -> u8 {
        let (code, why) = not_startable(&self.program(), Errno::from_raw(errno));
        say(format!("{} was not started: {why}", self.program()));
        code
    }

    /// Prints that the warden was killed, and returns the exit code.
    pub(crate) fn warden_died(&self) -> u8 {
        say(format!(
            "the process that watches over {} was killed: it and all it started were killed, too",
            self.program()
        ));
        exit::interrupted(fencepost_rig::Signal::SIGKILL)
    }
}

/// Returns the time between SIGKILL and the end of a lease.
fn margin(ttl: Duration) -> Duration {
    ttl / 20 + Duration::from_millis(100)
}

/// Forks the warden, and then runs `work`, which may let it start the command. Returns the exit code of the program.
pub(crate) fn supervise(
    supervised: &Supervised,
    work: impl AsyncFnOnce(WardenChannel) -> io::Result<u8>,
) -> ExitCode {
    // Fork the warden first, while this process has a single thread.
    let outcome = warden::fork_off(supervised).and_then(|warden| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let Warden { process, stream } = warden;
        let code = runtime.block_on(async { work(WardenChannel::new(stream)?).await });
        // The socket to the warden is closed now, so it ends by itself.
        let _ = waitpid(process, None);
        code
    });
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say(format!(
                "cannot watch over a command: {}",
                system_words(&error)
            ));
            ExitCode::from(exit::INTERNAL)
        }
    }
}

/// Returns the exit code for a command that ended with this raw wait status: its own code, or 128 + N if signal N ended it.
pub(crate) fn own_code(status: i32) -> u8 {
    let status = ExitStatus::from_raw(status);
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(u8::MAX)
}

/// Returns the code with which a command has exited, or `None` if a signal ended it.
pub(crate) fn own_exit(status: i32) -> Option<i32> {
    ExitStatus::from_raw(status).code()
}

/// Returns the exit code and the reason for a command that could not be started. As in shells, 127 means not found and 126 not executable.
fn not_startable(program: &str, error: Errno) -> (u8, String) {
    let is_there = program.contains('/') && Path::new(program).exists();
    match error {
        Errno::ENOENT if is_there => (
            exit::NOT_EXECUTABLE,
            "the interpreter named in its first line does not exist".to_owned(),
        ),
        Errno::ENOENT | Errno::ENOTDIR if program.contains('/') => {
            (exit::NOT_FOUND, "there is no such file".to_owned())
        }
        Errno::ENOENT => (
            exit::NOT_FOUND,
            "no folder in PATH contains a program of this name".to_owned(),
        ),
        Errno::EACCES => (
            exit::NOT_EXECUTABLE,
            format!(
                "permission denied. If it is a program: chmod +x {}",
                shell_word(program)
            ),
        ),
        other => (exit::NOT_EXECUTABLE, system_words(&other.into())),
    }
}
