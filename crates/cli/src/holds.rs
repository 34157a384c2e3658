//! `fencepost crash`, `deadlock` and `trial NAME`: trials of a lock with two to eight processes and a fault.

use std::fs::File;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fencepost_rig::Interrupt;
use fencepost_trial::history::{Event, Header};
use fencepost_trial::holds::{self, Judged, LockWatch, Scenario, Trial};
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::report::html::Page;
use fencepost_trial::report::json::holds::{report, report_of_worst};
use fencepost_trial::report::terminal::holds::{Lanes, convictions, shortest, title};
use fencepost_trial::report::terminal::verdict;
use fencepost_trial::store::{ServerFault, TrialStore};
use fencepost_trial::text::numbers;

use crate::command_error::CommandError;
use crate::contender::{Contender, Lock, LockArgument, outlives_servers};
use crate::exit;
use crate::results::{EndedTrial, FileFlags, Files};
use crate::screen::{OutputFlags, Screen};
use crate::store::{self, OpenStore};
use crate::trial_flags::{TrialFlags, lasts_long_enough};
use crate::values::{BadValue, nearest, random_seed, seed, ttl, work};

mod shrink;
mod storm;

use storm::{StormFlags, Storms};

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Deadlock {
    /// Was `--mitigate` before it was named after its scenario, and may still be typed so.
    #[arg(long, alias = "mitigate")]
    sorted: bool,
    #[command(flatten)]
    flags: LockTrialFlags,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Crash {
    #[arg(long)]
    ttl_edge: bool,
    #[arg(long, requires = "ttl_edge", allow_hyphen_values = true, value_parser = work)]
    work: Option<u64>,
    #[command(flatten)]
    flags: LockTrialFlags,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct NamedTrial {
    #[arg(value_parser = scenario)]
    name: Scenario,
    #[arg(long, allow_hyphen_values = true, value_parser = work)]
    work: Option<u64>,
    #[command(flatten)]
    storm: StormFlags,
    #[command(flatten)]
    flags: LockTrialFlags,
}

/// The arguments that all lock trials share.
#[derive(Debug, Args)]
pub(crate) struct LockTrialFlags {
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

fn scenario(text: &str) -> Result<Scenario, BadValue> {
    Scenario::find(text).ok_or_else(|| {
        let names = Scenario::ALL.map(Scenario::name);
        let advice = match nearest(text, &names) {
            // These are sales.
            _ if ["oversell", "retry"].contains(&text) => format!("fencepost {text}"),
            Some(name) => format!("fencepost trial {name}"),
            None => {
                let commands = names.iter().map(|name| format!("fencepost trial {name}"));
                commands.collect::<Vec<_>>().join(" · ")
            }
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
    let scenario = if arguments.sorted {
        Scenario::DeadlockSorted
    } else {
        Scenario::Deadlock
    };
    run(&ScenarioSettings::of(scenario), &arguments.flags, interrupt)
}

/// Runs `fencepost crash`: the holder is killed, or works beyond its lease.
pub(crate) fn crash(arguments: Crash, interrupt: Interrupt) -> Result<ExitCode, CommandError> {
    let scenario = if arguments.ttl_edge {
        Scenario::TtlEdge
    } else {
        Scenario::Crash
    };
    let settings = ScenarioSettings {
        work_ms: arguments.work,
        ..ScenarioSettings::of(scenario)
    };
    run(&settings, &arguments.flags, interrupt)
}

/// Runs `fencepost trial`: the scenario of this name.
pub(crate) fn trial(arguments: NamedTrial, interrupt: Interrupt) -> Result<ExitCode, CommandError> {
    let scenario = arguments.name;
    if arguments.work.is_some() && scenario != Scenario::TtlEdge {
        return Err(misplaced("--work", Scenario::TtlEdge, scenario));
    }
    arguments.storm.belong_to(scenario)?;
    let settings = ScenarioSettings {
        work_ms: arguments.work,
        storm: (scenario == Scenario::Storm).then_some(&arguments.storm),
        runs: arguments.storm.runs.unwrap_or(1),
        ..ScenarioSettings::of(scenario)
    };
    run(&settings, &arguments.flags, interrupt)
}

/// Returns the error for a flag of `fencepost trial` that belongs to the scenario `owner` and was given to another.
fn misplaced(flag: &str, owner: Scenario, given_to: Scenario) -> CommandError {
    let (owner, given_to) = (owner.name(), given_to.name());
    CommandError::new(exit::USAGE, format!("{flag} belongs to trial {owner}"))
        .at(format_args!("fencepost trial {given_to} {flag}"))
        .effect("none: no process was started")
        .try_this(format_args!("fencepost trial {owner} {flag}"))
}

/// What the flags of one command decide about a trial.
struct ScenarioSettings<'a> {
    scenario: Scenario,
    work_ms: Option<u64>,
    /// The flags of a storm; `None` in other scenarios.
    storm: Option<&'a StormFlags>,
    runs: u64,
}

impl ScenarioSettings<'_> {
    /// Returns how long smaller plans of faults are looked for, if they are.
    fn shrink(&self) -> Option<Duration> {
        self.storm?.shrink
    }

    fn of(scenario: Scenario) -> Self {
        Self {
            scenario,
            work_ms: None,
            storm: None,
            runs: 1,
        }
    }
}

fn run(
    settings: &ScenarioSettings<'_>,
    arguments: &LockTrialFlags,
    interrupt: Interrupt,
) -> Result<ExitCode, CommandError> {
    let scenario = settings.scenario;
    let LockArgument::Lock(lock) = &arguments.lock else {
        return arguments.trial.list_locks();
    };
    let asked = arguments.trial.store_for(Some(lock))?;
    // Refused before any server is started.
    let storm = settings.storm.map(|flags| match &asked {
        Some(store) => flags.settings(store),
        None => flags.settings(&TrialStore::default()),
    });
    let storm = storm.transpose()?;
    let opened = open_store(scenario, lock, asked)?;
    let ttl_ms = arguments.ttl.unwrap_or(scenario.ttl_ms_at(&opened.store));
    lasts_long_enough(ttl_ms, &opened.store)?;
    let resource = scenario.resource();
    let contender = Contender::of(lock, &opened.store, ttl_ms, resource, interrupt)?;
    // A trial that kills servers starts its own. This store only showed that they can be started, and let external locks declare their
    // claims.
    let store = opened.store.clone();
    let trial = Trial {
        scenario,
        strategy: contender.strategy,
        ttl_ms,
        work_ms: settings.work_ms.unwrap_or(Trial::work_ms_at(&store)),
        storm,
        plan: None,
        length_ms: None,
        store,
        seed: arguments.seed.unwrap_or_else(random_seed),
    };
    let _opened = (!trial.fails_servers()).then_some(opened);
    run_and_show(settings, &trial, &contender, arguments, interrupt)
}

/// Returns the store of the trial: private servers that may fail, or the one that was asked for.
fn open_store(
    scenario: Scenario,
    lock: &Lock,
    asked: Option<TrialStore>,
) -> Result<OpenStore, CommandError> {
    if let Some(what) = scenario.lacks() {
        let command = format!("fencepost {}", scenario.command());
        let advice = if scenario.chooses_pids() {
            format!("sudo {command}")
        } else {
            "apt-get install gcc".into()
        };
        return Err(
            CommandError::new(exit::SYSTEM, format!("this trial {what}"))
                .at(command)
                .effect("none: no process was started")
                .try_this(advice),
        );
    }
    if scenario.needs_server() && !scenario.fails_servers() {
        return store::open(&store_with_server(scenario, asked)?);
    }
    if !scenario.fails_servers() {
        return store::open(&asked.unwrap_or_default());
    }
    if let Lock::Strategy(strategy) = lock {
        outlives_servers(strategy, scenario)?;
    }
    servers_to_fail(scenario, asked)
}

/// Runs the trial, shows it, and writes its files.
fn run_and_show(
    settings: &ScenarioSettings<'_>,
    trial: &Trial,
    contender: &Contender,
    arguments: &LockTrialFlags,
    interrupt: Interrupt,
) -> Result<ExitCode, CommandError> {
    let &OutputFlags { json, quiet, .. } = &arguments.trial.output_flags;
    let files = Files::open(&arguments.files)?;
    let mut screen = arguments.trial.screen();
    if !json {
        screen.print(&format!("{}\n", title(trial)));
    }
    let shows_progress = !json && !quiet;
    let (judged, convicted) = if settings.runs > 1 {
        let storms = Storms {
            trial,
            runs: settings.runs,
            contender,
            files: &files,
        };
        let screen = shows_progress.then_some(&mut screen);
        let (worst, convicted) = storms.run(screen, interrupt)?;
        (worst, Some(convicted))
    } else {
        let judged = run_once(
            trial,
            contender,
            &files,
            &mut screen,
            shows_progress,
            interrupt,
        )?;
        (judged, None)
    };
    let smaller = settings.shrink().and_then(|within| {
        let mut say = |line: &str| {
            if shows_progress {
                screen.print(line);
            }
        };
        shrink::smaller_plans(&judged, contender, within, &mut say, interrupt)
    });
    let mut report = match convicted {
        Some(convicted) => report_of_worst(&judged, convicted, settings.runs),
        None => report(&judged),
    };
    if let Some(smaller) = &smaller {
        smaller.add_to(&mut report);
    }
    let history = files.history();
    let beginning = history.and_then(|history| history.beginning_path(&judged));
    let ended = EndedTrial {
        report,
        verdict: &judged.verdict,
        events: judged.events.len(),
        page: Page::of_trial(&judged),
        lock_trial: Some(&judged),
        is_recorded: convicted.is_none(),
    };
    let text = |ink| {
        let runs = convicted.map(|convicted| convictions(convicted, settings.runs, ink));
        let smaller = smaller.as_ref().map(|smaller| smaller.text(ink));
        verdict::text(&judged.verdict, quiet, ink)
            + &shortest(&judged, beginning.as_deref(), ink)
            + &runs.unwrap_or_default()
            + &smaller.unwrap_or_default()
    };
    arguments.trial.conclude(screen, files, &ended, text)
}

/// Runs the trial, and shows and records it as it happens.
fn run_once(
    trial: &Trial,
    contender: &Contender,
    files: &Files,
    screen: &mut Screen,
    shows_progress: bool,
    interrupt: Interrupt,
) -> Result<Judged, CommandError> {
    let file = files.recording()?;
    let lanes = shows_progress.then(|| Lanes::new(screen.ink));
    let mut progress = LockProgress { screen, lanes };
    let judged = run_and_judge(trial, contender, file, &mut progress, interrupt)
        .map_err(|no_verdict| files.explain(&no_verdict, false))?;
    progress.finish(&judged);
    Ok(judged)
}

/// Returns the store for a trial that kills servers. These are always private servers of the lab.
fn servers_to_fail(
    scenario: Scenario,
    asked: Option<TrialStore>,
) -> Result<OpenStore, CommandError> {
    let asked = asked_or_default(scenario, asked)?;
    let what = if !asked.is_private() {
        "this trial makes servers fail, so it uses only private servers that the lab starts"
    } else if let Some(ServerFault::Unavailable(why)) = scenario.server_fault(asked.facts()) {
        why
    } else if asked.keeps_stock() {
        return store::open(&asked);
    } else {
        return store::open_to_fail(&asked);
    };
    Err(store_refused(what, asked.name(), scenario))
}

/// Returns the store for a trial that comes between the processes and the store, which must have a server.
fn store_with_server(
    scenario: Scenario,
    asked: Option<TrialStore>,
) -> Result<TrialStore, CommandError> {
    let asked = asked_or_default(scenario, asked)?;
    match scenario.server_fault(asked.facts()) {
        Some(ServerFault::Unavailable(why)) => Err(store_refused(why, asked.name(), scenario)),
        _ => Ok(asked),
    }
}

/// Returns the store that was asked for, or the default of the scenario. What was asked for has been checked while it was parsed.
fn asked_or_default(
    scenario: Scenario,
    asked: Option<TrialStore>,
) -> Result<TrialStore, CommandError> {
    match asked {
        Some(store) => Ok(store),
        None => {
            let store = scenario.store();
            store::has_default(&store).map(|()| store)
        }
    }
}

fn store_refused(what: &str, store: &str, scenario: Scenario) -> CommandError {
    CommandError::new(exit::USAGE, what)
        .at(format_args!("--store {store}"))
        .effect("none: no process was started")
        .try_this(format_args!(
            "fencepost {} --store {}",
            scenario.command(),
            scenario.store().name()
        ))
}

/// Runs a lock trial and judges it.
pub(crate) fn run_and_judge(
    trial: &Trial,
    contender: &Contender,
    file: Option<File>,
    watch: &mut dyn LockWatch,
    interrupt: Interrupt,
) -> Result<Judged, NoVerdict> {
    let subject = || contender.command();
    let history = holds::run(trial, &subject, file, watch, interrupt)?;
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
