//! Tests of elections and runs on a clock that the test moves and a store that fails on demand.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod election;
mod once;
mod stage;
