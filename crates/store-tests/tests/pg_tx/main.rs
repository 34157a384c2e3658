//! Tests of locks inside the caller's own transactions on Postgres, with several real sessions.
#![allow(clippy::unwrap_used)]

mod errors;
mod fences;
mod gate;
mod making;
mod order;
mod rw_gate;
mod savepoints;
mod sessions;
mod stage;
