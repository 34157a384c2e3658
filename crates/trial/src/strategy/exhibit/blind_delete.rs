//! `blind-delete`: key and expiry in one step, but the release deletes without looking whose the key is.
//!
//! What is wrong: whoever works longer than the TTL deletes the lock of the one who came after, and lets a third one in
//! beside it. Seen as `SET NX PX` with a plain `DEL`, in shops and in checkout services.

use crate::protocol::{Claims, Promise, ReleaseWord};
use crate::strategy::hand_made::{self, Latch, Recipe, delete_blindly, take_with_expiry};
use crate::strategy::{Failure, Group, Halt, Remark, Stores, Strategy};

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "blind-delete",
    group: Group::Flawed,
    stores: Stores::Any,
    summary: "key and expiry in one step; deletes without looking whose the key is",
    gloss: "",
    flaw: Some(
        "blind-delete deletes the key without looking: after its TTL that is another's lock.",
    ),
    claim: Promise::Exclusion,
    claims: Claims {
        blind_release: true,
        ..Claims::PLAIN
    },
    remark: Remark::FlawShowsIn("stale-release"),
    open: |setup| Box::pin(async move { hand_made::buyer(&setup, BlindDelete) }),
    lock: Some(|setup| Box::pin(async move { hand_made::lock(&setup, BlindDelete) })),
};

struct BlindDelete;

impl Recipe for BlindDelete {
    fn take(&self, latch: &mut Latch<'_>, halt: &mut dyn Halt) -> Result<bool, Failure> {
        take_with_expiry(latch, halt)
    }

    fn give_back(
        &self,
        latch: &mut Latch<'_>,
        halt: &mut dyn Halt,
    ) -> Result<ReleaseWord, Failure> {
        delete_blindly(latch, halt)
    }
}
