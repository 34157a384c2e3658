//! `get-then-delete`: the release looks whose the key is, compares in the program, and deletes: two steps.
//!
//! What is wrong: between the look and the delete the key may expire and become another's; then that one's lock is
//! deleted. Seen as the usual repair of the blind delete, without the script that makes compare and delete one step.
//!
//! What comes between the two steps in earnest (a slow network, a garbage collector) is a pause here: a moment in a sale, half the TTL in
//! a lock trial. Asked to release in the second half of its lease, it deletes after the lease has ended.

use std::time::Duration;

use super::not_met;
use crate::protocol::ReleaseWord;
use crate::strategy::hand_made::{self, Latch, Recipe, take_with_expiry};
use crate::strategy::{Claim, Failure, Group, Halt, PLAIN, Strategy};

const PAUSE_IN_A_SALE: Duration = Duration::from_millis(1);
/// Of the TTL.
const PAUSE_IN_A_LOCK_TRIAL: f64 = 0.5;

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "get-then-delete",
    group: Group::Flawed,
    summary: "looks whose the key is, then deletes it: two steps",
    gloss: "",
    flaw: Some(
        "get-then-delete looks, then deletes: if its lease ends in between, it deletes another's.",
    ),
    claim: Claim::Exclusion,
    claims: PLAIN,
    remark: |_, outcome| not_met(outcome, "stale-release"),
    open: |setup| {
        Box::pin(async move {
            let pause = PAUSE_IN_A_SALE;
            hand_made::buyer(&setup, GetThenDelete { pause })
        })
    },
    lock: Some(|setup| {
        Box::pin(async move {
            let pause = setup.ttl.mul_f64(PAUSE_IN_A_LOCK_TRIAL);
            hand_made::lock(&setup, GetThenDelete { pause })
        })
    }),
};

struct GetThenDelete {
    pause: Duration,
}

impl Recipe for GetThenDelete {
    fn take(&self, latch: &mut Latch<'_>, halt: &mut dyn Halt) -> Result<bool, Failure> {
        take_with_expiry(latch, halt)
    }

    async fn give_back(&self, latch: &mut Latch<'_>) -> Result<ReleaseWord, Failure> {
        if latch.store.get(latch.key)?.as_deref() != Some(latch.token) {
            return Ok(ReleaseWord::AlreadyLost);
        }
        tokio::time::sleep(self.pause).await;
        latch.store.delete(latch.key)?;
        Ok(ReleaseWord::Released)
    }
}
