//! Tests each check of a lock trial with handwritten histories in which it is violated, held or undecided.

mod fences;

use super::*;
use crate::history::What;
use crate::holds::Scenario;
use crate::holds::by_hand::{HistoryBuilder, KEY};
use crate::protocol::{Action, PurchaseOutcome, ReleaseResult};
use crate::verdict::Finding;

const RELEASED: ReleaseResult = ReleaseResult::Released;

fn finding(history: &HistoryBuilder, name: &str) -> Finding {
    let (header, facts) = (history.header(), history.facts());
    let list = Checks::of(&header, &facts).list();
    list.iter()
        .find(|check| check.name == name)
        .unwrap()
        .finding
}

fn edge() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::TtlEdge)
}

/// A reads; B reads, writes and releases; then A writes.
fn overrun() -> HistoryBuilder {
    edge()
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .granted("B", KEY, 3.0, 1001.0, 1)
        .reads("B", 1002.0, 1)
        .writes("B", 1003.0, 1, 1)
        .releases("B", 1004.0, 1, RELEASED)
        .writes("A", 3000.0, 1, 1)
        .releases("A", 3001.0, 1, ReleaseResult::AlreadyLost)
}

/// A and B hold the lock one after the other.
fn in_turn() -> HistoryBuilder {
    edge()
        .granted("A", KEY, 0.0, 1.0, 1)
        .reads("A", 2.0, 1)
        .writes("A", 3.0, 1, 1)
        .releases("A", 4.0, 1, RELEASED)
        .granted("B", KEY, 2.0, 6.0, 1)
        .reads("B", 7.0, 1)
        .writes("B", 8.0, 1, 2)
        .releases("B", 9.0, 1, RELEASED)
}

#[test]
fn an_overrun_is_seen_at_the_resource_in_belief_and_in_the_number() {
    let history = overrun();
    for name in [
        "exclusion_at_resource",
        "exclusion_of_belief",
        "no_lost_update",
    ] {
        assert_eq!(finding(&history, name), Finding::Violated, "{name}");
        assert_eq!(finding(&in_turn(), name), Finding::Held, "{name}");
    }
    let (header, facts) = (history.header(), history.facts());
    let checks = Checks::of(&header, &facts);
    let (between, op) = checks.interleaved().unwrap();
    assert_eq!((between.serial, op.serial), (2, 4));
    assert_eq!(checks.lost_updates(), 1);
    let overlap = checks.overlaps()[0];
    assert_eq!(
        (overlap.from_ns, overlap.until_ns),
        (1_001_000_000, 1_004_000_000)
    );
}

#[test]
fn damage_within_a_lease_is_found_behind_damage_beyond_one() {
    let after_a = |b_writes: f64| {
        let history = edge()
            .granted("A", KEY, 0.0, 1.0, 1)
            .reads("A", 2.0, 1)
            .granted("B", KEY, 1_500.0, 1_501.0, 1)
            .reads("B", 1_502.0, 1)
            .writes("A", 1_503.0, 1, 1)
            .writes("B", 1_504.0, 1, 1)
            .granted("C", KEY, b_writes - 3.0, b_writes - 2.0, 1)
            .reads("C", b_writes - 1.0, 1)
            .writes("B", b_writes, 1, 1);
        let (header, facts) = (history.header(), history.facts());
        Checks::of(&header, &facts).is_damaged_within_lease()
    };
    assert!(after_a(1_600.0));
    assert!(!after_a(2_600.0));
}

#[test]
fn what_nobody_did_is_not_judged() {
    let nothing = edge();
    let names = [
        "exclusion_at_resource",
        "exclusion_of_belief",
        "no_lost_update",
    ];
    for name in names.into_iter().chain(["fence_issued", "recovery"]) {
        assert_eq!(finding(&nothing, name), Finding::NotApplicable, "{name}");
    }
    assert_eq!(finding(&nothing, "not_stuck"), Finding::Held);
    assert_eq!(finding(&nothing, "no_wait_cycle"), Finding::Held);
}

#[test]
fn two_who_touch_do_not_overlap() {
    let history = edge()
        .granted("A", KEY, 0.0, 1.0, 1)
        .releases("A", 5.0, 1, RELEASED)
        .granted("B", KEY, 4.0, 5.0, 1)
        .releases("B", 6.0, 1, RELEASED);
    assert_eq!(finding(&history, "exclusion_of_belief"), Finding::Held);
}

#[test]
fn locks_of_different_names_do_not_exclude_each_other() {
    let history = edge()
        .granted("A", KEY, 0.0, 1.0, 1)
        .granted("B", "product_B", 1.0, 2.0, 1)
        .releases("A", 5.0, 1, RELEASED);
    assert_eq!(finding(&history, "exclusion_of_belief"), Finding::Held);
}

#[test]
fn a_killed_holder_believes_nothing_any_more() {
    let history = edge()
        .granted("A", KEY, 0.0, 1.0, 1)
        .fault("A", 10.0, Fault::Killed)
        .granted("B", KEY, 11.0, 12.0, 1)
        .reads("B", 20.0, 1);
    assert_eq!(finding(&history, "exclusion_of_belief"), Finding::Held);
}

#[test]
fn a_release_without_an_answer_ends_the_hold_where_it_was_sent() {
    let (op, hold, key) = (9, 1, KEY.to_owned());
    let failed = What::Failed {
        op,
        definite: false,
        message: "no answer".into(),
    };
    let history = edge()
        .granted("A", KEY, 0.0, 1.0, 1)
        .add(5.0, "A", What::Release { op, key, hold })
        .granted("B", KEY, 6.0, 7.0, 1)
        .add(60.0, "A", failed);
    assert_eq!(finding(&history, "exclusion_of_belief"), Finding::Held);
}

#[test]
fn a_holder_that_fell_silent_is_believed_only_up_to_its_last_step() {
    let died = What::Failed {
        op: 0,
        definite: false,
        message: "ended with 4".into(),
    };
    let history = |last_step: f64| {
        edge()
            .granted("A", KEY, 0.0, 1.0, 1)
            .granted("B", KEY, 3.0, 1001.0, 1)
            .reads("A", last_step, 1)
            .add(1500.0, "A", died.clone())
            .releases("B", 2000.0, 1, RELEASED)
    };
    assert_eq!(finding(&history(2.0), "exclusion_of_belief"), Finding::Held);
    assert_eq!(
        finding(&history(1200.0), "exclusion_of_belief"),
        Finding::Violated
    );
}

#[test]
fn a_grant_that_is_told_after_its_lease_is_not_within_a_lease() {
    // B asked before A, may have had the lock for a TTL, and reports the grant only when A has the lock.
    let history = |granted: f64| {
        edge()
            .asks("B", KEY, 0.0, 0)
            .granted("A", KEY, 400.0, 900.0, 1)
            .grants("B", KEY, 1, granted, 1, None)
            .releases("A", 1300.0, 1, RELEASED)
    };
    for (granted, is_certain) in [(990.0, true), (1010.0, false)] {
        let (history, header) = (history(granted), edge().header());
        let facts = history.facts();
        let overlaps = Checks::of(&header, &facts).overlaps();
        assert_eq!(overlaps.len(), 1);
        assert_eq!(overlaps[0].is_within_lease(), is_certain);
    }
}

/// A says that its lock is lost only when B has got it within A's lease.
#[test]
fn a_grant_within_a_lease_whose_loss_is_told_later_is_seen() {
    let told = |at: f64, disturbed: fn(HistoryBuilder) -> HistoryBuilder| {
        let history = disturbed(edge().granted("A", KEY, 0.0, 1.0, 1).reads("A", 2.0, 1));
        let history = history
            .granted("B", KEY, at, at + 0.5, 1)
            .add(at + 5.0, "A", What::Lost { hold: 1 })
            .releases("B", at + 10.0, 1, RELEASED);
        let (header, facts) = (edge().header(), history.facts());
        let checks = Checks::of(&header, &facts);
        assert!(checks.overlaps().is_empty());
        checks.granted_before_loss_was_told().is_some()
    };
    assert!(told(500.0, |calm| calm));
    assert!(!told(1_000.0, |over| over), "the lease is over");
    let stopped = |history: HistoryBuilder| history.fault("A", 100.0, Fault::Stopped);
    assert!(!told(500.0, stopped));
    let said = |history: HistoryBuilder| history.add(400.0, "A", What::Lost { hold: 1 });
    assert!(!told(500.0, said), "A said so before");
}

#[test]
fn an_acquire_without_an_answer_constrains_nothing() {
    let failed = What::Failed {
        op: 1,
        definite: false,
        message: "killed by SIGSEGV".into(),
    };
    let history = edge()
        .asks("A", KEY, 0.0, 0)
        .add(3.0, "A", failed)
        .granted("B", KEY, 1.0, 2.0, 1);
    assert_eq!(history.facts().holds.len(), 1);
    assert_eq!(finding(&history, "exclusion_of_belief"), Finding::Held);
    assert_eq!(history.facts().failures.len(), 1);
}

#[test]
fn who_learns_of_the_loss_is_believed_only_up_to_its_last_step() {
    let history = |last_step: f64| {
        edge()
            .granted("A", KEY, 0.0, 1.0, 1)
            .granted("B", KEY, 3.0, 1001.0, 1)
            .reads("A", last_step, 1)
            .add(1500.0, "A", What::Lost { hold: 1 })
            .releases("A", 2000.0, 1, ReleaseResult::AlreadyLost)
    };
    assert_eq!(finding(&history(2.0), "exclusion_of_belief"), Finding::Held);
    assert_eq!(
        finding(&history(1200.0), "exclusion_of_belief"),
        Finding::Violated
    );
}

#[test]
fn who_knew_of_the_loss_from_the_beginning_overlaps_with_nobody() {
    let history = edge()
        .granted("A", KEY, 0.0, 1.0, 1)
        .granted("B", KEY, 3.0, 4.0, 1)
        .add(5.0, "B", What::Lost { hold: 1 })
        .releases("A", 20.0, 1, RELEASED);
    assert_eq!(finding(&history, "exclusion_of_belief"), Finding::Held);
}

#[test]
fn a_promised_fence_has_to_come() {
    let none = in_turn().with("fenced");
    assert_eq!(finding(&none, "fence_issued"), Finding::Violated);
    assert_eq!(finding(&in_turn(), "fence_issued"), Finding::NotApplicable);
}

#[test]
fn nothing_is_accepted_below_the_highest_fence() {
    for (action, fence, refused, expected) in [
        (Action::Read, "6.9", false, Finding::Violated),
        (Action::Write, "6.9", false, Finding::Violated),
        (Action::Write, "6.9", true, Finding::Held),
        (Action::Write, "7.0", false, Finding::Held),
        (Action::Read, "8.0", false, Finding::Held),
    ] {
        let used = What::Register {
            op: 1,
            hold: 1,
            serial: 1,
            action,
            value: 0,
            fence: Some(fence.into()),
            highest: Some("7.0".into()),
            refused,
        };
        let history = edge().with("fenced").add(1.0, "A", used);
        assert_eq!(
            finding(&history, "fence_enforced"),
            expected,
            "{action:?} {fence}"
        );
    }
    assert_eq!(
        finding(&overrun(), "fence_enforced"),
        Finding::NotApplicable
    );
}

fn crash() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::Crash)
        .granted("A", KEY, 0.0, 1.0, 1)
        .fault("A", 300.0, Fault::Killed)
        .tries("B", 301.0)
}

#[test]
fn recovery_is_held_against_what_was_promised() {
    let recovered = crash().granted("B", KEY, 302.0, 1002.0, 1);
    assert_eq!(finding(&recovered, "recovery"), Finding::Held);
    let promise = Claims {
        recovery_ms: Some(500),
        ..Claims::default()
    };
    let generous = Claims {
        recovery_ms: Some(800),
        ..Claims::default()
    };
    let kept = recovered.clone().promising(generous);
    assert_eq!(finding(&kept, "recovery"), Finding::Held);
    let little = recovered.promising(promise);
    assert_eq!(finding(&little, "recovery"), Finding::Undecided);
    let late = crash().granted("B", KEY, 302.0, 2299.0, 1);
    assert_eq!(finding(&late, "recovery"), Finding::Held);
    let after_two_leases = crash().granted("B", KEY, 302.0, 2301.0, 1);
    assert_eq!(finding(&after_two_leases, "recovery"), Finding::Violated);
    assert_eq!(
        finding(&late.promising(promise), "recovery"),
        Finding::Violated
    );
    assert_eq!(finding(&crash(), "recovery"), Finding::Undecided);
}

#[test]
fn stuck_needs_three_ttls_and_a_store_that_does_not_say_otherwise() {
    let stuck = crash().waits_in_vain("B", 302.0, 3302.0);
    let freed = crash().granted("B", KEY, 302.0, 1002.0, 1);
    for (history, expected) in [
        (stuck.clone(), Finding::Violated),
        (stuck.clone().looks(3303.0, true, None), Finding::Violated),
        (stuck.clone().looks(3303.0, true, Some(20.0)), Finding::Held),
        (stuck.looks(3303.0, false, None), Finding::Held),
        (crash().waits_in_vain("B", 302.0, 3299.0), Finding::Held),
        (freed.waits_in_vain("C", 303.0, 4000.0), Finding::Held),
    ] {
        assert_eq!(finding(&history, "not_stuck"), expected);
    }
}

#[test]
fn nobody_can_buy_after_a_purchase_that_failed() {
    for (until, outcome, expected) in [
        (3100.0, PurchaseOutcome::Busy, Finding::Violated),
        (3100.0, PurchaseOutcome::Sold, Finding::Held),
        (2000.0, PurchaseOutcome::Busy, Finding::Held),
    ] {
        let history = HistoryBuilder::of(Scenario::ShortStock)
            .buys("A", 0.0, 1.0, PurchaseOutcome::NoStock)
            .buys("B", 2.0, 3.0, PurchaseOutcome::Busy)
            .buys("B", 4.0, until, outcome);
        assert_eq!(
            finding(&history, "not_stuck"),
            expected,
            "{until} {outcome:?}"
        );
    }
}

/// Each process holds one lock and waits for the other's.
fn embrace() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::Deadlock)
        .granted("A", KEY, 0.0, 1.0, 1)
        .granted("B", "product_B", 0.0, 1.5, 1)
        .asks("A", "product_B", 50.0, 10_000)
        .asks("B", KEY, 51.0, 10_000)
}

#[test]
fn a_wait_cycle_is_found_with_its_length() {
    let history =
        embrace()
            .grants("B", KEY, 6, 1001.0, 2, None)
            .grants("A", "product_B", 5, 1002.0, 2, None);
    let facts = history.facts();
    let cycles = facts.cycles();
    assert_eq!(cycles.len(), 1);
    assert_eq!(cycles[0].who, ["B", "A"]);
    assert_eq!(cycles[0].lasted_ns, 950_000_000);
    assert_eq!(finding(&history, "no_wait_cycle"), Finding::Violated);
    assert_eq!(finding(&in_turn(), "no_wait_cycle"), Finding::Held);
}

#[test]
fn a_line_of_waiters_is_no_cycle_and_a_try_is_no_wait() {
    let line = HistoryBuilder::of(Scenario::DeadlockSorted)
        .granted("A", KEY, 0.0, 1.0, 1)
        .asks("B", KEY, 2.0, 10_000)
        .asks("C", KEY, 3.0, 10_000);
    assert!(line.facts().cycles().is_empty());
    let once = HistoryBuilder::of(Scenario::Deadlock)
        .granted("A", KEY, 0.0, 1.0, 1)
        .granted("B", "product_B", 0.0, 1.5, 1)
        .asks("A", "product_B", 50.0, 10_000)
        .asks("B", KEY, 51.0, 0)
        .looks(60.0, true, None);
    assert!(once.facts().cycles().is_empty());
}

#[test]
fn a_lock_that_was_given_back_closes_no_cycle() {
    let history = HistoryBuilder::of(Scenario::Deadlock)
        .granted("A", KEY, 0.0, 1.0, 1)
        .granted("B", "product_B", 0.0, 1.5, 1)
        .releases("A", 20.0, 1, RELEASED)
        .asks("A", "product_B", 50.0, 10_000)
        .asks("B", KEY, 51.0, 10_000)
        .looks(60.0, true, None);
    assert!(history.facts().cycles().is_empty());
}

#[test]
fn a_cycle_of_three_is_found_once() {
    let history = HistoryBuilder::of(Scenario::Deadlock)
        .granted("A", "a", 0.0, 1.0, 1)
        .granted("B", "b", 0.0, 1.0, 1)
        .granted("C", "c", 0.0, 1.0, 1)
        .asks("A", "b", 2.0, 10_000)
        .asks("B", "c", 3.0, 10_000)
        .asks("C", "a", 4.0, 10_000);
    // The lab is still recording, and both processes still hold their locks.
    let history = history.looks(50.0, true, None);
    let facts = history.facts();
    let cycles = facts.cycles();
    assert_eq!(cycles.len(), 1);
    assert_eq!(cycles[0].who, ["C", "A", "B"]);
    assert_eq!((cycles[0].until, cycles[0].lasted_ns), (None, 46_000_000));
}

#[test]
fn a_cycle_that_outlasts_three_ttls_is_stuck() {
    let stuck = |until| {
        embrace()
            .refuses("A", 5, until)
            .refuses("B", 6, until + 1.0)
    };
    assert_eq!(finding(&stuck(3052.0), "not_stuck"), Finding::Violated);
    let one_got_on = embrace()
        .refuses("A", 5, 3052.0)
        .grants("B", KEY, 6, 3053.0, 2, None);
    assert_eq!(finding(&one_got_on, "not_stuck"), Finding::Held);
    assert_eq!(finding(&stuck(3000.0), "not_stuck"), Finding::Held);
}
