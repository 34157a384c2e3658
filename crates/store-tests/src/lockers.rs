//! Lockers and claims with the settings that most tests use.

use std::sync::Arc;
use std::time::Duration;

use fencepost::clock::{BootClock, Clock, Moment};
use fencepost::random::SystemRandom;
use fencepost::{Backend, Claim, Locker, OwnerId};

/// The lock that most tests use.
pub const NAME: &str = "stock";

/// Creates a locker whose tasks each join the store's line: nothing is handed over inside the process.
pub fn locker<B: Backend + 'static>(store: &Arc<B>, ttl: Duration) -> Locker {
    let builder = Locker::builder(store.clone()).ttl(ttl);
    let locker = builder.without_hand_over().build();
    locker.expect("a TTL that the store allows")
}

/// Creates a claim of a new owner on [`NAME`], as a locker does.
pub fn claim(ttl: Duration) -> Claim {
    claim_on(NAME, ttl)
}

/// Creates a claim of a new owner.
pub fn claim_on(name: &str, ttl: Duration) -> Claim {
    let name = name.try_into().expect("a valid name");
    let owner = OwnerId::random(&SystemRandom);
    Claim::new(name, owner, ttl).with_label(format!("test:{owner}"))
}

/// Returns the time of the boot clock, which all processes of a machine share.
pub fn now() -> Moment {
    BootClock.now()
}
