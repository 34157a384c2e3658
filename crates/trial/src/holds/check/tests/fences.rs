//! Whether fences grow, where the order of two grants is certain.

use super::*;
use crate::history::Change;
use crate::holds::SECOND_LOCK;
use crate::protocol::Claims;

#[test]
fn fences_must_grow_where_the_order_is_certain() {
    for (first, second, expected) in [
        ("9.0", "10.0", Finding::Held),
        ("9.0", "9.1", Finding::Held),
        ("10.0", "9.0", Finding::Violated),
        ("9.0", "9.0", Finding::Violated),
        ("x", "x", Finding::Violated),
    ] {
        let pair = edge()
            .fenced("A", KEY, 1.0, first)
            .fenced("B", KEY, 5.0, second);
        assert_eq!(finding(&pair, "fence_issued"), expected, "{first} {second}");
    }
    // Both asked before either was granted, so their order is unknown.
    let guess = edge()
        .asks("A", KEY, 0.0, 100)
        .asks("B", KEY, 0.5, 100)
        .grants("A", KEY, 1, 1.0, 1, Some("10.0"))
        .grants("B", KEY, 2, 2.0, 1, Some("9.0"));
    assert_eq!(finding(&guess, "fence_issued"), Finding::Held);
    let alone = edge().fenced("A", KEY, 1.0, "1.0");
    assert_eq!(finding(&alone, "fence_issued"), Finding::Undecided);
}

/// B asks before A is granted the lock, and is granted it after A has released it, at `at`. Its fence is lower.
fn overtaken(at: f64) -> HistoryBuilder {
    edge()
        .asks("B", KEY, 0.0, 5_000)
        .asks("A", KEY, 1.0, 100)
        .grants("A", KEY, 2, 2.0, 1, Some("10.0"))
        .releases("A", 3.0, 1, RELEASED)
        .grants("B", KEY, 1, at, 1, Some("9.0"))
}

#[test]
fn a_fence_that_was_drawn_before_the_wait_does_not_grow() {
    assert_eq!(
        finding(&overtaken(4.0), "fence_issued"),
        Finding::Violated,
        "had B been granted the lock first, A would have got it within B's lease"
    );
    let later = overtaken(4.0).releases("B", 5.0, 1, RELEASED);
    assert_eq!(finding(&later, "fence_issued"), Finding::Violated);
    // Only the time of A's release matters, not when B learned of its grant.
    assert_eq!(
        finding(&overtaken(1_500.0), "fence_issued"),
        Finding::Violated
    );
}

/// B may have been granted the lock first, and A after the end of B's lease.
#[test]
fn a_lower_fence_convicts_only_if_no_lease_ended_in_between() {
    let late = edge()
        .asks("B", KEY, 0.0, 5_000)
        .asks("A", KEY, 500.0, 5_000)
        .grants("A", KEY, 2, 1_100.0, 1, Some("10.0"))
        .releases("A", 1_101.0, 1, RELEASED)
        .grants("B", KEY, 1, 1_102.0, 1, Some("9.0"));
    assert_eq!(finding(&late, "fence_issued"), Finding::Held);
    let short = overtaken(4.0).valid_for(2.5);
    assert_eq!(finding(&short, "fence_issued"), Finding::Held);
    let failed = edge()
        .asks("B", KEY, 0.0, 5_000)
        .asks("A", KEY, 1.0, 100)
        .server("first server", 1.5, Change::Killed)
        .grants("A", KEY, 2, 2.0, 1, Some("10.0"))
        .releases("A", 3.0, 1, RELEASED)
        .grants("B", KEY, 1, 4.0, 1, Some("9.0"));
    assert_eq!(finding(&failed, "fence_issued"), Finding::Held);
    let other = overtaken(4.0)
        .without(5)
        .grants("B", SECOND_LOCK, 1, 4.0, 1, Some("9.0"));
    assert_eq!(finding(&other, "fence_issued"), Finding::Held);
    // A has not released it, so nothing says who was first.
    let beside = overtaken(4.0).without(4);
    assert_eq!(finding(&beside, "fence_issued"), Finding::Held);
    let session = Claims {
        session: true,
        ..Claims::PLAIN
    };
    let stalled = |history: HistoryBuilder| {
        let history = history.at_store("zk").promising(session);
        finding(&history, "fence_issued")
    };
    assert_eq!(stalled(overtaken(4.0)), Finding::Violated);
    let missed = overtaken(4.0).stalls(0.5, 1.5);
    assert_eq!(stalled(missed), Finding::Held, "B's session may have ended");
}
