//! `fencepost exec`: a command that runs only while a lock is held.
//!
//! Arguments → plan → warden → lock → command → exit code. Who stops the command, and when, is in [`warden`].

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use clap::Args;
use fencepost::{LockName, Locker, MAX_TTL, ReleaseOutcome};
use nix::errno::Errno;
use nix::sys::wait::waitpid;

use crate::exit;
use crate::fault::{self, Fault, system_words};
use crate::store::LockStore;
use crate::terminal::Wishes;
use crate::values::duration;
use crate::wording::{seconds, shell_word};

mod channel;
mod family;
mod signals;
mod terminal;
mod wait;
mod warden;
mod watch;
mod words;

use channel::WardenChannel;
use signals::Signals;
use wait::NotStarted;
use warden::{Task, Warden};
use watch::Outcome;
use words::say;

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Exec {
    #[arg(long)]
    name: Option<String>,
    #[arg(long, allow_hyphen_values = true, value_parser = duration)]
    wait: Option<Duration>,
    #[arg(long, allow_hyphen_values = true, default_value = "10s", value_parser = duration)]
    ttl: Duration,
    #[arg(long, allow_hyphen_values = true, value_parser = duration)]
    grace: Option<Duration>,
    #[arg(long, env = "FENCEPOST_STORE", hide_env_values = true, default_value = "sqlite", value_parser = LockStore::parse)]
    store: LockStore,
    #[arg(long, short)]
    quiet: bool,
    #[arg(last = true)]
    command: Vec<OsString>,
}

/// The shortest TTL: below it, stopping a command takes longer than a lease.
const MIN_TTL: Duration = Duration::from_millis(500);
/// The grace when nobody says otherwise: this, or a fifth of the TTL if that is shorter.
const DEFAULT_GRACE: Duration = Duration::from_secs(2);
/// How long a store that did not answer is given for the release.
const FAREWELL: Duration = Duration::from_secs(1);
const EXAMPLE: &str = "fencepost exec --name deploy -- ./deploy.sh";

/// What is to be done, checked.
#[derive(Debug)]
struct Plan {
    name: LockName,
    wait: Option<Duration>,
    ttl: Duration,
    grace: Duration,
    store: LockStore,
    quiet: bool,
    command: Vec<OsString>,
    takes_terminal: bool,
    /// Who this is in the store's line.
    label: String,
}

/// Runs the command.
pub(crate) fn run(arguments: Exec, wishes: Wishes) -> ExitCode {
    let plan = match Plan::check(arguments) {
        Ok(plan) => plan,
        Err(fault) => return fault::report(&fault, wishes),
    };
    let task = Task {
        command: plan.command.clone(),
        name: plan.name.clone(),
        grace: plan.grace,
        margin: margin(plan.ttl),
        takes_terminal: plan.takes_terminal,
    };
    // Before anything else: the warden is forked while there is a single thread.
    let outcome = warden::fork_off(task).and_then(|warden| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let Warden { process, stream } = warden;
        let code = runtime.block_on(async { plan.run(WardenChannel::new(stream)?).await });
        // The line to it is closed: it ends by itself.
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

/// The time between SIGKILL and the end of the validity: for a busy machine to carry it out.
fn margin(ttl: Duration) -> Duration {
    ttl / 20 + Duration::from_millis(100)
}

impl Plan {
    fn check(arguments: Exec) -> Result<Self, Fault> {
        let usage = |what: String| Fault::new(exit::USAGE, what);
        let Some(name) = arguments.name else {
            return Err(usage("a lock's name is missing".into())
                .at("--name")
                .try_this(EXAMPLE));
        };
        let name = LockName::new(&name).map_err(|error| {
            usage(error.message().to_owned())
                .at("--name")
                .try_this(EXAMPLE)
        })?;
        if arguments.command.is_empty() {
            return Err(usage("a command to run is missing".into())
                .at("after --")
                .try_this(EXAMPLE));
        }
        let ttl = arguments.ttl;
        if !(MIN_TTL..=MAX_TTL).contains(&ttl) {
            let shown = humantime::format_duration(ttl);
            let which = if ttl < MIN_TTL { "short" } else { "long" };
            return Err(usage(format!("a TTL of {shown} is too {which}"))
                .at(format_args!("--ttl {shown}"))
                .try_this("500ms to 24h: the lock is kept alive while the command runs"));
        }
        let longest = (ttl / 2).saturating_sub(margin(ttl));
        let grace = arguments
            .grace
            .unwrap_or(DEFAULT_GRACE.min(ttl / 5).min(longest));
        if grace > longest {
            let shown = humantime::format_duration(grace);
            // Half of it is the grace and the margin, which is a twentieth of it and a bit.
            let room = (grace + margin(Duration::ZERO)).as_secs_f64() / 0.45;
            let room = Duration::from_secs_f64(room.ceil());
            return Err(usage(format!(
                "a grace of {shown} is too long for a TTL of {}",
                seconds(ttl)
            ))
            .at(format_args!("--grace {shown}"))
            .try_this(format_args!(
                "--grace {}ms, or --ttl {}: the command must be gone before the lease ends",
                longest.as_millis(),
                humantime::format_duration(room)
            )));
        }
        Ok(Self {
            name,
            wait: arguments.wait,
            ttl,
            grace,
            store: arguments.store,
            quiet: arguments.quiet,
            command: arguments.command,
            takes_terminal: terminal::is_ours_alone(),
            label: label(),
        })
    }

    /// The program as it was typed, fit to be shown.
    fn program(&self) -> String {
        let program = self
            .command
            .first()
            .map(|program| program.to_string_lossy());
        let program = program.unwrap_or_default();
        program.replace(char::is_control, "?")
    }

    /// The lock, as another command finds it.
    fn named_here(&self) -> String {
        shell_word(self.name.as_str()) + &self.store.flag()
    }

    /// How often the validity is looked at, and the warden told.
    fn look_every(&self) -> Duration {
        (self.ttl / 30).min(Duration::from_secs(1))
    }

    async fn run(&self, channel: WardenChannel) -> io::Result<u8> {
        let mut signals = Signals::listen()?;
        match self.under_the_lock(channel, &mut signals).await {
            Ok(code) => Ok(code),
            Err(NotStarted { code, lines }) => {
                lines.iter().for_each(say);
                Ok(code)
            }
        }
    }

    async fn under_the_lock(
        &self,
        channel: WardenChannel,
        signals: &mut Signals,
    ) -> Result<u8, NotStarted> {
        let opening = self.store.open_for(self.ttl);
        let opened = wait::unless_interrupted(self, signals, opening).await?;
        let backend = opened.map_err(|reason| NotStarted::store(self, &reason))?;
        let locker = Locker::builder(backend)
            .ttl(self.ttl)
            .label(self.label.as_str())
            .build()
            .map_err(|error| NotStarted {
                code: exit::USAGE,
                lines: vec![error.message().to_owned()],
            })?;
        let guard = wait::for_the_lock(self, &locker, signals).await?;
        let fence = guard.fence();
        let outcome = watch::over(self, &guard, channel, signals).await;
        Ok(match outcome {
            Outcome::Ended(status) => {
                let released = guard.release().await;
                self.ended(ExitStatus::from_raw(status), &released)
            }
            Outcome::NotStarted(error) => {
                let (code, why) = not_started(&self.program(), Errno::from_raw(error));
                say(format!("{} was not started: {why}", self.program()));
                let _ = guard.release().await;
                code
            }
            Outcome::Lost => {
                say(format!(
                    "what it did before stays done (fence {fence}). Next: fencepost locks show {}",
                    self.named_here()
                ));
                // If the store answers again, the next one need not wait for the lease to end.
                let _ = tokio::time::timeout(FAREWELL, guard.release()).await;
                exit::LOST
            }
            Outcome::WardenDied => {
                say(format!(
                    "the process that watches over {} was killed: it and all it started were killed, too",
                    self.program()
                ));
                let _ = guard.release().await;
                exit::interrupted(fencepost_rig::Signal::SIGKILL)
            }
        })
    }

    /// The command's own code, unless the lock had gone before it ended.
    fn ended(&self, status: ExitStatus, released: &ReleaseOutcome) -> u8 {
        match released {
            ReleaseOutcome::AlreadyLost => {
                say(format!(
                    "LOST {} before {} ended: another may have run meanwhile. Next: fencepost locks show {}",
                    self.name,
                    self.program(),
                    self.named_here()
                ));
                return exit::LOST;
            }
            ReleaseOutcome::Unknown(error) => say(format!(
                "{} could not be given back ({}): it is free in {} at the latest",
                self.name,
                error.message(),
                seconds(self.ttl)
            )),
            _ => {}
        }
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        code.and_then(|code| u8::try_from(code).ok())
            .unwrap_or(u8::MAX)
    }
}

/// As shells say it: 127 for what is not there, 126 for what is there and cannot run.
fn not_started(program: &str, error: Errno) -> (u8, String) {
    let is_there = program.contains('/') && Path::new(program).exists();
    match error {
        Errno::ENOENT if is_there => (
            exit::NOT_EXECUTABLE,
            "the interpreter named in its first line is not there".to_owned(),
        ),
        Errno::ENOENT | Errno::ENOTDIR if program.contains('/') => {
            (exit::NOT_FOUND, "there is no such file".to_owned())
        }
        Errno::ENOENT => (
            exit::NOT_FOUND,
            "no folder of PATH has a program of this name".to_owned(),
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

/// Host and process, as the library names its owners.
fn label() -> String {
    let host = nix::unistd::gethostname()
        .ok()
        .and_then(|host| host.into_string().ok());
    format!(
        "{}:{}",
        host.as_deref().unwrap_or("unknown"),
        std::process::id()
    )
}
