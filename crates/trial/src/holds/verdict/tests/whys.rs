//! The sentence after `why` is drawn from the events: one test for each way to a conviction.

use super::*;
use crate::protocol::Claims;

fn why(verdict: Verdict) -> String {
    assert_eq!(verdict.outcome, Outcome::Broken, "{}", verdict.because);
    verdict.why.unwrap()
}

/// A reads, B gets the lock at this time, both write.
fn overwritten(claims: Claims, b_at: f64) -> Verdict {
    HistoryBuilder::of(Scenario::TtlEdge)
        .promising(claims)
        .ttl(2_000)
        .granted("A", KEY, 8.0, 8.6, 1)
        .reads("A", 8.8, 1)
        .granted("B", KEY, 20.0, b_at, 1)
        .reads("B", b_at + 1.0, 1)
        .writes("B", b_at + 2.0, 1, 1)
        .lease_over("A", 2_020.0, 1)
        .writes("A", 3_009.4, 1, 1)
        .releases("A", 3_009.7, 1, LOST)
        .releases("B", 3_010.0, 1, RELEASED)
        .judged()
}

#[test]
fn the_end_of_the_lease_is_blamed_only_if_it_let_the_other_in() {
    let early = overwritten(Claims::PLAIN, 1_300.0);
    assert_eq!(
        early.because,
        "A wrote over B's update. Two holders at once, within A's lease. One is lost."
    );
    assert_eq!(
        why(early),
        "B got the lock within A's lease, which ran for at least 708.0 ms more."
    );
    let late = overwritten(Claims::OWNED, 2_012.0);
    assert_eq!(
        late.because,
        "A wrote over B's update, 989.4 ms or more after its lease had ended. One is lost."
    );
    assert!(why(late).starts_with("A token guards the release"));
}

#[test]
fn a_lock_without_a_lease_is_not_said_to_have_lost_one() {
    let claims = Claims {
        untimed: true,
        ..Claims::PLAIN
    };
    let verdict = overwritten(claims, 2_012.0);
    assert_eq!(
        verdict.because,
        "A wrote over B's update. Two holders at once: A had not released the lock. One is lost."
    );
    assert_eq!(
        why(verdict),
        "This lock has no lease that could have ended, and A had not released product_A."
    );
}

#[test]
fn a_lease_that_was_claimed_to_be_kept_alive_was_not() {
    let claims = Claims {
        keep_alive: true,
        ..Claims::PLAIN
    };
    assert_eq!(
        why(overwritten(claims, 2_012.0)),
        "B got the lock 2,003.4 ms after A's grant: the lease was not kept alive, as the lock claims."
    );
}

#[test]
fn a_time_out_that_counts_as_a_grant_is_not_the_work_of_the_ttl() {
    let history = embrace("safe")
        .grants("B", KEY, 6, 9_071.5, 2, None)
        .grants("A", OTHER, 5, 9_071.8, 2, None)
        .reads("A", 9_072.0, 1)
        .reads("B", 9_073.0, 2)
        .writes("A", 9_074.0, 1, 1)
        .writes("B", 9_075.0, 2, 1);
    let verdict = let_go_at(history, 9_076.0);
    assert_eq!(
        verdict.because,
        "Two holders at once: B got the lock when its wait was over. One update is lost."
    );
    assert_eq!(
        why(verdict),
        "B was granted product_A when its wait of 9,020 ms was over, and A had not released it: a time-out is not a grant."
    );
}

fn let_go_at(history: HistoryBuilder, at: f64) -> Verdict {
    history
        .releases_of("A", OTHER, at, 2, RELEASED)
        .releases_of("B", KEY, at, 2, RELEASED)
        .releases_of("A", KEY, at, 1, LOST)
        .releases_of("B", OTHER, at, 1, LOST)
        .judged()
}

#[test]
fn a_deadlock_that_ends_within_the_lease_was_not_ended_by_the_ttl() {
    let history = embrace("safe")
        .grants("B", KEY, 6, 500.0, 2, None)
        .grants("A", OTHER, 5, 501.0, 2, None)
        .reads("A", 502.0, 1)
        .reads("B", 503.0, 2)
        .writes("A", 504.0, 1, 1)
        .writes("B", 505.0, 2, 1);
    let verdict = let_go_at(history, 506.0);
    assert_eq!(
        verdict.because,
        "Two holders at once, within A's lease. One update is lost."
    );
    assert!(why(verdict).starts_with("B got the lock within A's lease"));
}

#[test]
fn the_ttl_that_ends_a_deadlock_is_named() {
    let history = let_in("safe")
        .writes("A", 3053.4, 1, 1)
        .writes("B", 3053.6, 2, 1);
    assert!(why(let_go(history)).starts_with("A lease that ends while its holder waits"));
}

/// A was paused beyond its lease, B has the lock, A releases with this answer, and C gets the lock.
fn third(answer: ReleaseResult, c_at: f64) -> Verdict {
    HistoryBuilder::of(Scenario::StaleRelease)
        .granted("A", KEY, 0.0, 1.0, 1)
        .fault("A", 4.0, Fault::Stopped)
        .lease_over("A", 1001.0, 1)
        .granted("B", KEY, 5.0, 1003.0, 1)
        .reads("B", 1004.0, 1)
        .fault("A", 1030.0, Fault::Continued)
        .releases("A", 1031.0, 1, answer)
        .granted("C", KEY, c_at - 1.0, c_at, 1)
        .reads("C", 1040.0, 1)
        .releases("C", 1041.0, 1, RELEASED)
        .releases("B", 1042.0, 1, RELEASED)
        .judged()
}

#[test]
fn a_late_release_is_blamed_only_if_it_may_have_freed_something() {
    let freed = third(ReleaseResult::Unknown, 1_033.0);
    assert!(
        freed
            .because
            .starts_with("A's late release gave B's lock away")
    );
    assert!(why(freed).starts_with("The lock claims that its release asks whose lock it is; "));
    let nothing = third(LOST, 1_033.0);
    assert_eq!(
        nothing.because,
        "Two holders at once: C got the lock while B held it."
    );
    assert_eq!(
        why(nothing),
        "A's late release found its lock already lost and freed nothing; C got the lock beside B all the same."
    );
    let before = third(ReleaseResult::Unknown, 1_020.0);
    assert!(why(before).starts_with("A had not released anything yet"));
}

#[test]
fn whoever_is_let_in_before_a_release_is_let_in_within_the_lease() {
    let verdict = HistoryBuilder::of(Scenario::LostWakeup)
        .granted("A", KEY, 0.5, 1.0, 1)
        .granted("B", KEY, 2.0, 3.0, 1)
        .releases("A", 5.0, 1, RELEASED)
        .judged();
    assert_eq!(verdict.because, "Two holders at once, within A's lease.");
    assert_eq!(
        why(verdict),
        "B got the lock within A's lease, which ran for at least 997.5 ms more."
    );
    let failed = HistoryBuilder::of(Scenario::Failover)
        .granted("A", KEY, 0.5, 1.0, 1)
        .granted("B", KEY, 2.0, 3.0, 1)
        .releases("A", 5.0, 1, RELEASED)
        .judged();
    assert_eq!(
        failed.because,
        "Two holders at once, and no server had failed yet."
    );
    assert!(why(failed).starts_with("B got the lock within A's lease"));
}
