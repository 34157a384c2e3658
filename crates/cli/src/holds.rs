//! `fencepost crash`, `deadlock` and `trial NAME`: trials of a lock with two or three processes and a fault.

use std::fs::File;
use std::process::ExitCode;

use clap::Args;
use fencepost::stores::kinds::REDIS;
use fencepost_rig::Interrupt;
use fencepost_trial::history::{Event, Header};
use fencepost_trial::holds::{self, Judged, LockWatch, Scenario, Trial};
use fencepost_trial::processes::Stopped;
use fencepost_trial::report::html;
use fencepost_trial::report::json::holds::report;
use fencepost_trial::report::terminal::grounds;
use fencepost_trial::report::terminal::holds::{Lanes, title};
use fencepost_trial::store::{ServerFault, TrialStore};
use fencepost_trial::text::numbers;

use crate::command_error::CommandError;
use crate::contender::{Contender, Lock, LockArgument, outlives_servers, strategies};
use crate::exit;
use crate::results::{FileFlags, Files};
use crate::screen::Screen;
use crate::stopped::{UsedFlags, explain};
use crate::store::{self, Site};
use crate::trial_flags::TrialFlags;
use crate::values::{BadValue, nearest, random_seed, seed, ttl, work};

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
    #[arg(long, allow_hyphen_values = true, value_parser = work)]
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
pub(crate) const TRIALS: [Scenario; 9] = [
    Scenario::StaleRelease,
    Scenario::ShortStock,
    Scenario::Pause,
    Scenario::Failover,
    Scenario::RestartEmpty,
    Scenario::LostWakeup,
    Scenario::Cut,
    Scenario::SlowReplies,
    Scenario::LostReply,
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
    run(scenario, None, &arguments.holds, interrupt)
}

/// Runs `fencepost crash`: the holder is killed, or works beyond its lease.
pub(crate) fn crash(arguments: Crash, interrupt: Interrupt) -> Result<ExitCode, CommandError> {
    let scenario = if arguments.ttl_edge {
        Scenario::TtlEdge
    } else {
        Scenario::Crash
    };
    run(scenario, arguments.work, &arguments.holds, interrupt)
}

/// Runs `fencepost trial`: a scenario without a command of its own.
pub(crate) fn trial(
    arguments: TrialByName,
    interrupt: Interrupt,
) -> Result<ExitCode, CommandError> {
    run(arguments.name, None, &arguments.holds, interrupt)
}

fn run(
    scenario: Scenario,
    work_ms: Option<u64>,
    arguments: &Holds,
    interrupt: Interrupt,
) -> Result<ExitCode, CommandError> {
    let LockArgument::Lock(lock) = &arguments.lock else {
        return Ok(arguments.trial.screen().finish(&strategies()));
    };
    let (json, quiet) = (
        arguments.trial.output_flags.json,
        arguments.trial.output_flags.quiet,
    );
    let asked = arguments.trial.store_for(Some(lock))?;
    let site = if scenario.fails_servers() {
        if let Lock::Strategy(strategy) = lock {
            outlives_servers(strategy)?;
        }
        servers_to_fail(scenario, asked)?
    } else if scenario.comes_between() {
        store::open(&between(scenario, asked)?)?
    } else {
        store::open(&asked.unwrap_or_default())?
    };
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
        work_ms: work_ms.unwrap_or(Trial::work_ms_at(&store)),
        store,
        seed: arguments.seed.unwrap_or_else(random_seed),
    };
    let files = Files::open(&arguments.files)?;
    let file = files.history()?;
    let mut screen = arguments.trial.screen();
    let ink = screen.ink;
    if !json {
        screen.print(&format!("{}\n", title(&trial)));
    }
    let mut progress = LockProgress {
        screen: &mut screen,
        lanes: (!json && !quiet).then(|| Lanes::new(ink)),
    };
    let subject = || contender.command();
    let judged = holds::run(&trial, &subject, file, &mut progress, interrupt)
        .map(|history| Judged::of(&trial, history))
        .map_err(|stopped| {
            let flags = UsedFlags {
                history: files.history_flag(),
                has_concurrency: false,
            };
            explain(&stopped, flags)
        })?;
    progress.finish(&judged);
    if json {
        screen.print_json(&report(&judged));
    } else {
        screen.print(&grounds::text(&judged.verdict, quiet, ink));
    }
    files.fill(
        &report(&judged),
        &judged.verdict,
        judged.events.len(),
        &html::page_of_trial(&judged),
    )?;
    Ok(screen.end(judged.verdict.outcome.exit_code()))
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

/// Refuses a TTL shorter than the time after which the servers free the lock of a dead process: it could not be judged.
pub(crate) fn lasts_long_enough(ttl_ms: u64, store: &TrialStore) -> Result<(), CommandError> {
    let (shortest, kind) = (store.shortest_ttl_ms(), store.kind());
    if ttl_ms >= shortest {
        return Ok(());
    }
    let what = format!("a TTL of {ttl_ms} ms is too short for {}", kind.title);
    Err(CommandError::new(exit::USAGE, what)
        .at(format_args!(
            "--ttl {ttl_ms} --store {}: {}",
            store.name(),
            store.why_no_shorter_ttl()
        ))
        .effect("none: the trial had not begun")
        .try_this(format_args!("--ttl {shortest}")))
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
        let ttl = numbers::count(header.ttl_ms as i64);
        self.screen
            .suspense(&format!("  {seconds} s; the TTL is {ttl} ms"));
    }
}
