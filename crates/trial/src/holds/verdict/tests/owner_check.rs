//! Tests that a verdict says of a release only what the lock's claims say about it.

use super::{Fault, HistoryBuilder, KEY, LOST, RELEASED, Scenario, edge};
use crate::holds::verdict::judge;
use crate::protocol::Claims;

#[test]
fn only_a_lock_that_claims_to_check_its_owner_is_said_to_have_a_token() {
    let history = edge("safe")
        .writes("A", 3009.4, 1, 1)
        .releases("A", 3009.7, 1, LOST);
    for (claims, why) in [
        (Claims::OWNED, "A token guards the release"),
        (Claims::PLAIN, "The lease ended, the work did not"),
    ] {
        let mut header = history.header();
        header.strategy = "my_lock".into();
        header.holds.as_mut().unwrap().claims = claims;
        let verdict = judge(&header, &history.facts());
        assert!(
            verdict.why.as_ref().unwrap().starts_with(why),
            "{verdict:?}"
        );
    }
    // An older history does not say it; the list of strategies does.
    let mut header = history.header();
    header.holds.as_mut().unwrap().claims = Claims::PLAIN;
    let verdict = judge(&header, &history.facts());
    assert!(verdict.why.unwrap().starts_with("A token guards"));
}

#[test]
fn a_late_release_is_said_to_be_blind_only_of_a_lock_that_says_so() {
    let history = HistoryBuilder::of(Scenario::StaleRelease)
        .granted("A", KEY, 0.0, 1.0, 1)
        .fault("A", 4.0, Fault::Stopped)
        .lease_over("A", 1001.0, 1)
        .granted("B", KEY, 5.0, 1003.0, 1)
        .fault("A", 1030.0, Fault::Continued)
        .releases("A", 1031.0, 1, RELEASED)
        .granted("C", KEY, 1032.0, 1033.0, 1)
        .releases("C", 1041.0, 1, RELEASED);
    let blind = Claims {
        blind_release: true,
        ..Claims::PLAIN
    };
    for (claims, why) in [
        (
            blind,
            "The release deletes the lock that is there, without asking whose it is.",
        ),
        (
            Claims::OWNED,
            "The lock claims that its release asks whose lock it is; A's release freed B's all the same.",
        ),
        (
            Claims::PLAIN,
            "A's release came late, and the lock that it freed was B's.",
        ),
    ] {
        let mut header = history.header();
        header.strategy = "my_lock".into();
        header.holds.as_mut().unwrap().claims = claims;
        let verdict = judge(&header, &history.facts());
        assert_eq!(verdict.why.as_deref(), Some(why), "{}", verdict.because);
    }
}
