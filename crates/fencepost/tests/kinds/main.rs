//! Tests of elections, semaphores and read-write locks on a clock that the test moves and a store that fails on demand.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod election;
mod odd_store;
mod once;
mod shares;
mod stage;
