//! The conformance suite on stores that break one rule each: the requirement that states the rule fails, and says why.

mod breach;
mod changes;
mod grants;
mod record_changes;
mod records;
mod releases;
mod renewals;
mod shares;
mod table;
mod table_of_elections;
mod table_of_records;
mod table_of_runs;
mod table_of_shares;
mod views;
mod waiting;

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fencepost::conformance::{Requirement, requirements};

use self::breach::{Breach, Nothing, store_with};
use self::table::{BREACHES, Line, NOT_BROKEN_BY_A_STORE, Violation};
use self::table_of_elections::BREACHES_OF_ELECTIONS;
use self::table_of_records::BREACHES_OF_RECORDS;
use self::table_of_runs::BREACHES_OF_RUNS;
use self::table_of_shares::BREACHES_OF_SHARES;

/// On a slow machine, a breach may stay hidden, or a requirement may fail because the machine is slow. So a requirement gets this many
/// chances to fail as the table says.
const CHANCES: usize = 3;

fn breaches() -> impl Iterator<Item = &'static Line> {
    let of_kinds = BREACHES_OF_ELECTIONS
        .iter()
        .chain(BREACHES_OF_RUNS)
        .chain(BREACHES_OF_SHARES);
    BREACHES.iter().chain(BREACHES_OF_RECORDS).chain(of_kinds)
}

#[test]
fn a_requirement_fails_on_a_store_that_breaks_it() {
    let lines: Vec<_> = breaches()
        .flat_map(|(breach, list)| list.iter().map(move |violation| (*breach, violation)))
        .collect();
    // Most of them only wait for something that does not happen, so all run at once.
    let unnoticed = in_parallel(lines.len(), &lines, |(breach, violation)| {
        let requirement = named(violation.requirement);
        let Violation {
            requirement: name,
            message,
        } = violation;
        let mut unnoticed = None;
        for _ in 0..CHANCES {
            unnoticed = match failure_of(requirement, breach()) {
                Some(failure) if message.split('|').any(|part| failure.contains(part)) => {
                    return None;
                }
                Some(failure) => Some(format!("{name} fails for another reason: {failure}")),
                None => {
                    unnoticed.or_else(|| Some(format!("{name} is met by the store that breaks it")))
                }
            };
        }
        unnoticed
    });
    assert!(unnoticed.is_empty(), "{}", unnoticed.join("\n"));
}

#[test]
fn every_requirement_is_broken_by_a_store_or_excused() {
    let broken = breaches().flat_map(|(_, list)| *list);
    let broken: BTreeSet<&str> = broken.map(|violation| violation.requirement).collect();
    let excused = NOT_BROKEN_BY_A_STORE.iter().map(|(name, _)| *name);
    let excused: BTreeSet<&str> = excused.collect();
    let all: BTreeSet<&str> = requirements().map(Requirement::name).collect();
    assert_eq!(&broken | &excused, all);
    assert_eq!(&broken & &excused, BTreeSet::new());
}

#[test]
fn a_store_that_breaks_nothing_meets_every_requirement() {
    let all: Vec<_> = requirements().collect();
    let failed = in_parallel(8, &all, |requirement| {
        let failure = failure_of(requirement, Arc::new(Nothing))?;
        Some(format!("{}: {failure}", requirement.name()))
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn named(name: &str) -> &'static Requirement {
    let requirement = requirements().find(|one| one.name() == name);
    requirement.unwrap_or_else(|| panic!("no requirement is called {name}"))
}

/// Runs a requirement on a store with this breach. Returns the message of its failure, or `None` if the store meets it.
fn failure_of(requirement: &Requirement, breach: Arc<dyn Breach>) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let run = AssertUnwindSafe(|| runtime.block_on(requirement.run(store_with(breach))));
    catch_unwind(run).err().map(text_of)
}

fn text_of(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().unwrap_or(&"?").to_string(),
    }
}

/// Calls `run` for each item, this many at a time, and returns what it reports.
fn in_parallel<T: Sync>(
    at_once: usize,
    items: &[T],
    run: impl Fn(&T) -> Option<String> + Sync,
) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let items = std::iter::from_fn(|| items.get(next.fetch_add(1, Ordering::Relaxed)));
        items.filter_map(&run).collect::<Vec<String>>()
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        let reports = workers.into_iter().map(|worker| worker.join());
        reports
            .flat_map(|report| report.expect("no panic"))
            .collect()
    })
}
