//! Tests the exact text of the lanes for handwritten histories.

use super::*;
use crate::history::{Fault, What};
use crate::holds::by_hand::{HistoryBuilder, KEY};
use crate::protocol::{PurchaseOutcome, ReleaseResult};

const RELEASED: ReleaseResult = ReleaseResult::Released;
const LOST: ReleaseResult = ReleaseResult::AlreadyLost;

fn lanes(history: &HistoryBuilder, columns: usize) -> String {
    let ink = Ink {
        columns,
        ..Ink::PLAIN
    };
    Lanes::new(ink).finish(&history.header(), history.events())
}

fn edge() -> HistoryBuilder {
    HistoryBuilder::of(Scenario::TtlEdge)
        .ttl(2_000)
        .granted("A", KEY, 8.0, 8.6, 1)
        .reads("A", 9.0, 1)
        .asks("B", KEY, 20.0, 9_000)
        .lease_over("A", 2008.6, 1)
        .grants("B", KEY, 5, 2011.2, 1, None)
        .reads("B", 2011.5, 1)
        .writes("B", 2061.9, 1, 1)
        .releases("B", 2062.1, 1, RELEASED)
        .writes("A", 3009.4, 1, 1)
        .releases("A", 3009.5, 1, LOST)
}

#[test]
fn work_beyond_the_lease_in_two_lanes() {
    assert_eq!(
        lanes(&edge(), 100),
        "      at ms  A                                           B
        8.6  granted; reads 0; works         op 1
       20.0                                              waits
    2,008.6  lease over by now; A does not know
    2,011.2                                              granted; reads 0                op 2
    2,061.9                                              writes 1, releases              op 3
    3,009.4  ✗ writes 1 over it              op 4
    3,009.8  release: no longer the owner
"
    );
}

#[test]
fn a_grant_after_a_long_wait_leaves_the_read_to_the_next_line() {
    let waits = HistoryBuilder::of(Scenario::DeadlockSorted)
        .granted("A", KEY, 1.0, 2.0, 1)
        .releases("A", 300.0, 1, RELEASED)
        .granted("B", KEY, 270.8, 443.9, 1)
        .reads("B", 444.2, 1);
    let text = lanes(&waits, 100);
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(text.contains("after 173.1 ms\n"), "{text}");
    assert!(text.trim_end().ends_with("op 1"), "{text}");
}

#[test]
fn on_a_narrow_screen_the_lanes_become_one() {
    assert_eq!(
        lanes(&edge(), 99).lines().take(3).collect::<Vec<_>>(),
        [
            "      at ms  A · B",
            "        8.6  A  granted; reads 0; works  op 1",
            "       20.0  B  waits",
        ]
    );
}

#[test]
fn lines_are_printed_once_and_only_when_they_are_settled() {
    let history = edge();
    let (header, events) = (history.header(), history.events());
    let mut live = Lanes::new(Ink::PLAIN);
    let mut text = String::new();
    for until in 1..=events.len() {
        let so_far = &events[..until];
        let now = so_far.last().map_or(0, |event| event.at_ns);
        text.push_str(&live.settled(&header, so_far, now));
        // A line that could still be continued is held back.
        assert!(!text.contains("granted\n"), "{text}");
    }
    text.push_str(&live.finish(&header, events));
    assert_eq!(text, lanes(&history, 100));
}

#[test]
fn a_kill_and_the_recovery() {
    let history = HistoryBuilder::of(Scenario::Crash)
        .ttl(2_000)
        .granted("A", KEY, 11.0, 11.9, 1)
        .reads("A", 12.3, 1)
        .fault("A", 312.4, Fault::Killed)
        .tries("B", 312.9)
        .granted("B", KEY, 313.0, 2014.6, 1);
    assert_eq!(
        lanes(&history, 100),
        "      at ms  A                                           B
       11.9  granted, starts to work
      312.4  ✗ SIGKILL
      312.9                                              tries once: refused; then waits
    2,014.6                                              granted
"
    );
}

#[test]
fn a_kill_between_two_steps() {
    let reached = What::Reached {
        op: 1,
        step: 1,
        of: 2,
        what: "creates the key".into(),
    };
    let history = HistoryBuilder::of(Scenario::Crash)
        .asks("A", KEY, 9.0, 0)
        .add(9.8, "A", reached)
        .fault("A", 10.1, Fault::Killed)
        .waits_in_vain("B", 10.6, 6010.1);
    assert_eq!(
        lanes(&history, 100),
        "      at ms  A                                           B
        9.8  step 1 of 2: creates the key
       10.1  ✗ SIGKILL, before step 2
       10.6                                              waits
    6,010.1                                              gives up: 3 × TTL since the kill
"
    );
}

#[test]
fn a_deadlock_and_its_cycle() {
    let history = HistoryBuilder::of(Scenario::Deadlock)
        .ttl(3_000)
        .granted("A", KEY, 0.5, 0.9, 1)
        .granted("B", SECOND_LOCK, 0.6, 1.0, 1)
        .asks("A", SECOND_LOCK, 51.1, 9_020)
        .asks("B", KEY, 51.2, 9_020)
        .grants("B", KEY, 6, 3002.5, 2, None)
        .grants("A", SECOND_LOCK, 5, 3002.8, 2, None)
        .reads("A", 3003.1, 1)
        .reads("B", 3003.2, 2)
        .writes("A", 3053.4, 1, 1)
        .releases_of("A", SECOND_LOCK, 3053.9, 2, RELEASED)
        .releases_of("A", KEY, 3054.3, 1, LOST);
    assert_eq!(
        lanes(&history, 100),
        "      at ms  A: product_A, then product_B                B: product_B, then product_A
        0.9  granted product_A
        1.0                                              granted product_B
       51.1  waits for product_B
       51.2                                              waits for product_A
             ── wait cycle: A waits for B, B waits for A, for 2,951.3 ms ──
    3,002.5                                              granted product_A: A's lease ran out
    3,002.8  granted product_B: B's lease ran out
    3,003.1  reads 0                         op 1
    3,003.2                                              reads 0                         op 2
    3,053.4  writes 1                        op 3
    3,053.9  releases; product_A is no longer its own
"
    );
}

#[test]
fn the_same_order() {
    let history = HistoryBuilder::of(Scenario::DeadlockSorted)
        .granted("A", KEY, 0.5, 0.9, 1)
        .asks("B", KEY, 1.0, 3_000)
        .granted("A", SECOND_LOCK, 51.0, 51.2, 2)
        .reads("A", 51.5, 1)
        .writes("A", 101.6, 1, 1)
        .releases_of("A", SECOND_LOCK, 101.7, 2, RELEASED)
        .releases_of("A", KEY, 102.1, 1, RELEASED)
        .grants("B", KEY, 3, 103.4, 1, None);
    assert_eq!(
        lanes(&history, 100),
        "      at ms  A: product_A, then product_B                B: product_A, then product_B (sorted)
        0.9  granted product_A
        1.0                                              waits for product_A
       51.2  granted product_B; reads 0      op 1
      101.6  writes 1, releases both         op 2
      103.4                                              granted product_A after 102.4 ms
"
    );
}

#[test]
fn three_lanes_and_what_the_resource_refuses() {
    let history = HistoryBuilder::of(Scenario::StaleRelease)
        .with("fenced")
        .fenced("A", KEY, 1.0, "1.0")
        .fault("A", 30.0, Fault::Stopped)
        .lease_over("A", 1001.0, 1)
        .fault("A", 1030.0, Fault::Continued)
        .write_refused("A", 1031.0, 1, 1)
        .tries("C", 1033.0);
    assert_eq!(
        lanes(&history, 100),
        "      at ms  A                            B                            C
        1.0  granted, fence 1.0
       30.0  SIGSTOP: paused
    1,001.0  lease over by now
    1,030.0  SIGCONT: goes on
    1,031.0  – write refused: 1.0 < 2.0  op 1
    1,033.0                                                            tries once: refused
"
    );
}

#[test]
fn nothing_to_sell() {
    let history = HistoryBuilder::of(Scenario::ShortStock)
        .buys("A", 0.5, 0.8, PurchaseOutcome::NoStock)
        .add(0.9, "", What::StockSet { units: 1 })
        .buys("B", 1.0, 1.3, PurchaseOutcome::Busy)
        .buys("B", 1.4, 1523.1, PurchaseOutcome::Busy);
    assert_eq!(
        lanes(&history, 100),
        "      at ms  A                                           B
        0.8  buys: no stock
             ── 1 unit comes in ──
        1.3                                              tries once: busy; then waits
    1,523.1                                              gives up: 3 × TTL
"
    );
}

/// The lab counts from the moment it read the grant, which is slightly later than the store's start.
#[test]
fn a_lease_is_over_before_somebody_else_is_granted_the_lock() {
    let history = |over: f64, granted: f64| {
        HistoryBuilder::of(Scenario::StaleRelease)
            .ttl(500)
            .granted("A", KEY, 1.0, 9.0, 1)
            .fault("A", 12.0, Fault::Stopped)
            .asks("B", KEY, 13.0, 9_000)
            .grants("B", KEY, 4, granted, 1, None)
            .lease_over("A", over, 1)
            .reads("B", 510.5, 1)
            .fault("A", 530.0, Fault::Continued)
    };
    let shown = lanes(&history(509.0, 505.0), 100);
    let expected = "\
       13.0                               waits
      505.0  lease over by now
      505.0                               granted; reads 0       op 1
      530.0  SIGCONT: goes on
";
    assert!(shown.ends_with(expected), "{shown}");
    // This is within the first lease by every clock, so the lanes must not hide it.
    let shown = lanes(&history(509.0, 499.0), 100);
    let expected = "\
      499.0                               granted; reads 0       op 1
      509.0  lease over by now
      530.0  SIGCONT: goes on
";
    assert!(shown.ends_with(expected), "{shown}");
}

/// The lines printed during the trial must equal those printed at the end.
#[test]
fn the_end_of_a_lease_that_is_told_early_is_printed_once() {
    let history = HistoryBuilder::of(Scenario::StaleRelease)
        .ttl(500)
        .granted("A", KEY, 1.0, 90.0, 1)
        .fault("A", 92.0, Fault::Stopped)
        .asks("B", KEY, 93.0, 9_000)
        .grants("B", KEY, 4, 505.0, 1, None)
        .lease_over("A", 590.0, 1);
    let (header, events) = (history.header(), history.events());
    let mut whole = Lanes::new(Ink::PLAIN);
    let mut live = Lanes::new(Ink::PLAIN);
    let mut shown = String::new();
    for seen in 0..=events.len() {
        let now_ns = events[..seen].last().map_or(0, |event| event.at_ns) + SETTLED_NS;
        shown.push_str(&live.settled(&header, &events[..seen], now_ns));
    }
    shown.push_str(&live.finish(&header, events));
    assert_eq!(shown, whole.finish(&header, events));
    assert_eq!(shown.matches("lease over by now").count(), 1, "{shown}");
}

#[test]
fn the_title_of_a_storm_says_which_faults_it_has_and_why_it_lacks_others() {
    let safe = crate::strategy::find("safe").unwrap();
    let mut trial = Trial::new(Scenario::Storm, safe, 7);
    trial.storm = Some(storm::DEFAULT);
    let text = title(&trial);
    assert!(text.contains("\n  faults kill, pause\n"), "{text}");
    let why = "\n  without cut, delay: no server: a file is not reached through a connection\n";
    assert!(text.contains(why), "{text}");
    assert!(
        text.contains("\n  without server: a file has no server"),
        "{text}"
    );
    trial.store = TrialStore::named("redis").unwrap();
    let text = title(&trial);
    assert!(text.contains("\n  without cut, delay, server"), "{text}");
}

#[test]
fn smaller_plans_are_listed_with_their_rates() {
    let fault = |at_ms| storm::Planned {
        at_ms,
        process: Some(1),
        fault: storm::PlannedFault::Pause,
        for_ms: 800,
    };
    let tried = |label: &str, convicted, faults: &[storm::Planned]| Tried {
        label: label.into(),
        plan: storm::Plan {
            for_ms: 5_000,
            faults: faults.to_vec(),
        },
        convicted,
        runs: 5,
    };
    let mut shrunk = Shrunk {
        tried: vec![
            tried("all faults (9 pauses)", 5, &[fault(0); 9]),
            tried("no faults", 0, &[]),
            tried("1 of 9 faults (1 pause)", 4, &[fault(1_000)]),
        ],
        smallest: Some(2),
        is_complete: true,
    };
    assert_eq!(
        smaller_plans(&shrunk, Ink::PLAIN),
        "  smaller   all faults (9 pauses): 5 of 5
            no faults: 0 of 5
            1 of 9 faults (1 pause): 4 of 5
            the smallest: a pause of B at 1.0 s for 0.8 s
"
    );
    shrunk.smallest = Some(1);
    assert!(smaller_plans(&shrunk, Ink::PLAIN).ends_with("  it needs no fault\n"));
    shrunk.smallest = None;
    let text = smaller_plans(&shrunk, Ink::PLAIN);
    assert!(
        text.ends_with("  the same faults do not convict it again\n"),
        "{text}"
    );
    shrunk.is_complete = false;
    let text = smaller_plans(&shrunk, Ink::PLAIN);
    assert!(
        text.ends_with("  the search ended before everything was tried\n"),
        "{text}"
    );
    shrunk.smallest = Some(0);
    assert!(smaller_plans(&shrunk, Ink::PLAIN).contains(", and 3 more\n"));
}
