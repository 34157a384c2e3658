//! Distributed locks with fencing tokens, honest validity and a lost-lock signal.

pub mod backend;
#[cfg(feature = "blocking")]
pub mod blocking;
mod claim;
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod duty;
mod engine;
mod error;
mod fence;
mod guard;
mod keeper;
mod lease;
mod line;
mod locker;
pub mod random;
mod reaper;
pub mod resource;
pub mod retry;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;

pub use backend::{Backend, Capabilities, Holder, Record, Release, Renewal, Wait};
pub use claim::{Claim, Grant, LockName, OwnerId};
pub use clock::{BoxFuture, Clock, Moment};
pub use error::{Effect, Error, ErrorKind, Operation, Result};
pub use fence::Fence;
pub use guard::{Guard, ReleaseOutcome};
pub use lease::{Lost, LostReason};
pub use line::HandOver;
pub use locker::{DEFAULT_STORE_TIMEOUT, DEFAULT_TTL, Locker, LockerBuilder, MAX_TTL, MIN_TTL};
