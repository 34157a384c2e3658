//! `fencepost exec`: runs a command while holding a lock.
//!
//! Checks the arguments, takes the lock, and lets the [supervision](crate::supervision) run the command.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fencepost::{Locker, ReleaseOutcome};
use fencepost_trial::text::shell_word;

use crate::command_error::{self, CommandError};
use crate::exit;
use crate::store::LockStore;
use crate::supervision::{
    NotStarted, Outcome, Signals, Supervised, WardenChannel, Workload, checked_command,
    checked_grace, checked_name, checked_ttl, is_ours_alone, own_code, run_command, say, supervise,
    unless_interrupted,
};
use crate::terminal::OutputStyle;
use crate::values::duration;
use crate::wording::seconds;

mod wait;

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

/// How long the release may take after the lock was lost.
const RELEASE_GRACE: Duration = Duration::from_secs(1);
const EXAMPLE: &str = "fencepost exec --name deploy -- ./deploy.sh";
const TTL: (&str, &str) = ("a TTL", "--ttl");

/// The checked arguments.
#[derive(Debug)]
struct Plan {
    supervised: Supervised,
    wait: Option<Duration>,
    store: LockStore,
    quiet: bool,
}

/// Runs `fencepost exec`.
pub(crate) fn run(arguments: Exec, style: OutputStyle) -> ExitCode {
    match Plan::check(arguments) {
        Ok(plan) => supervise(&plan.supervised, async |channel| plan.run(channel).await),
        Err(error) => command_error::report(&error, style),
    }
}

impl Plan {
    /// Checks the arguments, and chooses the grace if none was given.
    fn check(arguments: Exec) -> Result<Self, CommandError> {
        let name = checked_name(arguments.name, "a lock's name", EXAMPLE)?;
        let command = checked_command(arguments.command, EXAMPLE)?;
        let advice = "500ms to 24h: the lock is kept alive while the command runs";
        let ttl = checked_ttl(arguments.ttl, TTL, advice)?;
        Ok(Self {
            supervised: Supervised {
                command,
                name,
                ttl,
                grace: checked_grace(arguments.grace, ttl, TTL)?,
                workload: Workload::Job,
                environment: Vec::new(),
                takes_terminal: is_ours_alone(),
            },
            wait: arguments.wait,
            store: arguments.store,
            quiet: arguments.quiet,
        })
    }

    /// Returns the name and the store of the lock, as arguments for another command.
    fn named_here(&self) -> String {
        shell_word(self.supervised.name.as_str()) + &self.store.flag()
    }

    /// Takes the lock and runs the command. Prints why if the command is not started, and returns the exit code.
    async fn run(&self, channel: WardenChannel) -> io::Result<u8> {
        let mut signals = Signals::listen()?;
        let outcome = self.under_the_lock(channel, &mut signals).await;
        Ok(outcome.unwrap_or_else(NotStarted::report))
    }

    /// Takes the lock, runs the command, and releases the lock. Returns the exit code.
    async fn under_the_lock(
        &self,
        mut channel: WardenChannel,
        signals: &mut Signals,
    ) -> Result<u8, NotStarted> {
        let supervised = &self.supervised;
        let opening = self.store.open_with_ttl(supervised.ttl);
        let opened = unless_interrupted(supervised, signals, opening).await?;
        let backend = opened.map_err(|reason| NotStarted::store(supervised, &reason))?;
        let locker = Locker::builder(backend)
            .ttl(supervised.ttl)
            .build()
            .map_err(|error| NotStarted {
                code: exit::USAGE,
                lines: vec![error.message().to_owned()],
            })?;
        let guard = wait::for_the_lock(self, &locker, signals).await?;
        let fence = guard.fence();
        let outcome = run_command(supervised, &guard, &mut channel, signals).await;
        Ok(match outcome {
            Outcome::Ended(status) => {
                let released = guard.release().await;
                self.ended(status, &released)
            }
            Outcome::NotStarted(errno) => {
                let code = supervised.could_not_start(errno);
                let _ = guard.release().await;
                code
            }
            Outcome::Lost | Outcome::OverTime => {
                say(format!(
                    "what the command did before is not undone (fence {fence}). Next: fencepost locks show {}",
                    self.named_here()
                ));
                // If the store answers again, the next waiter need not wait for the lease to end.
                let _ = tokio::time::timeout(RELEASE_GRACE, guard.release()).await;
                exit::LOST
            }
            Outcome::WardenDied => {
                let code = supervised.warden_died();
                let _ = guard.release().await;
                code
            }
        })
    }

    /// Returns the command's own exit code, unless the lock was lost before the command ended.
    fn ended(&self, status: i32, released: &ReleaseOutcome) -> u8 {
        let Supervised { name, ttl, .. } = &self.supervised;
        match released {
            ReleaseOutcome::AlreadyLost => {
                say(format!(
                    "LOST {name} before {} ended: another may have run meanwhile. Next: fencepost locks show {}",
                    self.supervised.program(),
                    self.named_here()
                ));
                return exit::LOST;
            }
            ReleaseOutcome::Unknown(error) => say(format!(
                "{name} could not be released ({}): it will be free within {}",
                error.message(),
                seconds(*ttl)
            )),
            _ => {}
        }
        own_code(status)
    }
}
