//! `fencepost crash`, `deadlock` and `trial NAME`: trials of a lock with two or three processes and a fault.

use std::fs::File;
use std::process::ExitCode;

use clap::Args;
use fencepost::stores::kinds::REDIS;
use fencepost_rig::Interrupt;
use fencepost_trial::history::{Event, Header, StormSettings};
use fencepost_trial::holds::{self, Judged, LockWatch, Scenario, Trial};
use fencepost_trial::processes::Stopped;
use fencepost_trial::report::html;
use fencepost_trial::report::json::holds::{report, report_of_worst};
use fencepost_trial::report::terminal::grounds;
use fencepost_trial::report::terminal::holds::{Lanes, convictions, shortest, title};
use fencepost_trial::store::{ServerFault, TrialStore};
use fencepost_trial::text::numbers;

use crate::command_error::CommandError;
use crate::contender::{Contender, Lock, LockArgument, outlives_servers};
use crate::exit;
use crate::results::{FileFlags, Files};
use crate::screen::{OutputFlags, Screen};
use crate::stopped::{UsedFlags, explain};
use crate::store::{self, Site};
use crate::trial_flags::{EndedTrial, TrialFlags, lasts_long_enough};
use crate::values::{BadValue, nearest, random_seed, seed, ttl, work};

mod storm;

use storm::{Several, StormFlags};

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Deadlock {
    #[arg(long)]
    mitigate: bool,
    #[command(flatten)]
    holds: Holds,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Crash {
    #[arg(long)]
    ttl_edge: bool,
    #[arg(long, requires = "ttl_edge", allow_hyphen_values = true, value_parser = work)]
    work: Option<u64>,
    #[command(flatten)]
    holds: Holds,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct TrialByName {
    #[arg(value_parser = scenario)]
    name: Scenario,
    #[command(flatten)]
    storm: StormFlags,
    #[command(flatten)]
    holds: Holds,
}

/// The arguments that all lock trials share.
#[derive(Debug, Args)]
pub(crate) struct Holds {
    #[arg(long, default_value = "safe", value_parser = LockArgument::parse_holding)]
    lock: LockArgument,
    #[arg(long, allow_hyphen_values = true, value_parser = ttl)]
    ttl: Option<u64>,
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    seed: Option<u64>,
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    trial: TrialFlags,
}

/// The scenarios that only `fencepost trial` runs.
pub(crate) const TRIALS: [Scenario; 10] = [
    Scenario::StaleRelease,
    Scenario::ShortStock,
    Scenario::Pause,
    Scenario::Failover,
    Scenario::RestartEmpty,
    Scenario::LostWakeup,
    Scenario::Cut,
    Scenario::SlowReplies,
    Scenario::LostReply,
    Scenario::Storm,
];

fn scenario(text: &str) -> Result<Scenario, BadValue> {
    let named = TRIALS.into_iter().find(|scenario| scenario.name() == text);
    named.ok_or_else(|| {
        let names = TRIALS.map(Scenario::name);
        let advice = match nearest(text, &names) {
            Some(name) => format!("fencepost trial {name}"),
            None => names
                .map(|name| format!("fencepost trial {name}"))
                .join(" · "),
        };
        BadValue {
            what: format!("there is no trial '{text}'"),
            advice,
        }
    })
}

/// Runs `fencepost deadlock`: two processes take two locks in opposite order, or sorted.
pub(crate) fn deadlock(
    arguments: Deadlock,
    interrupt: Interrupt,
) -> Result<ExitCode, CommandError> {
    let scenario = if arguments.mitigate {
        Scenario::Sorted
    } else {
        Scenario::Deadlock
    };
    run(Script::of(scenario), &arguments.holds, interrupt)
}

/// Runs `fencepost crash`: the holder is killed, or works beyond its lease.
pub(crate) fn crash(arguments: Crash, interrupt: Interrupt) -> Result<ExitCode, CommandError> {
    let scenario = if arguments.ttl_edge {
        Scenario::TtlEdge
    } else {
        Scenario::Crash
    };
    let script = Script {
        work_ms: arguments.work,
        ..Script::of(scenario)
    };
    run(script, &arguments.holds, interrupt)
}

/// Runs `fencepost trial`: a scenario without a command of its own.
pub(crate) fn trial(
    arguments: TrialByName,
    interrupt: Interrupt,
) -> Result<ExitCode, CommandError> {
    let script = Script {
        storm: arguments.storm.settings(arguments.name)?,
        runs: arguments.storm.runs.unwrap_or(1),
        ..Script::of(arguments.name)
    };
    run(script, &arguments.holds, interrupt)
}

/// What happens in a trial, as far as the flags of its command say so.
struct Script {
    scenario: Scenario,
    work_ms: Option<u64>,
    storm: Option<StormSettings>,
    runs: u64,
}

impl Script {
    fn of(scenario: Scenario) -> Self {
        Self {
            scenario,
            work_ms: None,
            storm: None,
            runs: 1,
        }
    }
}

fn run(script: Script, arguments: &Holds, interrupt: Interrupt) -> Result<ExitCode, CommandError> {
    let scenario = script.scenario;
    let LockArgument::Lock(lock) = &arguments.lock else {
        return arguments.trial.list_locks();
    };
    let site = site(scenario, lock, arguments)?;
    let ttl_ms = arguments.ttl.unwrap_or(scenario.ttl_ms_at(&site.store));
    lasts_long_enough(ttl_ms, &site.store)?;
    let resource = scenario.resource();
    let contender = Contender::of(lock, &site.store, ttl_ms, resource, interrupt)?;
    // A trial that kills servers starts its own. This store only showed that they can be started, and let external locks declare their claims.
    let store = site.store.clone();
    let _site = (!scenario.fails_servers()).then_some(site);
    let trial = Trial {
        scenario,
        strategy: contender.strategy,
        ttl_ms,
        work_ms: script.work_ms.unwrap_or(Trial::work_ms_at(&store)),
        storm: script.storm,
        store,
        seed: arguments.seed.unwrap_or_else(random_seed),
    };
    try_and_tell(&script, &trial, &contender, arguments, interrupt)
}

/// The store of the trial: private servers that may fail, or the one that was asked for.
fn site(scenario: Scenario, lock: &Lock, arguments: &Holds) -> Result<Site, CommandError> {
    let asked = arguments.trial.store_for(Some(lock))?;
    if scenario.comes_between() {
        return store::open(&between(scenario, asked)?);
    }
    if !scenario.fails_servers() {
        return store::open(&asked.unwrap_or_default());
    }
    if let Lock::Strategy(strategy) = lock {
        outlives_servers(strategy)?;
    }
    servers_to_fail(scenario, asked)
}

/// Runs the trial, shows it, and writes its files.
fn try_and_tell(
    script: &Script,
    trial: &Trial,
    contender: &Contender,
    arguments: &Holds,
    interrupt: Interrupt,
) -> Result<ExitCode, CommandError> {
    let &OutputFlags { json, quiet, .. } = &arguments.trial.output_flags;
    let files = Files::open(&arguments.files)?;
    let file = files.history()?;
    let mut screen = arguments.trial.screen();
    let ink = screen.ink;
    if !json {
        screen.print(&format!("{}\n", title(trial)));
    }
    let explained = |stopped: Stopped| {
        let flags = UsedFlags {
            history: files.history_flag(),
            has_concurrency: false,
        };
        explain(&stopped, flags)
    };
    let (judged, convicted) = if script.runs > 1 {
        let mut said = |line: &str| {
            if !json && !quiet {
                screen.print(line);
            }
        };
        let several = Several {
            trial,
            runs: script.runs,
            contender,
        };
        let (worst, convicted) = several.run(&mut said, interrupt).map_err(explained)?;
        files.record(&worst)?;
        if !json && !quiet {
            screen.print("\n");
        }
        (worst, Some(convicted))
    } else {
        let mut progress = LockProgress {
            screen: &mut screen,
            lanes: (!json && !quiet).then(|| Lanes::new(ink)),
        };
        let subject = || contender.command();
        let history = holds::run(trial, &subject, file, &mut progress, interrupt);
        let judged = Judged::of(trial, history.map_err(explained)?);
        progress.finish(&judged);
        (judged, None)
    };
    let report = match convicted {
        Some(convicted) => report_of_worst(&judged, convicted, script.runs),
        None => report(&judged),
    };
    let beginning = files.save_beginning(&judged)?;
    let ended = EndedTrial {
        report,
        verdict: &judged.verdict,
        events: judged.events.len(),
        page: html::page_of_trial(&judged),
    };
    let text = |ink| {
        let runs = convicted.map(|convicted| convictions(convicted, script.runs, ink));
        grounds::text(&judged.verdict, quiet, ink)
            + &shortest(&judged, beginning.as_deref(), ink)
            + &runs.unwrap_or_default()
    };
    arguments.trial.conclude(screen, files, &ended, text)
}

/// The store for a trial that kills servers. These are always private servers of the lab.
fn servers_to_fail(scenario: Scenario, asked: Option<TrialStore>) -> Result<Site, CommandError> {
    let asked = asked.unwrap_or_else(|| TrialStore::private(&REDIS));
    let what = if !asked.is_private() {
        "this trial kills servers, so it uses only private servers that the lab starts"
    } else if let Some(ServerFault::Unavailable(why)) = scenario.server_fault(asked.facts()) {
        why
    } else if asked.keeps_stock() {
        return store::open(&asked);
    } else {
        return store::open_to_fail(&asked);
    };
    Err(not_here(what, asked.name(), scenario))
}

/// The store for a trial that comes between the processes and the store, which must have a server.
fn between(scenario: Scenario, asked: Option<TrialStore>) -> Result<TrialStore, CommandError> {
    let asked = asked.unwrap_or_else(|| scenario.store());
    match scenario.server_fault(asked.facts()) {
        Some(ServerFault::Unavailable(why)) => Err(not_here(why, asked.name(), scenario)),
        _ => Ok(asked),
    }
}

fn not_here(what: &str, store: &str, scenario: Scenario) -> CommandError {
    CommandError::new(exit::USAGE, what)
        .at(format_args!("--store {store}"))
        .effect("none: no process was started")
        .try_this(format_args!(
            "fencepost {} --store redis",
            scenario.command()
        ))
}

/// Runs a lock trial and judges it. Shows nothing.
pub(crate) fn run_without_output(
    trial: &Trial,
    contender: &Contender,
    file: Option<File>,
    interrupt: Interrupt,
) -> Result<Judged, Stopped> {
    let subject = || contender.command();
    let history = holds::run(trial, &subject, file, &mut (), interrupt)?;
    Ok(Judged::of(trial, history))
}

/// Shows the progress of a lock trial.
struct LockProgress<'a> {
    screen: &'a mut Screen,
    lanes: Option<Lanes>,
}

impl LockProgress<'_> {
    fn finish(&mut self, judged: &Judged) {
        if let Some(lanes) = &mut self.lanes {
            let rest = lanes.finish(&judged.header, &judged.events);
            self.screen.print(&format!("{rest}\n"));
        }
    }
}

impl LockWatch for LockProgress<'_> {
    fn starting(&mut self, ready: usize, of: usize) {
        self.screen
            .suspense(&format!("  {ready} of {of} processes are ready"));
    }

    fn progressed(&mut self, header: &Header, events: &[Event], now_ns: u64) {
        if let Some(lanes) = &mut self.lanes {
            let lines = lanes.settled(header, events, now_ns);
            if !lines.is_empty() {
                self.screen.print(&lines);
            }
        }
        let seconds = numbers::decimal(now_ns as f64 / 1e9);
        let storm = header.holds.and_then(|holds| holds.storm);
        let text = match storm {
            Some(settings) => {
                let all = numbers::decimal(settings.for_ms as f64 / 1e3);
                let events = numbers::count(events.len() as i64);
                format!("  {seconds} of {all} s; {events} events")
            }
            None => {
                let ttl = numbers::count(header.ttl_ms as i64);
                format!("  {seconds} s; the TTL is {ttl} ms")
            }
        };
        self.screen.suspense(&text);
    }
}
