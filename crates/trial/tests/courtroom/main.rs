//! Tests of the lab itself: it must convict known bad locks, report misbehaving subjects, and acquit known good locks.
//!
//! This program is also every subject that it starts: a part in the environment makes it play that part instead of judging. The
//! rates are printed at the end; `FENCEPOST_SOAK=1` makes the loops long.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad;
mod good;
mod latch;
mod part;
mod player;
mod rates;
mod redis_latch;
mod renewal;
mod session;

use libtest_mimic::{Arguments, Trial};

fn main() {
    if let Some(part) = part::of_this_process() {
        return part.play();
    }
    let mut arguments = Arguments::from_args();
    // Most of the time the trials wait for a lease to end.
    arguments.test_threads = arguments.test_threads.or(Some(6));
    let trials: Vec<Trial> = bad::trials().into_iter().chain(good::trials()).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    rates::print();
    conclusion.exit();
}

/// Returns how often each case is tried.
fn runs() -> u64 {
    if fencepost_rig::is_soak() { 50 } else { 3 }
}
