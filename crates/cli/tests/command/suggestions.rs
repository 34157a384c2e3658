//! Tests that every suggested command is accepted and can show what it is suggested for.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fencepost_trial::holds::Scenario;
use fencepost_trial::store::{ServerFault, TrialStore};
use fencepost_trial::strategy;

use crate::{Ran, run};

/// Returns the commands that a text suggests.
fn commands(text: &str) -> BTreeSet<String> {
    let lines = text.lines().map(|line| line.trim_start());
    let lines = lines.flat_map(|line| line.split(" · "));
    let command = |part: &str| {
        let at = part.find("fencepost ")?;
        let is_label = ["", "next"].contains(&part[..at].trim());
        // A remark is separated from its command by spaces.
        let command = part[at..].split("   ").next()?;
        is_label.then(|| command.trim_end().to_owned())
    };
    lines.filter_map(command).collect()
}

/// Runs the command up to the point where it would write its results, which fails: after its arguments were read and its store
/// was found, but before any process is started.
fn only_begin(command: &str) -> Ran {
    let words = command.strip_prefix("fencepost ").unwrap();
    let (words, _) = words.split_once(" --report ").unwrap_or((words, ""));
    run(&format!("{words} --output nowhere/results.json"))
}

fn number_after(command: &str, flag: &str) -> Option<u64> {
    let (_, rest) = command.split_once(flag)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Panics unless the command can be run and shows something.
fn assert_works(command: &str) {
    let ran = only_begin(command);
    assert_eq!(ran.code, 73, "{command}: {}", ran.stderr);
    if command.contains(" --ttl-edge") {
        let ttl = number_after(command, " --ttl ").unwrap_or(2_000);
        let work = number_after(command, " --work ").unwrap_or(3_000);
        assert!(work > ttl, "{command}: the work ends within the lease");
    }
}

/// Returns the first alternative that an error suggests for a lock.
fn advised(stderr: &str) -> &str {
    let (_, advice) = stderr.split_once("  try       ").unwrap();
    let line = advice.lines().next().unwrap();
    line.split("      or ").next().unwrap()
}

#[test]
fn a_lock_that_does_not_fit_is_answered_with_one_that_does() {
    for scenario in Scenario::ALL {
        let mut tried = BTreeSet::new();
        for strategy in strategy::ALL {
            let command = format!("fencepost {} --lock={}", scenario.command(), strategy.name);
            let ran = only_begin(&command);
            if ran.code == 73 {
                continue;
            }
            assert_eq!(ran.code, 64, "{command}: {}", ran.stderr);
            let advice = advised(&ran.stderr).to_owned();
            // A private server takes a while to start, and is the same for every scenario that does not make it fail.
            let needs_server = advice.contains("--store");
            if (needs_server && scenario != Scenario::Crash) || !tried.insert(advice.clone()) {
                // Such a server is started anyway, and must be one that the lab can make fail.
                let store = advice.split_once("--store ").map(|(_, store)| store);
                let store = store.and_then(|store| store.split_whitespace().next());
                let store = store.and_then(TrialStore::named);
                let is_possible = store.is_some_and(|store| {
                    scenario.server_fault(store.facts()) == Some(ServerFault::Available)
                });
                assert!(
                    !scenario.fails_servers() || !needs_server || is_possible,
                    "{command}: {advice}"
                );
                continue;
            }
            assert_works(&format!("fencepost {} {advice}", scenario.command()));
        }
    }
}

/// Returns what every scenario that needs no server suggests, with every available lock.
fn all_suggestions() -> BTreeSet<String> {
    let scenarios = Scenario::ALL.into_iter().filter(|all| !all.needs_server());
    let mut trials = Vec::new();
    for scenario in scenarios {
        for lock in strategy::at(&TrialStore::sqlite()).filter(|lock| lock.lock.is_some()) {
            let work = match scenario {
                Scenario::TtlEdge => " --work 450",
                Scenario::Storm => " --for 2s",
                _ => "",
            };
            let command = scenario.command();
            trials.push(format!("{command} --lock={} --ttl 300{work}", lock.name));
        }
    }
    assert_eq!(trials.len(), 19 * 7);
    let next = AtomicUsize::new(0);
    let suggested = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let ran = run(trial);
                    assert!(ran.code <= 3, "{trial}: {}", ran.stderr);
                    suggested.lock().unwrap().extend(commands(&ran.stdout));
                }
            });
        }
    });
    suggested.into_inner().unwrap()
}

#[test]
fn what_any_lock_trial_suggests_works() {
    let suggested = all_suggestions();
    assert!(suggested.len() > 10, "{suggested:?}");
    for command in &suggested {
        assert_works(command);
    }
}

#[test]
fn what_is_suggested_after_unusual_settings_works() {
    for arguments in [
        "crash --ttl 300",
        "crash --ttl 300 --lock=naive",
        "crash --ttl-edge --work=450 --ttl 300",
        "trial stale-release --ttl 300 --lock=safe",
        "trial stale-release --ttl 300 --lock=blind-delete",
        "deadlock --ttl 300",
        "deadlock --ttl 300 --lock=watchdog",
        "oversell --lock=none --stock=2 --concurrency=4",
        "oversell --lock=safe --stock=2 --concurrency=4",
        "oversell --lock=safe --stock=2 --concurrency=4 --wait 20000 --delay 2000",
        "oversell --lock=early-unlock --stock=9 --concurrency=4 --wait 20000",
        "oversell --lock=atomic --stock=2 --concurrency=4 --delay 2000",
    ] {
        let ran = run(arguments);
        assert!(ran.code <= 3, "{arguments}: {}", ran.stderr);
        for command in commands(&ran.stdout) {
            assert_works(&command);
        }
    }
}

#[test]
fn suggestions_are_found_in_what_is_printed() {
    let report = "\
        HELD   Recovered.\n  next      fencepost crash --lock=naive · fencepost crash --ttl-edge\n\
        BROKEN\n  next      fencepost oversell --lock=safe   the same race with a lock\n\
        \x20           fencepost oversell --all           every strategy\n\
        \x20 kept      run.jsonl, 2 events: fencepost check run.jsonl\n";
    let found: Vec<String> = commands(report).into_iter().collect();
    let expected = [
        "fencepost crash --lock=naive",
        "fencepost crash --ttl-edge",
        "fencepost oversell --all",
        "fencepost oversell --lock=safe",
    ];
    assert_eq!(found, expected);
}
