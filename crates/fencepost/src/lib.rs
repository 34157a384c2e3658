//! Distributed locks with fencing tokens, honest validity and a lost-lock signal.
//!
//! ```
//! use std::sync::Arc;
//! use fencepost::Locker;
//! use fencepost::stores::memory::Memory;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> fencepost::Result<()> {
//! let locker = Locker::new(Arc::new(Memory::new()));
//! let guard = locker.acquire("nightly-report").await?;
//! println!("mine, fence {}", guard.fence());
//! assert!(guard.release().await.is_released());
//! # Ok(())
//! # }
//! ```
//!
//! That is a lock inside one process, for tests. For processes that share a [store](stores), name its feature and open it, for instance
//! `fencepost = { version = "0.1", features = ["redis"] }` and `Redis::open("redis://localhost").await?`.
//!
//! # What a guard promises
//! - *Exclusion while it is valid.* [`Guard::valid_for`] is counted from before the store was asked, less a margin, on a clock
//!   that also runs while the machine sleeps. Belief here ends before the store lets anybody else in.
//! - *A signal when it is lost.* [`Guard::lost`] completes, [`Guard::run`] drops the work, whatever the reason: a silent store, a
//!   stopped process, a forced release.
//! - *A fence.* [`Guard::fence`] grows with every hold of a name. A [`resource`] that checks it refuses a holder that does not know yet
//!   that it is late. Only that closes the gap between «I looked, it was valid» and the write.
//! - *Nothing left behind.* Every future may be dropped at every await, every guard anywhere, with or without a runtime.
//!
//! # What it cannot promise
//! A lock with a lease does not stop a process that was paused in the middle of a write. If two writers would do damage, let
//! the resource check the fence. If the data lives in one database, a conditional update there may need no lock at all.
//!
//! # Waiting
//! Tasks of one process that want one name stand in line, first come first served, with at most one request at the store, and
//! hand the lock over to each other without a round trip, within [bounds](HandOver) that let other processes in. Across processes the
//! store's own order holds; with [`LockerBuilder::without_hand_over`] it alone decides.
//!
//! # Several names
//! [`Locker::acquire_all`] takes several names or none, in one order for everybody, so that two who want the same never wait for each
//! other in a circle. The [`MultiGuard`] has a fence per name and is lost when one of them is.
//!
//! # Features
//! | feature | default | gives |
//! |---|---|---|
//! | `memory` | yes | `stores::memory`: locks inside one process |
//! | `sqlite` | no | `stores::sqlite`: locks shared by the processes of one machine, through a file |
//! | `redis`, `redis-tls` | no | `stores::redis`: a fair line at a Redis server |
//! | `redlock` | no | `stores::redlock`: a majority of independent Redis servers |
//! | `postgres`, `postgres-tls` | no | `stores::postgres`: advisory locks that are leases; `stores::postgres_table`: leases in ShedLock's table; `pg_tx`: locks in your own transaction |
//! | `etcd`, `etcd-tls` | no | `stores::etcd`: locks in an etcd cluster |
//! | `zookeeper` | no | `stores::zookeeper`: locks in ZooKeeper, beside Curator and kazoo |
//! | `blocking` | no | `blocking`: the same API without async |
//! | `testing` | no | `testing`: a clock and a store that do as told, for your tests |
//! | `conformance` | no | `conformance`: the trials for people who write a [`Backend`] |
//! | `unstable-hooks` | no | what our own programs need beyond the API; may change or go with any release |

mod alarm;
pub mod backend;
#[cfg(feature = "blocking")]
pub mod blocking;
mod claim;
pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod credential;
mod engine;
mod error;
mod fence;
mod guard;
mod housekeeping;
mod keeper;
mod lease;
mod line;
mod locker;
mod multi;
#[cfg(feature = "postgres")]
pub mod pg_tx;
mod queue;
pub mod random;
mod reaper;
pub mod resource;
pub mod retry;
pub mod stores;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod ttl;

pub use backend::{
    Backend, Capabilities, Holder, Listed, LossBell, Record, Release, Renewal, Wait, Waiter,
};
pub use claim::{Claim, Grant, LockName, OwnerId};
pub use clock::{BoxFuture, Clock, Moment};
pub use credential::Credential;
pub use engine::ReleaseOutcome;
pub use error::{Effect, Error, ErrorKind, Operation, Result};
pub use fence::Fence;
pub use guard::Guard;
pub use lease::{Lost, LostReason};
pub use line::HandOver;
pub use locker::{DEFAULT_STORE_TIMEOUT, Locker, LockerBuilder};
pub use multi::MultiGuard;
pub use ttl::{DEFAULT_TTL, MAX_TTL, MIN_TTL};
