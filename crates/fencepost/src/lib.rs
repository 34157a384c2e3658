//! Distributed locks with fencing tokens, honest validity and a lost-lock signal.

pub mod backend;
mod claim;
pub mod clock;
mod error;
mod fence;
pub mod random;
pub mod resource;
pub mod retry;

pub use backend::{Backend, Capabilities, Holder, Record, Release, Renewal, Wait};
pub use claim::{Claim, Grant, LockName, OwnerId};
pub use clock::{BoxFuture, Clock, Moment};
pub use error::{Effect, Error, ErrorKind, Operation, Result};
pub use fence::Fence;
