//! The search finds what a made-up lock is convicted by.

use super::*;
use crate::holds::storm::{Planned, PlannedFault};

/// Judges plans without running them, and stops after so many runs.
struct MadeUp<'a> {
    convicts: &'a dyn Fn(&Plan, usize) -> bool,
    left: usize,
    told: Vec<String>,
}

impl Runner for MadeUp<'_> {
    fn run(&mut self, plan: &Plan, run: usize) -> Option<bool> {
        self.left = self.left.checked_sub(1)?;
        Some((self.convicts)(plan, run))
    }

    fn told(&mut self, tried: &Tried) {
        self.told.push(tried.words());
    }
}

/// A plan of eight faults, one each second: kills, pauses and cuts by turns.
fn whole() -> Plan {
    let kinds = [PlannedFault::Kill, PlannedFault::Pause, PlannedFault::Cut];
    let fault = |number: usize| Planned {
        at_ms: 1_000 * number as u64,
        process: Some(number % 5),
        fault: kinds[number % 3],
        for_ms: 100,
    };
    Plan {
        for_ms: 60_000,
        faults: (0..8).map(fault).collect(),
    }
}

fn shrunk(convicts: &dyn Fn(&Plan, usize) -> bool, left: usize) -> (Shrunk, Vec<String>) {
    let mut runner = MadeUp {
        convicts,
        left,
        told: Vec::new(),
    };
    let shrunk = shrink(&whole(), 2_000, &mut runner);
    assert_eq!(runner.told.len(), shrunk.tried.len());
    (shrunk, runner.told)
}

fn has(plan: &Plan, at_ms: u64) -> bool {
    plan.faults.iter().any(|planned| planned.at_ms == at_ms)
}

#[test]
fn a_lock_that_needs_no_fault_is_convicted_without_one() {
    let (shrunk, told) = shrunk(&|_, _| true, usize::MAX);
    assert_eq!(
        told,
        [
            "all faults (3 kills, 3 pauses, 2 cuts): 5 of 5",
            "no faults: 5 of 5"
        ]
    );
    assert_eq!(shrunk.smallest().unwrap().plan.faults, []);
    assert!(shrunk.is_complete);
}

#[test]
fn a_single_kind_is_found_and_then_a_single_fault() {
    let (shrunk, told) = shrunk(&|plan, run| has(plan, 3_000) && run > 0, usize::MAX);
    assert!(
        told.contains(&"kills alone: 4 of 5".to_owned()),
        "{told:#?}"
    );
    assert!(
        told.contains(&"pauses alone: 0 of 5".to_owned()),
        "{told:#?}"
    );
    let smallest = shrunk.smallest().unwrap();
    assert_eq!(smallest.plan.faults, [whole().faults[3]]);
    assert_eq!(smallest.plan.for_ms, 5_100);
    assert_eq!((smallest.convicted, smallest.runs), (4, 5));
}

#[test]
fn faults_of_two_kinds_are_found_if_both_are_needed() {
    let needed = |plan: &Plan, _| has(plan, 3_000) && has(plan, 7_000);
    let (shrunk, told) = shrunk(&needed, usize::MAX);
    assert!(
        told.contains(&"without cuts: 5 of 5".to_owned()),
        "{told:#?}"
    );
    let smallest = shrunk.smallest().unwrap();
    assert_eq!(smallest.plan.faults, [whole().faults[3], whole().faults[7]]);
    assert!(shrunk.is_complete);
}

#[test]
fn a_plan_that_does_not_convict_again_is_not_made_smaller() {
    let (shrunk, told) = shrunk(&|_, _| false, usize::MAX);
    assert_eq!(told.len(), 1);
    assert_eq!(shrunk.smallest(), None);
    assert!(shrunk.is_complete);
}

#[test]
fn what_convicts_much_more_seldom_is_not_taken_for_the_same() {
    // Always by a kill and a cut together, and once of five times by the kill alone.
    let convicts = |plan: &Plan, run| has(plan, 0) && (has(plan, 2_000) || run == 0);
    let (shrunk, told) = shrunk(&convicts, usize::MAX);
    assert!(
        told.contains(&"kills alone: 1 of 5".to_owned()),
        "{told:#?}"
    );
    let smallest = shrunk.smallest().unwrap();
    assert_eq!(smallest.plan.faults, [whole().faults[0], whole().faults[2]]);
}

#[test]
fn when_the_time_is_over_the_smallest_so_far_stays() {
    for left in 0..60 {
        let (shrunk, _) = shrunk(&|plan, _| has(plan, 3_000), left);
        let runs: usize = shrunk.tried.iter().map(|tried| tried.runs).sum();
        assert!(runs <= left);
        assert_eq!(shrunk.smallest.is_some(), left >= RUNS, "{left}");
        let smallest = shrunk.smallest();
        assert!(smallest.is_none_or(|tried| tried.runs == RUNS && has(&tried.plan, 3_000)));
        assert_eq!(shrunk.is_complete, left >= 40, "{left}");
    }
}
