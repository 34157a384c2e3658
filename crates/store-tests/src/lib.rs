//! The toolkit that the tests of all stores share.
//!
//! The tests themselves are in `tests/`, in one folder per store. They are not part of the library's package, because they need
//! the rig: private servers, child processes, and networks that fail.
//!
//! A test runs on its own runtime ([`run`]), waits for conditions rather than for a fixed time ([`eventually`], [`soon`], [`outlives_its_ttl`]),
//! starts children that hold or want the lock ([`actor`]), makes servers silent ([`silence`]), reads and replaces records ([`records`]),
//! drops futures after a number of polls ([`poll_at_most`]), and checks errors ([`assert_error`]). The test program of a store lists its
//! tests by theme and passes them to [`main`](test_program::main).

pub mod actor;
pub mod database;
mod errors;
mod lockers;
pub mod records;
pub mod redis;
pub mod rw_gate;
pub mod silence;
pub mod test_program;
mod waiting;

pub use errors::{assert_error, assert_kind};
pub use fencepost::testing::poll_at_most;
pub use fencepost_rig::is_soak;
pub use lockers::{NAME, claim, claim_on, locker, now};
pub use waiting::{
    LONG, SOON, eventually, eventually_within, grace, outlives_its_ttl, run, run_within, soon,
    until_nothing_is_left, within,
};
