//! What the tests of all stores share.
//!
//! The tests themselves are in `tests/`, a folder for each store. They are not in the library's own package, because they need the rig:
//! private servers, child processes, networks that fail.
//!
//! A test runs on a runtime of its own ([`run`]), waits for conditions rather than for a time ([`eventually`], [`soon`]), starts children
//! that hold or want the lock ([`actor`]), and drops futures after a number of polls ([`polled`]). The program of a store lists its trials
//! by theme and hands them to [`main`](trials::main).

pub mod actor;
pub mod database;
mod lockers;
mod polled;
pub mod redis;
pub mod trials;
mod waiting;

pub use fencepost_rig::is_soak;
pub use lockers::{NAME, claim, claim_on, locker, now};
pub use polled::polled;
pub use waiting::{
    LONG, SOON, eventually, eventually_within, grace, run, run_within, soon, until_nothing_is_left,
    within,
};
