//! `blind-delete`: sets key and expiry in one step, but deletes the key on release without checking its owner.
//!
//! What is wrong: a holder that works longer than the TTL deletes the lock of its successor, and a third process gets in beside
//! that one. Seen as `SET NX PX` with a plain `DEL`, in shops and in checkout services.

use crate::protocol::{Claims, Promise};
use crate::strategy::hand_made::{self, Recipe, delete_blindly, take_with_expiry};
use crate::strategy::{Group, Origin, Remark, Stores, Strategy};

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "blind-delete",
    origin: Origin::Ours,
    group: Group::Flawed,
    stores: Stores::KeepingStock,
    summary: "key and expiry in one step; deletes the key without checking who owns it",
    gloss: "",
    flaw: Some(
        "blind-delete deletes the key without looking: after its TTL that is another's lock.",
    ),
    promise: Promise::Exclusion,
    claims: Claims {
        blind_release: true,
        ..Claims::PLAIN
    },
    has_line: false,
    remark: Remark::FlawShowsIn("stale-release"),
    open: |setup| hand_made::buyer(setup, RECIPE),
    lock: Some(|setup| hand_made::lock(setup, RECIPE)),
};

const RECIPE: Recipe = Recipe {
    take: take_with_expiry,
    worked: |_| Ok(()),
    give_back: delete_blindly,
};
