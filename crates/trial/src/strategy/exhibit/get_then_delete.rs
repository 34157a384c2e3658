//! `get-then-delete`: the release reads the key, compares the owner in the program, and deletes the key in a second step.
//!
//! What is wrong: between the two steps the key may expire and be taken by another process, whose lock is then deleted. Seen as
//! the usual repair of the blind delete, without the script that makes compare and delete one step.
//!
//! In practice a slow network or a garbage collector separates the two steps. In a sale this is a short pause; in a lock trial
//! the lab may stop the process there.

use std::time::Duration;

use crate::protocol::{Claims, Promise, ReleaseResult};
use crate::strategy::hand_made::{self, Latch, Recipe, take_with_expiry};
use crate::strategy::{Failure, Group, Halt, Origin, Remark, Stores, Strategy};

/// The pause between the two steps.
const MOMENT: Duration = Duration::from_millis(1);

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "get-then-delete",
    origin: Origin::Ours,
    group: Group::Flawed,
    stores: Stores::KeepingStock,
    summary: "checks who owns the key, then deletes it: two steps",
    gloss: "",
    flaw: Some(
        "get-then-delete looks, then deletes: if its lease ends in between, it deletes another's.",
    ),
    promise: Promise::Exclusion,
    claims: Claims {
        looks_before_release: true,
        ..Claims::OWNED
    },
    has_line: false,
    remark: Remark::FlawShowsIn("stale-release"),
    open: |setup| hand_made::buyer(setup, RECIPE),
    lock: Some(|setup| hand_made::lock(setup, RECIPE)),
};

const RECIPE: Recipe = Recipe {
    take: take_with_expiry,
    worked: |_| Ok(()),
    give_back,
};

fn give_back(latch: &mut Latch<'_>, halt: &mut dyn Halt) -> Result<ReleaseResult, Failure> {
    if latch.store.get(latch.key)?.as_deref() != Some(latch.token) {
        return Ok(ReleaseResult::AlreadyLost);
    }
    halt.after(1, 2, "checks who owns the key: it does");
    std::thread::sleep(MOMENT);
    latch.store.delete(latch.key)?;
    halt.after(2, 2, "deletes the key");
    Ok(ReleaseResult::Released)
}
