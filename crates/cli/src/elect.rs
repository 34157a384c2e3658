//! `fencepost elect`: runs a command for as long as this process leads, and campaigns again after a loss. With `--observe`, shows who
//! leads.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fencepost::kinds::election::{Election, Leadership};
use fencepost::{LockName, Locker};
use fencepost_trial::text::shell_word;

use crate::command_error::{self, CommandError};
use crate::exit;
use crate::store::LockStore;
use crate::supervision::{
    NotStarted, Outcome, Signals, Supervised, WardenChannel, Workload, checked_command,
    checked_grace, checked_name, checked_ttl, is_ours_alone, leave, own_code, run_command, say,
    supervise, suspense, unless_interrupted,
};
use crate::terminal::OutputStyle;
use crate::values::duration;

mod health;
mod observe;

use health::Health;

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Elect {
    #[arg(long)]
    name: Option<String>,
    #[arg(long, conflicts_with = "observe")]
    value: Option<String>,
    #[arg(long, conflicts_with = "observe")]
    health: Option<String>,
    #[arg(long, allow_hyphen_values = true, default_value = "5s", value_parser = duration)]
    health_every: Duration,
    #[arg(long, allow_hyphen_values = true, default_value = "10s", value_parser = duration)]
    ttl: Duration,
    #[arg(long, allow_hyphen_values = true, value_parser = duration)]
    grace: Option<Duration>,
    #[arg(long)]
    observe: bool,
    #[arg(long, requires = "observe", conflicts_with = "command")]
    json: bool,
    #[arg(long, env = "FENCEPOST_STORE", hide_env_values = true, default_value = "sqlite", value_parser = LockStore::parse)]
    store: LockStore,
    #[arg(long, short)]
    quiet: bool,
    #[arg(last = true, conflicts_with = "observe")]
    command: Vec<OsString>,
}

const EXAMPLE: &str = "fencepost elect --name scheduler -- ./scheduler";
const TTL: (&str, &str) = ("a TTL", "--ttl");
/// How long a resignation may take after a loss.
const RELEASE_GRACE: Duration = Duration::from_secs(1);
/// The pauses between campaigns while the store cannot be reached.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// The checked arguments.
#[derive(Debug)]
struct Plan {
    supervised: Supervised,
    value: Option<String>,
    health: Option<Health>,
    store: LockStore,
    quiet: bool,
}

/// Runs `fencepost elect`.
pub(crate) fn run(arguments: Elect, style: OutputStyle) -> ExitCode {
    let ended = if arguments.observe {
        let json = arguments.json;
        let name = checked_name(arguments.name, "an election's name", EXAMPLE);
        name.and_then(|name| observe::run(&arguments.store, &name, json))
    } else {
        Plan::check(arguments)
            .map(|plan| supervise(&plan.supervised, async |channel| plan.run(channel).await))
    };
    ended.unwrap_or_else(|error| command_error::report(&error, style))
}

impl Plan {
    fn check(arguments: Elect) -> Result<Self, CommandError> {
        let name = checked_name(arguments.name, "an election's name", EXAMPLE)?;
        let command = checked_command(arguments.command, EXAMPLE)?;
        let advice = "500ms to 24h: the leadership is renewed while the command runs";
        let ttl = checked_ttl(arguments.ttl, TTL, advice)?;
        let health = arguments.health;
        Ok(Self {
            supervised: Supervised {
                command,
                name,
                ttl,
                grace: checked_grace(arguments.grace, ttl, TTL)?,
                workload: Workload::Service,
                environment: Vec::new(),
                takes_terminal: is_ours_alone(),
            },
            value: arguments.value.map(checked_value).transpose()?,
            health: health
                .map(|command| Health::check(command, arguments.health_every))
                .transpose()?,
            store: arguments.store,
            quiet: arguments.quiet,
        })
    }

    fn name(&self) -> &LockName {
        &self.supervised.name
    }

    /// Leads again and again until the command ends by itself or a signal asks this program to end. Returns the exit code.
    async fn run(&self, mut channel: WardenChannel) -> io::Result<u8> {
        let mut signals = Signals::listen()?;
        let ended = self.take_part(&mut channel, &mut signals).await;
        Ok(ended.unwrap_or_else(NotStarted::report))
    }

    async fn take_part(
        &self,
        channel: &mut WardenChannel,
        signals: &mut Signals,
    ) -> Result<u8, NotStarted> {
        let supervised = &self.supervised;
        let opening = self.store.open_with_ttl(supervised.ttl);
        let opened = unless_interrupted(supervised, signals, opening).await?;
        let backend = opened.map_err(|reason| NotStarted::store(supervised, &reason))?;
        let locker = Locker::builder(backend).ttl(supervised.ttl).build();
        let locker = locker.map_err(|error| self.unusable(&error))?;
        let election = self.election(&locker)?;
        let value = self.value(&locker, &election);
        let mut has_led = false;
        loop {
            let campaign = self.campaign(&locker, &election, &value, has_led);
            let elected = unless_interrupted(supervised, signals, campaign).await;
            let leadership = match elected {
                Ok(Ok(leadership)) => leadership,
                Ok(Err(not_started)) | Err(not_started) => {
                    leave(&locker).await;
                    return Err(not_started);
                }
            };
            has_led = true;
            if let Some(code) = self.lead(leadership, channel, signals).await {
                leave(&locker).await;
                return Ok(code);
            }
        }
    }

    fn election(&self, locker: &Locker) -> Result<Election, NotStarted> {
        let election = locker.election(self.name());
        let election = election.map_err(|error| self.unusable(&error))?;
        Ok(match self.health.clone() {
            Some(health) => election.health_check(health.every, move || health.clone().passes()),
            None => election,
        })
    }

    /// Returns the value that others see: what the user wants, or the host and process if the store keeps values.
    fn value(&self, locker: &Locker, election: &Election) -> String {
        match &self.value {
            Some(value) => value.clone(),
            None if election.keeps_values() => locker.label().to_owned(),
            None => String::new(),
        }
    }

    /// Campaigns until this process leads. Once it has led, a store that cannot be reached is no reason to give up.
    async fn campaign(
        &self,
        locker: &Locker,
        election: &Election,
        value: &str,
        has_led: bool,
    ) -> Result<Leadership, NotStarted> {
        let (mut pause, longest) = PAUSES;
        let mut is_told = false;
        loop {
            let elected = tokio::select! {
                biased;
                elected = election.campaign(value) => elected,
                () = suspense(&self.supervised, locker, self.quiet) => unreachable!("it never ends"),
            };
            match elected {
                Ok(leadership) => return Ok(leadership),
                Err(error) if has_led && error.is_transient() => {
                    if !std::mem::replace(&mut is_told, true) {
                        say(format!(
                            "cannot campaign for {}: {}. Trying again until it works",
                            self.name(),
                            error.message()
                        ));
                    }
                }
                Err(error) => return Err(self.unusable(&error)),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    /// Runs the command for one term. Returns the exit code, or `None` if the leadership was lost.
    async fn lead(
        &self,
        leadership: Leadership,
        channel: &mut WardenChannel,
        signals: &mut Signals,
    ) -> Option<u8> {
        let (supervised, term) = (&self.supervised, leadership.term());
        if !self.quiet {
            say(format!("leading {}, term {term}", self.name()));
        }
        match run_command(supervised, &leadership, channel, signals).await {
            Outcome::Ended(status) => {
                let _ = leadership.resign().await;
                Some(own_code(status))
            }
            Outcome::NotStarted(errno) => {
                let code = supervised.could_not_start(errno);
                let _ = leadership.resign().await;
                Some(code)
            }
            Outcome::Lost | Outcome::OverTime => {
                say(format!(
                    "what the command did in term {term} is not undone. Campaigning again. To look: fencepost elect --name {}{} --observe",
                    shell_word(self.name().as_str()),
                    self.store.flag()
                ));
                // If the store answers again, the next leader need not wait for the lease to end.
                let _ = tokio::time::timeout(RELEASE_GRACE, leadership.resign()).await;
                None
            }
            Outcome::WardenDied => {
                let code = supervised.warden_died();
                let _ = leadership.resign().await;
                Some(code)
            }
        }
    }

    fn unusable(&self, error: &fencepost::Error) -> NotStarted {
        NotStarted::because(&self.supervised, &self.store, error)
    }
}

fn checked_value(value: String) -> Result<String, CommandError> {
    if value.len() <= Election::MAX_VALUE_BYTES {
        return Ok(value);
    }
    let long = format!(
        "a value of {} bytes is too long: at most {}",
        value.len(),
        Election::MAX_VALUE_BYTES
    );
    Err(CommandError::new(exit::USAGE, long)
        .at("--value")
        .try_this("an address or an identity, under which others find the rest"))
}
