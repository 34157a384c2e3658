//! `late-expiry`: creates the key without an expiry, and sets one only when the reservation has succeeded.
//!
//! What is wrong: when stock is short there is no reservation, so the key gets no expiry and is not deleted either: the product
//! cannot be sold any more, with no crash at all. A crash while working leaves it just so. And once there is an expiry,
//! the key is deleted without looking whose it is. Seen in a checkout service that took a lock for each product.

use crate::protocol::{Claims, Promise, ReleaseWord};
use crate::strategy::hand_made::{self, Latch, Recipe, delete_blindly};
use crate::strategy::{Failure, Group, Halt, Remark, Stores, Strategy};

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "late-expiry",
    group: Group::Flawed,
    stores: Stores::Any,
    summary: "sets the expiry only after the reservation; when stock is short, never",
    gloss: "",
    flaw: Some(
        "late-expiry sets its expiry after the reservation; without one, the key stays for ever.",
    ),
    promise: Promise::Exclusion,
    claims: Claims {
        blind_release: true,
        expires_after_work: true,
        ..Claims::PLAIN
    },
    remark: Remark::KeyLeftBehind("short-stock"),
    open: |setup| hand_made::buyer(setup, RECIPE),
    lock: Some(|setup| hand_made::lock(setup, RECIPE)),
};

const RECIPE: Recipe = Recipe {
    take,
    worked,
    give_back,
};

fn take(latch: &mut Latch<'_>, halt: &mut dyn Halt) -> Result<bool, Failure> {
    let taken = latch.store.set_if_absent(latch.key, latch.token, None)?;
    if taken {
        halt.after(1, 1, "creates the key, without an expiry");
    }
    Ok(taken)
}

fn worked(latch: &mut Latch<'_>) -> Result<(), Failure> {
    latch.store.expire(latch.key, latch.ttl).map(drop)
}

/// Only on the way of success.
fn give_back(latch: &mut Latch<'_>, halt: &mut dyn Halt) -> Result<ReleaseWord, Failure> {
    if latch.worked {
        delete_blindly(latch, halt)
    } else {
        Ok(ReleaseWord::Unknown)
    }
}
