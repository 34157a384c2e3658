//! `fencepost exec`: runs a command while holding a lock.
//!
//! Checks the arguments, forks the warden, takes the lock, and lets the warden run the command. [`warden`] says when the command is
//! stopped.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use clap::Args;
use fencepost::{LockName, Locker, MAX_TTL, ReleaseOutcome};
use fencepost_trial::text::shell_word;
use nix::errno::Errno;
use nix::sys::wait::waitpid;

use crate::command_error::{self, CommandError, system_words};
use crate::exit;
use crate::store::LockStore;
use crate::terminal::OutputStyle;
use crate::values::duration;
use crate::wording::seconds;

mod channel;
mod family;
mod messages;
mod signals;
mod terminal;
mod wait;
mod warden;
mod watch;

use channel::WardenChannel;
use messages::say;
use signals::Signals;
use wait::NotStarted;
use warden::{Task, Warden};
use watch::Outcome;

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

/// The shortest TTL. With a shorter one, stopping the command could take longer than the lease.
const MIN_TTL: Duration = Duration::from_millis(500);
/// The default grace; a fifth of the TTL if that is shorter.
const DEFAULT_GRACE: Duration = Duration::from_secs(2);
/// How long the release may take after the lock was lost.
const RELEASE_GRACE: Duration = Duration::from_secs(1);
const EXAMPLE: &str = "fencepost exec --name deploy -- ./deploy.sh";

/// The checked arguments.
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
}

/// Runs `fencepost exec`.
pub(crate) fn run(arguments: Exec, style: OutputStyle) -> ExitCode {
    let plan = match Plan::check(arguments) {
        Ok(plan) => plan,
        Err(error) => return command_error::report(&error, style),
    };
    let task = Task {
        command: plan.command.clone(),
        name: plan.name.clone(),
        grace: plan.grace,
        margin: margin(plan.ttl),
        takes_terminal: plan.takes_terminal,
    };
    // Fork the warden first, while this process has a single thread.
    let outcome = warden::fork_off(task).and_then(|warden| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let Warden { process, stream } = warden;
        let code = runtime.block_on(async { plan.run(WardenChannel::new(stream)?).await });
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

/// Returns the time between SIGKILL and the end of the lease, so that a busy machine has time to kill the command.
fn margin(ttl: Duration) -> Duration {
    ttl / 20 + Duration::from_millis(100)
}

impl Plan {
    /// Checks the arguments, and chooses the grace if none was given.
    fn check(arguments: Exec) -> Result<Self, CommandError> {
        let usage = |what: String| CommandError::new(exit::USAGE, what);
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
            // Grace plus margin fill half of the TTL, and the margin is TTL / 20 plus a constant.
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
        })
    }

    /// Returns the program as typed, without control characters.
    fn program(&self) -> String {
        let program = self
            .command
            .first()
            .map(|program| program.to_string_lossy());
        let program = program.unwrap_or_default();
        program.replace(char::is_control, "?")
    }

    /// Returns the name and the store of the lock, as arguments for another command.
    fn named_here(&self) -> String {
        shell_word(self.name.as_str()) + &self.store.flag()
    }

    /// Returns how often to check how long the lock is held, and to tell the warden.
    fn look_every(&self) -> Duration {
        (self.ttl / 30).min(Duration::from_secs(1))
    }

    /// Takes the lock and runs the command. Prints why if the command is not started, and returns the exit code.
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

    /// Takes the lock, runs the command, and releases the lock. Returns the exit code.
    async fn under_the_lock(
        &self,
        channel: WardenChannel,
        signals: &mut Signals,
    ) -> Result<u8, NotStarted> {
        let opening = self.store.open_with_ttl(self.ttl);
        let opened = wait::unless_interrupted(self, signals, opening).await?;
        let backend = opened.map_err(|reason| NotStarted::store(self, &reason))?;
        let locker = Locker::builder(backend)
            .ttl(self.ttl)
            .build()
            .map_err(|error| NotStarted {
                code: exit::USAGE,
                lines: vec![error.message().to_owned()],
            })?;
        let guard = wait::for_the_lock(self, &locker, signals).await?;
        let fence = guard.fence();
        let outcome = watch::run_command(self, &guard, channel, signals).await;
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
                    "what the command did before is not undone (fence {fence}). Next: fencepost locks show {}",
                    self.named_here()
                ));
                // If the store answers again, the next waiter need not wait for the lease to end.
                let _ = tokio::time::timeout(RELEASE_GRACE, guard.release()).await;
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

    /// Returns the command's own exit code, unless the lock was lost before the command ended.
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
                "{} could not be released ({}): it will be free within {}",
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

/// Returns the exit code and the reason for a command that could not be started. As in shells, 127 means not found and 126 not executable.
fn not_started(program: &str, error: Errno) -> (u8, String) {
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
