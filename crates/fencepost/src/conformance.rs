//! The conformance suite: requirements that every [`Backend`] must meet, for authors of a backend.
//!
//! The test of a requirement panics if the backend breaks the contract of [`Backend`]. The capabilities of the store select the
//! requirements, so a store is tested only for what it promises. Each test uses its own lock names, so tests can share a store. Run each in
//! its own Tokio runtime: some of them count the tasks of the runtime.
//!
//! ```
//! use std::sync::Arc;
//! use fencepost::stores::memory::Memory;
//! use fencepost::conformance::{StoreUnderTest, requirements};
//!
//! # tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap().block_on(async {
//! let store = Arc::new(Memory::new());
//! for requirement in requirements().filter(|one| one.name() == "a_free_lock_is_granted") {
//!     requirement.run(StoreUnderTest::new(store.clone())).await;
//! }
//! # });
//! ```

mod cancellation;
mod election;
mod exclusion;
mod guard;
mod leases;
mod listing;
mod locker;
mod once;
mod record_changes;
mod records;
mod shares;
mod waiting;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::backend::{Backend, Capabilities, Release};
use crate::claim::{Claim, Grant, LockName, OwnerId};
use crate::clock::BoxFuture;
use crate::random::SystemRandom;

/// The store under test, with two connections to it.
#[derive(Debug, Clone)]
pub struct StoreUnderTest {
    one: Arc<dyn Backend>,
    other: Arc<dyn Backend>,
}

impl StoreUnderTest {
    /// Tests the store through one connection.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            other: backend.clone(),
            one: backend,
        }
    }

    /// Tests the store through two connections to it, as two processes would have them.
    pub fn with_two_connections(one: Arc<dyn Backend>, other: Arc<dyn Backend>) -> Self {
        Self { one, other }
    }

    /// Returns what the store promises.
    pub fn capabilities(&self) -> Capabilities {
        self.one.capabilities()
    }
}

/// One requirement that a backend must meet.
#[derive(Debug, Clone, Copy)]
pub struct Requirement {
    name: &'static str,
    applies: fn(Capabilities) -> bool,
    run: fn(StoreUnderTest) -> BoxFuture<'static, ()>,
}

impl Requirement {
    /// Returns the name: a sentence that is true for every backend that meets the requirement.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns whether a store with these capabilities must meet this requirement.
    pub fn applies_to(&self, capabilities: Capabilities) -> bool {
        (self.applies)(capabilities)
    }

    /// Runs the test of this requirement. Needs a Tokio runtime of its own, with time enabled.
    ///
    /// # Panics
    /// Panics if the backend does not meet the requirement.
    ///
    /// # Cancel safety
    /// Do not drop the future: locks may remain until their TTL ends.
    pub async fn run(&self, store: StoreUnderTest) {
        (self.run)(store).await;
    }
}

/// Returns all requirements.
pub fn requirements() -> impl Iterator<Item = &'static Requirement> {
    [
        exclusion::REQUIREMENTS,
        leases::REQUIREMENTS,
        listing::REQUIREMENTS,
        waiting::REQUIREMENTS,
        cancellation::REQUIREMENTS,
        locker::REQUIREMENTS,
        guard::REQUIREMENTS,
        election::REQUIREMENTS,
        records::REQUIREMENTS,
        record_changes::REQUIREMENTS,
    ]
    .into_iter()
    .flatten()
    .chain(once::requirements())
    .chain(shares::requirements())
}

/// Creates a table of requirements from lines `name: condition,` where `name` is also the name of the function.
macro_rules! table {
    ($($name:ident: $applies:expr,)*) => {
        pub(super) const REQUIREMENTS: &[$crate::conformance::Requirement] = &[$(
            $crate::conformance::Requirement {
                name: stringify!($name),
                applies: $applies,
                run: |store| Box::pin($name(store)),
            },
        )*];
    };
}
use table;

/// Applies to every store.
const ALWAYS: fn(Capabilities) -> bool = |_| true;
/// Applies to stores that processes share.
const ACROSS: fn(Capabilities) -> bool = |capabilities| capabilities.across_processes;
/// Applies to stores whose leases end by themselves.
const LEASES: fn(Capabilities) -> bool = |capabilities| capabilities.leases;
/// Applies to stores that serve waiters in order.
const FIFO: fn(Capabilities) -> bool = |capabilities| capabilities.fifo;
/// Applies to stores that keep records beside their locks.
const RECORDS: fn(Capabilities) -> bool = |capabilities| capabilities.records;

/// A TTL that does not end during a test.
const LONG: Duration = Duration::from_secs(60);
/// A TTL that is short enough for a test to wait for its end.
const SHORT: Duration = Duration::from_millis(200);
/// How long something that must happen may take. Generous, because machines are sometimes slow.
const SOON: Duration = Duration::from_secs(20);

/// The label of every claim.
const LABEL: &str = "conformance";

/// Returns a name that no other test uses.
fn fresh_name(what: &str) -> LockName {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("conformance:{what}:{}:{count}", std::process::id());
    LockName::new(&name).expect("a valid name")
}

/// Creates a claim of a new owner.
fn claim(name: &LockName, ttl: Duration) -> Claim {
    Claim::new(name.clone(), OwnerId::random(&SystemRandom), ttl).with_label(LABEL)
}

/// Takes a lock that must be free.
async fn granted(backend: &Arc<dyn Backend>, claim: &Claim) -> Grant {
    let grant = backend.try_acquire(claim).await.expect("an answer");
    grant.expect("a free lock is granted")
}

/// Tries to take a lock that must be held.
async fn refused(backend: &Arc<dyn Backend>, claim: &Claim) {
    let grant = backend.try_acquire(claim).await.expect("an answer");
    assert_eq!(grant, None, "a held lock is refused");
}

/// Releases a lock that this claim must hold.
async fn freed(backend: &Arc<dyn Backend>, claim: &Claim) {
    let release = backend.release(claim).await.expect("an answer");
    assert_eq!(release, Release::Freed, "the holder releases the lock");
}

/// Releases a lock that this claim must not hold.
async fn not_held(backend: &Arc<dyn Backend>, claim: &Claim) {
    let release = backend.release(claim).await.expect("an answer");
    assert_eq!(release, Release::NotHeld, "only the holder releases");
}

/// Returns the output of the future, which must complete within [`SOON`].
async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(SOON, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: not within {SOON:?}"),
    }
}

/// Waits until `condition` holds, which must happen within [`SOON`].
async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    soon(what, async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
