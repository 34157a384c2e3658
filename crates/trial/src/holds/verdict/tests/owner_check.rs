//! Tests that a verdict speaks of a token only if the lock claims to check its owner.

use super::{LOST, edge};
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
