//! `fencepost crash`, `deadlock` and `trial NAME`: a lock, two or three processes, and what goes wrong.

use std::fs::File;
use std::process::ExitCode;

use fencepost_rig::Interrupt;
use fencepost_trial::history::{Event, Header};
use fencepost_trial::holds::{self, Judged, Scenario, Trial, Watch};
use fencepost_trial::processes::Stopped;
use fencepost_trial::protocol::Resource;
use fencepost_trial::report::html;
use fencepost_trial::report::json::holds::report;
use fencepost_trial::report::terminal::grounds;
use fencepost_trial::report::terminal::holds::{Lanes, title};
use fencepost_trial::store::Place;
use fencepost_trial::store::locks::Kind;
use fencepost_trial::text::numbers;

use crate::arguments::{Crash, Deadlock, Holds, Lock, OneTrial, random_seed};
use crate::contender::{Contender, outlives_servers};
use crate::exit;
use crate::fault::Fault;
use crate::help;
use crate::oversell::explain;
use crate::results::Files;
use crate::screen::Screen;
use crate::store::{Site, Store};

/// Two locks, in opposite or in the same order.
pub(crate) fn deadlock(arguments: Deadlock, interrupt: Interrupt) -> Result<ExitCode, Fault> {
    let scenario = match arguments.mitigate {
        true => Scenario::Sorted,
        false => Scenario::Deadlock,
    };
    run(scenario, None, &arguments.holds, interrupt)
}

/// The holder is killed, or works longer than its lease.
pub(crate) fn crash(arguments: Crash, interrupt: Interrupt) -> Result<ExitCode, Fault> {
    let scenario = match arguments.ttl_edge {
        true => Scenario::TtlEdge,
        false => Scenario::Crash,
    };
    run(scenario, arguments.work, &arguments.holds, interrupt)
}

/// A scenario without a command of its own.
pub(crate) fn trial(arguments: OneTrial, interrupt: Interrupt) -> Result<ExitCode, Fault> {
    run(arguments.name, None, &arguments.holds, interrupt)
}

fn run(
    scenario: Scenario,
    work_ms: Option<u64>,
    arguments: &Holds,
    interrupt: Interrupt,
) -> Result<ExitCode, Fault> {
    let list = || Ok(arguments.common.screen().finish(&help::strategies()));
    if let Lock::Help = arguments.lock {
        return list();
    }
    let (json, quiet) = (arguments.common.json, arguments.common.quiet);
    let asked = arguments.common.store_for(Some(&arguments.lock))?;
    let site = match scenario.fails_servers() {
        true => {
            if let Lock::Strategy(strategy) = &arguments.lock {
                outlives_servers(strategy)?;
            }
            servers_to_fail(scenario, asked)?
        }
        false => asked.unwrap_or(Store::Sqlite).open()?,
    };
    let ttl_ms = arguments.ttl.unwrap_or(scenario.ttl_ms_at(&site.place));
    lasts_long_enough(ttl_ms, &site.place)?;
    let resource = match scenario {
        Scenario::ShortStock => Resource::Stock,
        _ => Resource::Number,
    };
    let Some(contender) = Contender::of(&arguments.lock, &site, (ttl_ms, resource), interrupt)?
    else {
        return list();
    };
    // Where servers fail, the trial starts its own; this one was there to see that it can, and to meet strangers at.
    let place = site.place.clone();
    let _site = (!scenario.fails_servers()).then_some(site);
    let trial = Trial {
        scenario,
        strategy: contender.strategy,
        ttl_ms,
        work_ms: work_ms.unwrap_or(Trial::work_ms_at(&place)),
        place,
        seed: arguments.seed.unwrap_or_else(random_seed),
    };
    let files = Files::open(
        arguments.output.as_deref(),
        arguments.history.as_deref(),
        &arguments.drawings,
    )?;
    let file = files.history()?;
    let mut screen = arguments.common.screen();
    let ink = screen.ink;
    if !json {
        screen.print(&format!("{}\n", title(&trial)));
    }
    let mut viewer = Viewer {
        screen: &mut screen,
        lanes: (!json && !quiet).then(|| Lanes::new(ink)),
    };
    let subject = || contender.command();
    let tried = holds::run(&trial, &subject, file, &mut viewer, interrupt)
        .map(|history| Judged::of(&trial, history))
        .map_err(|stopped| explain(&stopped, files.history_path()))?;
    viewer.finish(&tried);
    if json {
        screen.print_json(&report(&tried));
    } else {
        screen.print(&grounds::text(&tried.verdict, quiet, ink));
    }
    files.fill(
        &report(&tried),
        &tried.verdict,
        tried.events.len(),
        &html::page_of_trial(&tried),
    )?;
    Ok(screen.end(tried.verdict.outcome.exit_code()))
}

/// The store whose servers are killed: only ever the lab's own.
fn servers_to_fail(scenario: Scenario, asked: Option<Store>) -> Result<Site, Fault> {
    let store = asked.unwrap_or(Store::PrivateRedis);
    let what = match (scenario, &store) {
        (_, Store::PrivateRedis) => return store.open(),
        (_, Store::Sqlite) => "a file has no server that could fail",
        (_, Store::PrivatePostgres) => "this trial is not held on Postgres so far",
        (_, Store::Locks(servers)) if servers.is_private() => match (scenario, servers.kind) {
            (Scenario::Failover, Kind::Etcd) | (Scenario::RestartEmpty, Kind::Redlock) => {
                return servers.open_to_fail();
            }
            (Scenario::Failover, Kind::Redlock) => "Redlock has no replica that could take over",
            (Scenario::Failover, _) => "this trial is not held on ZooKeeper so far",
            (_, Kind::Etcd) => "etcd keeps its data: it does not come back empty",
            (_, _) => "ZooKeeper keeps its data: it does not come back empty",
        },
        _ => "servers are killed here, so they have to be the lab's own",
    };
    Err(not_here(what, &store.name(), scenario))
}

/// How soon servers free the lock of a dead process is their affair: less than that cannot be judged.
fn lasts_long_enough(ttl_ms: u64, place: &Place) -> Result<(), Fault> {
    let (shortest, Some(kind)) = (place.shortest_ttl_ms(), place.lock_servers()) else {
        return Ok(());
    };
    if ttl_ms >= shortest {
        return Ok(());
    }
    let why = match kind {
        Kind::Etcd => "leases of etcd have whole seconds, at least two",
        _ => "the lock of a dead process is free when its session ends, not sooner",
    };
    let what = format!("a TTL of {ttl_ms} ms is too short for {}", kind.title());
    Err(Fault::new(exit::USAGE, what)
        .at(format_args!(
            "--ttl {ttl_ms} --store {}: {why}",
            place.name()
        ))
        .effect("none: nobody was asked anything")
        .try_this(format_args!("--ttl {shortest}")))
}

fn not_here(what: &str, store: &str, scenario: Scenario) -> Fault {
    Fault::new(exit::USAGE, what)
        .at(format_args!("--store {store}"))
        .effect("none: no process was started")
        .try_this(format_args!(
            "fencepost {} --store redis",
            scenario.command()
        ))
}

/// Runs a lock trial with processes of this program, and judges it, without showing anything.
pub(crate) fn quietly(
    trial: &Trial,
    file: Option<File>,
    interrupt: Interrupt,
) -> Result<Judged, Stopped> {
    let contender = Contender::ours(trial.strategy)?;
    let subject = || contender.command();
    let history = holds::run(trial, &subject, file, &mut (), interrupt)?;
    Ok(Judged::of(trial, history))
}

/// Shows a lock trial while it runs.
struct Viewer<'a> {
    screen: &'a mut Screen,
    lanes: Option<Lanes>,
}

impl Viewer<'_> {
    fn finish(&mut self, tried: &Judged) {
        if let Some(lanes) = &mut self.lanes {
            let rest = lanes.finish(&tried.header, &tried.events);
            self.screen.print(&format!("{rest}\n"));
        }
    }
}

impl Watch for Viewer<'_> {
    fn starting(&mut self, ready: usize, of: usize) {
        self.screen
            .suspense(&format!("  {ready} of {of} processes are ready"));
    }

    fn look(&mut self, header: &Header, events: &[Event], now_ns: u64) {
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
