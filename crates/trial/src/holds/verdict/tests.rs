//! Tests the verdicts on lock trials with handwritten histories. A submodule tests one scenario, or what several have in common.

mod client_clock;
mod crash;
mod deadline;
mod deadlock;
mod deposed;
mod late_write;
mod leader_deaths;
mod lost_lock;
mod lost_store;
mod lost_wakeup;
mod majority_down;
mod names;
mod network;
mod order;
mod owner_check;
mod pause;
mod pause_at_step;
mod promises;
mod reentry;
mod same_pid;
mod server_stall;
mod sessions;
mod stale_release;
mod stalls;
mod storm;
mod suggestions;
mod taken_away;
mod turns;
mod waiters;
mod whys;
mod witnesses;
mod write_only_fence;

use crate::history::{Fault, What};
use crate::holds::by_hand::{HistoryBuilder, KEY, shown};
use crate::holds::{SECOND_LOCK, Scenario};
use crate::protocol::{PurchaseOutcome, ReleaseResult};
use crate::verdict::{Belief, Damage, Outcome, Verdict};

const RELEASED: ReleaseResult = ReleaseResult::Released;
const LOST: ReleaseResult = ReleaseResult::AlreadyLost;
const OTHER: &str = SECOND_LOCK;

fn missing(verdict: &Verdict) -> &'static str {
    assert_eq!(
        verdict.outcome,
        Outcome::Inconclusive,
        "{}",
        verdict.because
    );
    verdict.missing.as_ref().unwrap().what.name()
}

fn held(verdict: &Verdict) {
    assert_eq!(verdict.outcome, Outcome::Held, "{}", verdict.because);
    assert!(!verdict.witness.is_empty(), "no HELD without a witness");
    assert!(verdict.limits.is_some(), "no HELD without limits");
}

fn crash() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::Crash)
        .ttl(2_000)
        .granted("A", KEY, 11.0, 11.9, 1)
        .fault("A", 312.4, Fault::Killed)
}

#[test]
fn a_recovery_is_measured_against_the_rest_of_the_lease() {
    let verdict = crash()
        .tries("B", 312.9)
        .granted("B", KEY, 313.0, 2014.6, 1)
        .judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "Recovered by itself, 1,702.2 ms after the kill."
    );
    assert_eq!(
        verdict.measured,
        ["1,699.5 ms at most were left of the lease at the kill; 2.7 ms or more came on top"]
    );
    assert_eq!(
        verdict.witness,
        ["A died of signal 9 while holding; B was refused 0.5 ms later"]
    );
    assert_eq!(verdict.belief.code, Belief::NoOverlap);
}

#[test]
fn a_crash_that_shows_nothing_is_inconclusive() {
    let alive = HistoryBuilder::of(Scenario::Crash).granted("A", KEY, 0.0, 1.0, 1);
    assert_eq!(missing(&alive.judged()), "kill");
    let over = HistoryBuilder::of(Scenario::Crash)
        .granted("A", KEY, 0.0, 1.0, 1)
        .fault("A", 1500.0, Fault::Killed)
        .granted("B", KEY, 1501.0, 1502.0, 1);
    assert_eq!(missing(&over.judged()), "hold");
    assert_eq!(missing(&crash().tries("B", 313.0).judged()), "answers");
    let at_once = crash().granted("B", KEY, 313.0, 313.5, 1);
    assert_eq!(missing(&at_once.judged()), "contention");
    let slow = crash()
        .waits_in_vain("B", 313.0, 6400.0)
        .looks(6401.0, false, None);
    assert_eq!(missing(&slow.judged()), "calm");
}

#[test]
fn a_lock_that_nobody_can_have_is_stuck() {
    let reached = What::Reached {
        op: 1,
        step: 1,
        of: 2,
        what: "creates the key".into(),
    };
    let verdict = HistoryBuilder::of(Scenario::Crash)
        .with("naive")
        .ttl(2_000)
        .asks("A", KEY, 9.0, 0)
        .add(9.8, "A", reached)
        .fault("A", 10.1, Fault::Killed)
        .tries("B", 10.5)
        .waits_in_vain("B", 10.6, 6010.1)
        .looks(6010.4, true, None)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Stuck);
    assert_eq!(
        verdict.because,
        "The holder is dead, and 6,000.0 ms (3 × TTL) later nobody can have its lock."
    );
    assert_eq!(
        shown(&verdict),
        [
            "#3 A is killed (signal 9) between its two steps",
            "#7 B is still refused",
            "#8 the lab reads the store: key there, no expiry, owner gone",
        ]
    );
    assert!(verdict.why.unwrap().starts_with("naive creates the key"));
}

/// A reads, then B gets the lock, reads and writes.
fn edge(strategy: &'static str) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::TtlEdge)
        .with(strategy)
        .ttl(2_000)
        .granted("A", KEY, 8.0, 8.6, 1)
        .reads("A", 8.8, 1)
        .lease_over("A", 2008.6, 1)
        .granted("B", KEY, 20.0, 2011.2, 1)
        .reads("B", 2011.3, 1)
        .writes("B", 2011.9, 1, 1)
        .releases("B", 2012.1, 1, RELEASED)
}

#[test]
fn an_update_that_was_written_over_breaks_a_lock() {
    let verdict = edge("safe")
        .writes("A", 3009.4, 1, 1)
        .releases("A", 3009.7, 1, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "A wrote over B's update, 1,000.8 ms or more after its lease had ended. One is lost."
    );
    let sentences: Vec<_> = verdict
        .evidence
        .iter()
        .map(|e| e.sentence.as_str())
        .collect();
    assert_eq!(
        sentences,
        [
            "A reads 0",
            "B, granted in between, writes 1",
            "A writes 1: computed from op 1, B's update is gone",
        ]
    );
    assert_eq!(
        verdict.belief.text.unwrap(),
        "two holders for 0.9 ms: B from 2,011.2 to 2,012.1, A from 8.6 to 3,009.7 ms"
    );
    assert_eq!(
        verdict.damage.code,
        [Damage::LostUpdate, Damage::Interleaved]
    );
    assert_eq!(
        verdict.damage.text.unwrap(),
        "2 additions acknowledged, the number is 1"
    );
    assert_eq!(verdict.next.len(), 2);
}

#[test]
fn a_resource_that_refuses_the_late_write_holds() {
    let verdict = edge("fenced")
        .write_refused("A", 3009.4, 1, 1)
        .releases("A", 3009.7, 1, LOST)
        .judged();
    held(&verdict);
    assert_eq!(
        verdict.because,
        "No damage: the resource refused A's late write (fence 1.0; it had seen 2.0)."
    );
    assert_eq!(
        verdict.witness,
        ["A's lease was over by 2,008.6 ms, and A wrote at 3,009.4 ms"]
    );
    assert_eq!(verdict.belief.code, Belief::Overlap);
    assert_eq!(verdict.damage.code, []);
}

#[test]
fn a_fenced_lock_that_is_granted_twice_within_its_lease_is_broken() {
    let verdict = HistoryBuilder::of(Scenario::TtlEdge)
        .with("fenced")
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .granted("B", KEY, 3.0, 500.0, 1)
        .releases("B", 510.0, 1, RELEASED)
        .write_refused("A", 3000.0, 1, 1)
        .releases("A", 3001.0, 1, LOST)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(verdict.because, "Two holders at once, within A's lease.");
}

#[test]
fn a_slow_answer_of_the_lab_does_not_convict_a_fenced_lock() {
    // The lab read A's grant late, so A's lease ended earlier than the lab assumes. B rightly gets the lock.
    let verdict = HistoryBuilder::of(Scenario::TtlEdge)
        .with("fenced")
        .granted("A", KEY, 0.0, 200.0, 1)
        .reads("A", 201.0, 1)
        .granted("B", KEY, 202.0, 1002.0, 1)
        .reads("B", 1003.0, 1)
        .writes("B", 1004.0, 1, 1)
        .releases("B", 1005.0, 1, RELEASED)
        .lease_over("A", 1200.0, 1)
        .write_refused("A", 3000.0, 1, 1)
        .releases("A", 3001.0, 1, LOST)
        .judged();
    held(&verdict);
}

#[test]
fn a_lease_that_is_renewed_keeps_the_other_out() {
    let kept = |work: f64| {
        HistoryBuilder::of(Scenario::TtlEdge)
            .with("watchdog")
            .ttl(2_000)
            .granted("A", KEY, 8.0, 8.6, 1)
            .reads("A", 8.8, 1)
            .writes("A", work, 1, 1)
            .releases("A", work + 0.2, 1, RELEASED)
            .granted("B", KEY, 20.0, work + 2.0, 1)
            .reads("B", work + 3.0, 1)
            .writes("B", work + 4.0, 1, 2)
            .releases("B", work + 5.0, 1, RELEASED)
            .judged()
    };
    held(&kept(3008.6));
    assert_eq!(missing(&kept(1500.0)), "overrun");
}

#[test]
fn who_comes_only_when_the_work_is_done_shows_nothing() {
    let verdict = HistoryBuilder::of(Scenario::TtlEdge)
        .with("watchdog")
        .ttl(2_000)
        .granted("A", KEY, 8.0, 8.6, 1)
        .reads("A", 8.8, 1)
        .writes("A", 3008.6, 1, 1)
        .releases("A", 3008.8, 1, RELEASED)
        .granted("B", KEY, 3010.0, 3011.0, 1)
        .judged();
    assert_eq!(missing(&verdict), "contention");
}

#[test]
fn damage_at_the_resource_needs_no_clock() {
    // By the lab's clock, each process released the lock before the other had it. The log of the number shows otherwise.
    let interleaved = HistoryBuilder::of(Scenario::TtlEdge)
        .granted("A", KEY, 0.0, 1.0, 1)
        .releases("A", 2.0, 1, RELEASED)
        .granted("B", KEY, 3.0, 4.0, 1)
        .reads("A", 5.0, 1)
        .reads("B", 6.0, 1)
        .writes("A", 7.0, 1, 1)
        .judged();
    assert_eq!(interleaved.outcome, Outcome::Broken);
    assert_eq!(interleaved.damage.code, [Damage::Interleaved]);
    let written_over = HistoryBuilder::of(Scenario::TtlEdge)
        .granted("A", KEY, 0.0, 1.0, 1)
        .writes("A", 2.0, 1, 1)
        .releases("A", 3.0, 1, RELEASED)
        .granted("B", KEY, 4.0, 5.0, 1)
        .writes("B", 6.0, 1, 1)
        .judged();
    assert_eq!(written_over.outcome, Outcome::Broken);
    assert_eq!(written_over.damage.code, [Damage::LostUpdate]);
}

#[test]
fn who_knows_that_its_lock_is_lost_and_stops_holds() {
    let history = edge("safe")
        .add(3009.4, "A", What::Declined { op: 40, hold: 1 })
        .releases("A", 3009.7, 1, LOST);
    let verdict = history.judged();
    held(&verdict);
    assert_eq!(
        verdict.belief.code,
        Belief::NoOverlap,
        "it may have known all along"
    );
}

/// Each process holds one lock and waits for the other's. Then the TTL ends both leases, and both get both locks.
fn embrace(strategy: &'static str) -> HistoryBuilder {
    HistoryBuilder::of(Scenario::Deadlock)
        .with(strategy)
        .ttl(3_000)
        .granted("A", KEY, 0.5, 0.9, 1)
        .granted("B", OTHER, 0.6, 1.0, 1)
        .asks("A", OTHER, 51.1, 9_020)
        .asks("B", KEY, 51.2, 9_020)
}

fn let_in(strategy: &'static str) -> HistoryBuilder {
    embrace(strategy)
        .grants("B", KEY, 6, 3002.5, 2, None)
        .grants("A", OTHER, 5, 3002.8, 2, None)
        .reads("A", 3003.1, 1)
        .reads("B", 3003.2, 2)
}

fn let_go(history: HistoryBuilder) -> Verdict {
    history
        .releases_of("A", OTHER, 3053.9, 2, RELEASED)
        .releases_of("B", KEY, 3053.9, 2, RELEASED)
        .releases_of("A", KEY, 3053.9, 1, LOST)
        .releases_of("B", OTHER, 3053.9, 1, LOST)
        .judged()
}

#[test]
fn a_purchase_without_stock_gives_its_lock_back_or_is_stuck() {
    let after = |outcome, until: f64| {
        HistoryBuilder::of(Scenario::ShortStock)
            .with("late-expiry")
            .add(0.0, "", What::StockSet { units: 0 })
            .buys("A", 0.5, 1.0, PurchaseOutcome::NoStock)
            .add(1.1, "", What::StockSet { units: 1 })
            .buys("B", 1.2, until, outcome)
            .judged()
    };
    held(&after(PurchaseOutcome::Sold, 2.0));
    let stuck = after(PurchaseOutcome::Busy, 3100.0);
    assert_eq!(stuck.outcome, Outcome::Stuck);
    assert_eq!(stuck.evidence.len(), 2);
    assert_eq!(missing(&after(PurchaseOutcome::Busy, 900.0)), "answers");
    let full = HistoryBuilder::of(Scenario::ShortStock).buys("A", 0.0, 1.0, PurchaseOutcome::Sold);
    assert_eq!(missing(&full.judged()), "failed_purchase");
    let from_nothing = HistoryBuilder::of(Scenario::ShortStock)
        .add(0.0, "", What::StockSet { units: 0 })
        .buys("A", 0.5, 1.0, PurchaseOutcome::Sold)
        .judged();
    assert_eq!(from_nothing.outcome, Outcome::Broken);
    assert_eq!(
        shown(&from_nothing),
        [
            "#1 the lab sets the stock to 0",
            "#3 A buys a unit: there was nothing to sell"
        ]
    );
}

#[test]
fn a_recovery_that_takes_two_leases_breaks_a_lock_that_promises_nothing() {
    let verdict = crash()
        .tries("B", 312.9)
        .granted("B", KEY, 313.0, 4400.0, 1)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "Recovered 4,087.6 ms after the kill; its lease lasts 2,000.0 ms."
    );
    assert_eq!(
        verdict.why.unwrap(),
        "B waited 4,087.0 ms for the lock of a dead holder. It was refused once before."
    );
}

#[test]
fn the_evidence_is_of_the_overlap_that_convicts() {
    // The lease of the first lock may have expired when B got in; the lease of the second had not.
    let verdict = HistoryBuilder::of(Scenario::DeadlockSorted)
        .granted("A", KEY, 0.0, 0.9, 1)
        .granted("B", KEY, 1100.0, 1101.0, 1)
        .granted("A", OTHER, 1200.0, 1201.0, 2)
        .granted("B", OTHER, 1210.0, 1211.0, 2)
        .reads("B", 1220.0, 2)
        .judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        shown(&verdict)[0],
        "#8 B is granted product_B; A, granted it at 1,201.0, held on to 1,220.0"
    );
}
