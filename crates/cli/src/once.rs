//! `fencepost once`: runs a command on one machine of many, for a limited time, and not twice for the same slot of its schedule.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fencepost::Locker;
use fencepost::clock::{BootClock, Clock, Moment};
use fencepost::kinds::once::{AfterCrash, Began, Finished, Once, Outcome as Ended, Run};
use fencepost_trial::text::shell_word;

use crate::command_error::{self, CommandError};
use crate::exit;
use crate::store::LockStore;
use crate::supervision::{
    NotStarted, Outcome, Signals, Supervised, WardenChannel, Workload, checked_command,
    checked_grace, checked_name, checked_ttl, is_ours_alone, leave, own_code, own_exit,
    run_command, say, supervise, unless_interrupted,
};
use crate::terminal::OutputStyle;
use crate::values::{BadValue, duration};
use crate::wording::{harmless_text, seconds};

mod document;
mod timed_run;

use document::Document;
use timed_run::TimedRun;

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct RunOnce {
    #[arg(long)]
    name: Option<String>,
    #[arg(long, allow_hyphen_values = true, value_parser = duration)]
    at_most: Option<Duration>,
    #[arg(long, allow_hyphen_values = true, default_value = "0s", value_parser = duration)]
    at_least: Duration,
    #[arg(long)]
    slot: Option<String>,
    #[arg(long, default_value = "skip", value_parser = after_crash)]
    after_crash: AfterCrash,
    #[arg(long, allow_hyphen_values = true, default_value = "90d", value_parser = duration)]
    keep: Duration,
    #[arg(long, default_value = "0")]
    skip_code: u8,
    #[arg(long, allow_hyphen_values = true, default_value = "10s", value_parser = duration)]
    ttl: Duration,
    #[arg(long, allow_hyphen_values = true, value_parser = duration)]
    grace: Option<Duration>,
    #[arg(long, env = "FENCEPOST_STORE", hide_env_values = true, default_value = "sqlite", value_parser = LockStore::parse)]
    store: LockStore,
    #[arg(long)]
    json: bool,
    #[arg(last = true)]
    command: Vec<OsString>,
}

const EXAMPLE: &str = "fencepost once --name nightly --at-most 30m -- ./report.sh";
const TTL: (&str, &str) = ("a TTL", "--ttl");

fn after_crash(text: &str) -> Result<AfterCrash, BadValue> {
    match text {
        "skip" => Ok(AfterCrash::Skip),
        "rerun" => Ok(AfterCrash::Rerun),
        _ => Err(BadValue {
            what: format!("'{}' is neither skip nor rerun", harmless_text(text)),
            advice: "--after-crash skip: a slot is run at most once · rerun: at least once".into(),
        }),
    }
}

/// The checked arguments.
#[derive(Debug)]
struct Plan {
    supervised: Supervised,
    at_most: Duration,
    at_least: Duration,
    slot: Option<String>,
    after_crash: AfterCrash,
    keep: Duration,
    skip_code: u8,
    store: LockStore,
    json: bool,
}

/// Runs `fencepost once`.
pub(crate) fn run(arguments: RunOnce, style: OutputStyle) -> ExitCode {
    match Plan::check(arguments) {
        Ok(plan) => supervise(&plan.supervised, async |channel| plan.run(channel).await),
        Err(error) => command_error::report(&error, style),
    }
}

impl Plan {
    fn check(arguments: RunOnce) -> Result<Self, CommandError> {
        let name = checked_name(arguments.name, "a job's name", EXAMPLE)?;
        let command = checked_command(arguments.command, EXAMPLE)?;
        let at_most = checked_bound(arguments.at_most)?;
        let advice = "500ms to 24h: the lock is renewed while the command runs";
        let ttl = checked_ttl(arguments.ttl, TTL, advice)?.min(at_most);
        let slot = arguments.slot;
        let environment = slot.iter().map(|slot| ("FENCEPOST_SLOT", slot.clone()));
        Ok(Self {
            supervised: Supervised {
                command,
                name,
                ttl,
                grace: checked_grace(arguments.grace, ttl, TTL)?,
                workload: Workload::Job,
                environment: environment.collect(),
                takes_terminal: is_ours_alone(),
            },
            at_most,
            at_least: arguments.at_least,
            slot,
            after_crash: arguments.after_crash,
            keep: arguments.keep,
            skip_code: arguments.skip_code,
            store: arguments.store,
            json: arguments.json,
        })
    }

    /// Runs the command, unless it must not run now. Returns the exit code.
    async fn run(&self, mut channel: WardenChannel) -> io::Result<u8> {
        let mut signals = Signals::listen()?;
        let ran = self.try_to_run(&mut channel, &mut signals).await;
        Ok(ran.unwrap_or_else(NotStarted::report))
    }

    async fn try_to_run(
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
        let once = self.once(&locker).map_err(|error| self.unusable(&error))?;
        let ends_at = BootClock.now() + self.at_most;
        let began = unless_interrupted(supervised, signals, once.begin()).await;
        let run = match began {
            Ok(Ok(Began::Run(run))) => run,
            Ok(Ok(Began::Skipped(skipped))) => {
                self.show(|| Document::skipped(&skipped, self.skip_code));
                return Ok(self.skip_code);
            }
            Ok(Err(error)) => {
                leave(&locker).await;
                return Err(self.unusable(&error));
            }
            Err(interrupted) => {
                leave(&locker).await;
                return Err(interrupted);
            }
        };
        let (code, document) = self.watch_over(run, ends_at, channel, signals).await;
        // A run that is not finished is released in the background.
        leave(&locker).await;
        self.show(|| document.with_exit_code(code));
        Ok(code)
    }

    fn once(&self, locker: &Locker) -> fencepost::Result<Once> {
        let once = locker.once(&self.supervised.name)?;
        let once = once.at_most(self.at_most).at_least(self.at_least);
        let once = once.after_crash(self.after_crash).keep(self.keep);
        Ok(match &self.slot {
            Some(slot) => once.slot(Arc::from(slot.as_str())),
            None => once,
        })
    }

    /// Lets the command run, and records how it ended. Returns the exit code.
    async fn watch_over(
        &self,
        run: Run,
        ends_at: Moment,
        channel: &mut WardenChannel,
        signals: &mut Signals,
    ) -> (u8, Document) {
        let (supervised, document) = (&self.supervised, Document::of(&run));
        let run = TimedRun { run, ends_at };
        match run_command(supervised, &run, channel, signals).await {
            Outcome::Ended(status) => self.ended(run.run, status, document).await,
            Outcome::NotStarted(errno) => {
                let code = supervised.could_not_start(errno);
                // Nothing has run, so it is safe to try again.
                let finished = run.run.finish(Ended::Failed).await;
                self.finished(&finished, code, document.state("not_started"))
            }
            Outcome::OverTime => {
                self.say_what_stays(&run.run);
                (exit::TIMED_OUT, document.state("stopped"))
            }
            Outcome::Lost => {
                self.say_what_stays(&run.run);
                (exit::LOST, document.state("lost"))
            }
            Outcome::WardenDied => (supervised.warden_died(), document.state("unknown")),
        }
    }

    /// A command that exits by itself says how it went. One that a signal ended does not: it counts as crashed.
    async fn ended(&self, run: Run, status: i32, document: Document) -> (u8, Document) {
        let code = own_code(status);
        match own_exit(status) {
            Some(0) => {
                let finished = run.finish(Ended::Completed).await;
                self.finished(&finished, code, document.state("completed"))
            }
            Some(_) => {
                let finished = run.finish(Ended::Failed).await;
                self.finished(&finished, code, document.state("failed"))
            }
            None => (code, document.state("unknown")),
        }
    }

    fn finished(&self, finished: &Finished, code: u8, document: Document) -> (u8, Document) {
        let Supervised { name, ttl, .. } = &self.supervised;
        match finished {
            Finished::Released | Finished::Left => (code, document),
            Finished::AlreadyLost => {
                say(format!(
                    "LOST {name} before {} ended: another may have run meanwhile. Next: fencepost locks show {}",
                    self.supervised.program(),
                    self.named_here()
                ));
                (exit::LOST, document.state("lost"))
            }
            Finished::Unknown(error) => {
                let counts = match &self.slot {
                    Some(slot) => format!("; slot {} may count as crashed", harmless_text(slot)),
                    None => String::new(),
                };
                say(format!(
                    "the end of {name} may not be recorded ({}): it will be free within {}{counts}",
                    error.message(),
                    seconds((*ttl).max(self.at_least))
                ));
                let code = if code == 0 { exit::STORE } else { code };
                (code, document.state("unknown"))
            }
        }
    }

    fn say_what_stays(&self, run: &Run) {
        let slot = match (&self.slot, self.after_crash) {
            (None, _) => "",
            (Some(_), AfterCrash::Skip) => " This slot is not run again (--after-crash skip).",
            (Some(_), AfterCrash::Rerun) => " This slot can be run again (--after-crash rerun).",
        };
        say(format!(
            "what the command did before is not undone (fence {}).{slot} Next: fencepost locks show {}",
            run.fence(),
            self.named_here()
        ));
    }

    /// Returns the name and the store of the lock, as arguments for another command.
    fn named_here(&self) -> String {
        shell_word(self.supervised.name.as_str()) + &self.store.flag()
    }

    /// Prints a document, if the user wants one.
    fn show(&self, document: impl FnOnce() -> Document) {
        if self.json {
            let document =
                document().of_job(&self.supervised.name, &self.store, self.slot.as_deref());
            // A closed standard output does not change what has happened.
            let _ = writeln!(io::stdout().lock(), "{document}");
        }
    }

    fn unusable(&self, error: &fencepost::Error) -> NotStarted {
        NotStarted::because(&self.supervised, &self.store, error)
    }
}

fn checked_bound(at_most: Option<Duration>) -> Result<Duration, CommandError> {
    const LEAST: Duration = Duration::from_millis(500);
    let advice = "--at-most 30m: for how long may this job block its next run? It is stopped then";
    let Some(at_most) = at_most else {
        let missing = "the longest time that the job may take is missing";
        return Err(CommandError::new(exit::USAGE, missing)
            .at("--at-most")
            .try_this(advice));
    };
    if at_most >= LEAST {
        return Ok(at_most);
    }
    let shown = humantime::format_duration(at_most);
    let short = format!("{shown} is too short to stop a command in time");
    Err(CommandError::new(exit::USAGE, short)
        .at(format_args!("--at-most {shown}"))
        .try_this("500ms or more"))
}
