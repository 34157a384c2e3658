//! Distributed locks with fencing tokens, a validity that ends before the lease, and a signal when a lock is lost.
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
//! The example uses a store that exists in one process only, which is meant for tests. For locks that several processes share, enable the
//! feature of a [store](stores) and open it. For Redis, for example, that is `features = ["redis"]` in `Cargo.toml` and
//! `Redis::open("redis://localhost").await?`.
//!
//! # What a guard promises
//! - *Exclusion while it is valid.* [`Guard::valid_for`] counts from before the request was sent, minus a margin, on a clock that also runs
//!   while the machine sleeps (on [Linux and Android](#platforms)). The guard therefore stops being valid before the store grants the lock
//!   to anybody else. This assumes that the store keeps its data; each store says what happens if it does not.
//! - *A signal when it is lost.* When the lock is lost, [`Guard::lost`] completes and [`Guard::run`] drops the work. The reason does not
//!   matter: a store that does not answer, a process that was stopped, or a forced release.
//! - *A fence.* [`Guard::fence`] grows with every hold of a name. A [`resource`] that checks the fence refuses a holder that has lost the
//!   lock and does not know it yet. Nothing else closes the gap between "I checked, the lock was valid" and the write.
//! - *Nothing left for longer than a lease.* You may drop every future at every await and every guard anywhere. What that leaves at the
//!   store is released in the background, or ends with its lease if no runtime is left.
//!
//! # What it cannot promise
//! A lock with a lease does not stop a process that was paused in the middle of a write. If two concurrent writers would do damage, let
//! the resource check the fence. If all of the data is in one database, a conditional update there may make the lock unnecessary.
//!
//! # Waiting
//! Tasks of one process that wait for the same name form a line and are served in order of arrival. At most one of them has a request at
//! the store. They hand the lock over to each other without a round trip, within [limits](HandOver) that let other processes in. The store
//! decides the order across processes; with [`LockerBuilder::without_hand_over`] it decides the order of all tasks.
//!
//! # Several names
//! [`Locker::acquire_all`] takes either all of the names or none of them. It always takes them in the same global order, so callers whose
//! names overlap cannot deadlock. The [`MultiGuard`] has one fence per name, and is lost as soon as one of its names is lost.
//!
//! # Several holders
//! A [`Semaphore`] has a number of permits, of which each holder has some, and an [`RwLock`] has many readers or one writer. Both make the same
//! promises as a lock, and are served in order of arrival across all tasks and processes. They need a store that keeps records and has a
//! clock: memory, SQLite, Redis, or a table in Postgres. What their fences can protect differs: see [`resource`].
//!
//! # Platforms
//! The crate needs a Unix system and is tested on Linux. `stores::sqlite` works on Linux only. A guard measures its validity with
//! `CLOCK_BOOTTIME` on Linux and Android. Elsewhere it uses `CLOCK_MONOTONIC`, which may stop while the machine sleeps: a guard may then
//! appear valid after a sleep although its lease has ended, and only the fence protects the resource.
//!
//! # Features
//! | feature | default | gives |
//! |---|---|---|
//! | `memory` | yes | `stores::memory`: locks inside one process |
//! | `sqlite` | no | `stores::sqlite`: locks shared by the processes of one machine, through a file |
//! | `redis`, `redis-tls` | no | `stores::redis`: locks on one Redis server, with a fair waiting line |
//! | `redlock` | no | `stores::redlock`: a majority of independent Redis servers |
//! | `postgres`, `postgres-tls` | no | `stores::postgres`: advisory locks that are leases; `stores::postgres_table`: leases in ShedLock's table; `pg_tx`: locks in your own transaction |
//! | `etcd`, `etcd-tls` | no | `stores::etcd`: locks in an etcd cluster |
//! | `zookeeper` | no | `stores::zookeeper`: locks in ZooKeeper, beside Curator and kazoo |
//! | `blocking` | no | `blocking`: the same API without async |
//! | `testing` | no | `testing`: for your tests, a clock that you move, a store that fails on demand, and futures that are dropped after a number of polls |
//! | `conformance` | no | `conformance`: the requirements for authors of a [`Backend`] |
//! | `unstable-hooks` | no | what our own programs need beyond the API; may change or disappear in any release |

#![cfg_attr(docsrs, feature(doc_cfg))]

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
pub mod kinds;
mod lease;
mod line;
mod locker;
mod multi;
mod mutex;
#[cfg(feature = "postgres")]
pub mod pg_tx;
mod queue;
pub mod random;
mod reaper;
mod refusal;
pub mod resource;
pub mod retry;
#[cfg(not(feature = "unstable-hooks"))]
mod shares;
#[cfg(feature = "unstable-hooks")]
pub mod shares;
pub mod stores;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod ttl;

pub use backend::Backend;
pub use claim::{Claim, Grant, LockName, OwnerId, Part};
pub use credential::Credential;
pub use engine::ReleaseOutcome;
pub use error::{Effect, Error, ErrorKind, Operation, Result};
pub use fence::Fence;
pub use guard::Guard;
pub use kinds::election::{Election, Leadership};
pub use kinds::once::Once;
pub use kinds::{Permit, ReadGuard, RwLock, Semaphore, WriteGuard};
pub use lease::{FailedRenewals, Lost, LostReason};
pub use line::HandOver;
pub use locker::{DEFAULT_STORE_TIMEOUT, Locker, LockerBuilder};
pub use multi::MultiGuard;
pub use ttl::{DEFAULT_TTL, MAX_TTL, MIN_TTL};
