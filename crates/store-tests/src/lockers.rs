//! Lockers and claims as most tests want them.

use std::sync::Arc;
use std::time::Duration;

use fencepost::clock::{BootClock, Clock};
use fencepost::random::SystemRandom;
use fencepost::{Backend, Claim, Locker, Moment, OwnerId};

/// The lock that everybody in these tests wants.
pub const NAME: &str = "stock";

/// A locker whose tasks each stand in the store's line: nothing is handed over inside the process.
pub fn locker<B: Backend + 'static>(store: &Arc<B>, ttl: Duration) -> Locker {
    let builder = Locker::builder(store.clone()).ttl(ttl);
    let locker = builder.without_hand_over().build();
    locker.expect("a TTL that the store allows")
}

/// A claim of a new owner on [`NAME`], as a locker makes them.
pub fn claim(ttl: Duration) -> Claim {
    claim_on(NAME, ttl)
}

/// A claim of a new owner.
pub fn claim_on(name: &str, ttl: Duration) -> Claim {
    let name = name.try_into().expect("a valid name");
    let owner = OwnerId::random(&SystemRandom);
    Claim::new(name, owner, ttl).with_label(format!("test:{owner}"))
}

/// The time on the boot clock, which all processes of a machine share.
pub fn now() -> Moment {
    BootClock.now()
}
