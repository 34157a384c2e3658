//! Tests of the checkout service as its customers see it: the real program, real HTTP, real crashes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod bad_input;
mod breaker;
mod chaos;
mod contract;
mod database;
mod database_gone;
mod documentation;
mod faults;
mod http;
mod killed;
mod limits;
mod orders;
mod page;
mod paused;
mod races;
mod scratch_shop;
mod shutdown;
mod stage;
mod sweep;
