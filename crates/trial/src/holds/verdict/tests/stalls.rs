//! Verdicts on runs in which the lab itself stalled: its clock then accuses nobody of being slow.

use super::*;
use crate::verdict::Finding;

fn finding(verdict: &Verdict, name: &str) -> Finding {
    let mut checks = verdict.checks.iter();
    checks.find(|check| check.name == name).unwrap().finding
}

/// A is killed, and B gets the lock two TTLs late.
fn recovered_late() -> HistoryBuilder {
    crash().tries("B", 312.9)
}

#[test]
fn a_late_recovery_convicts_only_if_the_lab_was_there() {
    let late = |stall: Option<(f64, f64)>| {
        let history = match stall {
            Some((from, until)) => recovered_late().stalls(from, until),
            None => recovered_late(),
        };
        history.granted("B", KEY, 313.0, 4_400.0, 1).judged()
    };
    let alone = late(None);
    assert_eq!(alone.outcome, Outcome::Broken);
    assert_eq!(finding(&alone, "recovery"), Finding::Violated);
    for within in [(350.0, 4_390.0), (300.0, 600.0), (4_390.0, 4_500.0)] {
        let verdict = late(Some(within));
        assert_eq!(missing(&verdict), "calm", "{within:?}");
        assert_eq!(
            verdict.because,
            "B got the lock 4,087.6 ms after the kill, but the lab itself stalled meanwhile."
        );
        assert_eq!(finding(&verdict, "recovery"), Finding::Undecided);
    }
    for outside in [(10.0, 300.0), (4_401.0, 5_000.0)] {
        assert_eq!(late(Some(outside)).outcome, Outcome::Broken, "{outside:?}");
    }
}

#[test]
fn a_recovery_in_time_is_acquitted_whether_or_not_the_lab_was_there() {
    let verdict = recovered_late()
        .stalls(320.0, 1_900.0)
        .granted("B", KEY, 313.0, 2_014.6, 1)
        .judged();
    held(&verdict);
    assert_eq!(finding(&verdict, "recovery"), Finding::Held);
}

#[test]
fn a_lock_is_stuck_only_if_the_lab_was_there() {
    let refused = |history: HistoryBuilder| history.waits_in_vain("B", 313.0, 6_400.0);
    assert_eq!(refused(recovered_late()).judged().outcome, Outcome::Stuck);
    let verdict = refused(recovered_late()).stalls(400.0, 6_399.0).judged();
    assert_eq!(missing(&verdict), "calm");
    assert_eq!(
        verdict.because,
        "Nobody got the lock for 6,087.6 ms, but the lab itself stalled meanwhile."
    );
    assert_eq!(finding(&verdict, "not_stuck"), Finding::Undecided);
}

#[test]
fn short_stalls_leave_enough_time_to_call_a_lock_stuck() {
    let refused = |stalls: &[(f64, f64)]| {
        let history = stalls
            .iter()
            .fold(recovered_late(), |history, (from, until)| {
                history.stalls(*from, *until)
            });
        history.waits_in_vain("B", 313.0, 6_400.0).judged()
    };
    // Of 6,087.6 ms, 4,000 must remain.
    let short = [(0.0, 300.0), (400.0, 1_400.0), (3_000.0, 4_000.0)];
    assert_eq!(refused(&short).outcome, Outcome::Stuck);
    let long = [(400.0, 1_500.0), (3_000.0, 4_000.0)];
    assert_eq!(missing(&refused(&long)), "calm");
    assert_eq!(missing(&refused(&[(300.0, 2_500.0)])), "calm");
}

#[test]
fn a_free_lock_that_comes_late_is_explained_by_a_stall() {
    let history = |stalled: bool| {
        let history = HistoryBuilder::of(Scenario::LostWakeup)
            .granted("A", KEY, 0.5, 1.0, 1)
            .asks("B", KEY, 4.0, 9_000)
            .releases("A", 5.0, 1, RELEASED);
        let history = if stalled {
            history.stalls(6.0, 3_000.0)
        } else {
            history
        };
        history.grants("B", KEY, 3, 3_001.0, 1, None).judged()
    };
    assert!(history(false).because.contains("unless the machine"));
    assert_eq!(missing(&history(true)), "calm");
    assert!(history(true).because.contains("the lab itself stalled"));
}

#[test]
fn a_slow_single_try_is_reported_with_the_stall() {
    let verdict = crash()
        .asks("B", KEY, 313.0, 0)
        .stalls(314.0, 1_800.0)
        .refuses("B", 4, 1_801.0)
        .judged();
    assert_eq!(
        verdict.notes,
        [
            "B was asked not to wait (wait_ms 0), and its answer took 1,488.0 ms; the lab itself stalled meanwhile"
        ]
    );
}

#[test]
fn a_stall_excuses_nobody_who_lets_two_in() {
    let verdict = crash()
        .granted("B", KEY, 20.0, 30.0, 1)
        .stalls(31.0, 4_000.0)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken, "{}", verdict.because);
}

#[test]
fn only_so_many_notes_are_kept() {
    let mut history = crash();
    for round in 0..30 {
        let at = 400.0 + f64::from(round) * 2_000.0;
        let op = history.events().len() as u64 + 1;
        history = history.asks("B", KEY, at, 0).refuses("B", op, at + 1_500.0);
    }
    let notes = history.judged().notes;
    assert_eq!(notes.len(), 21);
    assert_eq!(
        notes[20],
        "10 further notes are left out; the history has everything"
    );
}

#[test]
fn nothing_is_proven_while_the_machine_is_suspended() {
    let met = HistoryBuilder::of(Scenario::Crash)
        .granted("A", KEY, 0.0, 1.0, 1)
        .granted("B", KEY, 5.0, 6.0, 1)
        .releases("B", 7.0, 1, RELEASED);
    assert_eq!(met.clone().judged().outcome, Outcome::Broken);
    let refused = recovered_late().waits_in_vain("B", 313.0, 6_400.0);
    assert_eq!(refused.clone().judged().outcome, Outcome::Stuck);
    for history in [met, refused] {
        let verdict = history.sleeps(6_500.0, 60_000.0).judged();
        assert_eq!(missing(&verdict), "awake");
        assert_eq!(
            verdict.because,
            "The machine was suspended for 60.0 s during the run: leases went on, and the lab's clock stood still."
        );
    }
}
