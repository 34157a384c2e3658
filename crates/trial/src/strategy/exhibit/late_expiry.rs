//! `late-expiry`: creates the key without an expiry, and sets one only when the reservation has succeeded.
//!
//! What is wrong: if stock is short, there is no reservation. The key then gets no expiry and is not deleted either, so the
//! product can no longer be sold, without any crash. A crash during the work has the same effect. And once there is an expiry,
//! the release deletes the key without checking its owner. Seen in a checkout service that took a lock for each product.

use crate::protocol::{Claims, Promise, ReleaseResult};
use crate::strategy::hand_made::{self, Latch, Recipe, delete_blindly};
use crate::strategy::{Failure, Group, Halt, Origin, Remark, Stores, Strategy};

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "late-expiry",
    origin: Origin::Ours,
    group: Group::Flawed,
    stores: Stores::KeepingStock,
    summary: "sets the expiry only after the reservation; when stock is short, never",
    gloss: "",
    flaw: Some(
        "late-expiry sets its expiry after the reservation; without one, the key stays forever.",
    ),
    promise: Promise::Exclusion,
    claims: Claims {
        blind_release: true,
        expires_after_work: true,
        ..Claims::PLAIN
    },
    has_line: false,
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

/// Called only after a successful reservation.
fn give_back(latch: &mut Latch<'_>, halt: &mut dyn Halt) -> Result<ReleaseResult, Failure> {
    if latch.worked {
        delete_blindly(latch, halt)
    } else {
        Ok(ReleaseResult::Unknown)
    }
}
