//! Tests with real processes on one lock: counting together, killed, stopped, with a changed clock, and without their runtime.
//!
//! This program is also the program of every child: a part in the environment makes it play that part instead of testing. With
//! `FENCEPOST_SOAK=1` the loops are long. Measurements are printed in both cases; only generous bounds are asserted.
//!
//! The children are not those of `fencepost_store_tests::actor`, because hardly anything that they do is done for another store
//! (`docs/decisions/0014-one-stage-for-all-stores.md`).
#![allow(clippy::unwrap_used)]

use fencepost_store_tests::is_soak;
use fencepost_store_tests::test_program::{self, NamedTest, Theme, tests};

mod actor;
mod clock;
mod exclusion;
mod figures;
mod kill;
mod pause;
mod runtime;
mod script;
mod stage;

const TESTS: &[NamedTest] = tests![
    "exclusion" = exclusion::no_update_is_lost,
    "kill::holder" = kill::a_holder,
    "kill::waiter" = kill::a_waiter,
    "pause" = pause::a_stopped_holder_is_shut_out,
    "clock::lease_length" = clock::leases_keep_their_length,
    "clock::keep_alive" = clock::a_lease_is_kept_alive,
    "clock::counting" = clock::no_update_is_lost,
    "runtime::freed" = runtime::freed_with_guards_alive,
    "runtime::exit" = runtime::a_process_ends_with_a_guard_alive,
    "runtime::plain_thread" = runtime::a_guard_dropped_on_a_plain_thread,
];

fn main() {
    match script::Role::of_this_process() {
        Some(role) => role.play(),
        None => test_program::run([Theme::once("", TESTS)]),
    }
}

/// Returns how often a loop runs.
fn runs() -> usize {
    if is_soak() { 20 } else { 2 }
}
