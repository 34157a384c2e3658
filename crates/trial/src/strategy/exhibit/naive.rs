//! `naive`: sets the key and its expiry in two steps, and deletes the key blindly.
//!
//! What is wrong: a process that dies between the two steps leaves a key that never expires, and nobody gets the lock again.
//! The release deletes whatever is there, even the lock of a process that acquired it after the expiry. Seen as `SETNX`
//! followed by `EXPIRE`, the lock of countless tutorials.

use crate::protocol::{Claims, Promise};
use crate::strategy::hand_made::{self, Latch, Recipe, delete_blindly};
use crate::strategy::{Failure, Group, Halt, Origin, Remark, Stores, Strategy};

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "naive",
    origin: Origin::Ours,
    group: Group::Flawed,
    stores: Stores::KeepingStock,
    summary: "creates the key, then sets its expiry: two steps; deletes without looking",
    gloss: "",
    flaw: Some(
        "naive creates the key and sets its expiry in two steps; a death in between is forever.",
    ),
    promise: Promise::Exclusion,
    claims: Claims {
        blind_release: true,
        ..Claims::PLAIN
    },
    has_line: false,
    remark: Remark::FlawShowsIn("crash"),
    open: |setup| hand_made::buyer(setup, RECIPE),
    lock: Some(|setup| hand_made::lock(setup, RECIPE)),
};

const RECIPE: Recipe = Recipe {
    take,
    worked: |_| Ok(()),
    give_back: delete_blindly,
};

fn take(latch: &mut Latch<'_>, halt: &mut dyn Halt) -> Result<bool, Failure> {
    if !latch.store.set_if_absent(latch.key, latch.token, None)? {
        return Ok(false);
    }
    halt.after(1, 2, "creates the key");
    latch.store.expire(latch.key, latch.ttl)?;
    halt.after(2, 2, "sets the expiry");
    Ok(true)
}
