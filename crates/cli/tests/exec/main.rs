//! Tests of `fencepost exec`, `elect`, `once` and `locks` with real processes, real signals and a real terminal.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod codes;
mod elect;
mod fenced_file;
mod killed;
mod locks;
mod lost;
mod once;
mod redis;
mod redis_locks;
mod servers;
mod shares;
mod signals;
mod stage;
mod terminal;
mod tls;
