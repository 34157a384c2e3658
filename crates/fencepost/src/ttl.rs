//! The default TTL of a lease, and the limits within which a TTL must lie.

use std::time::Duration;

use crate::error::{Error, Result};

/// The default TTL of a lease: ten seconds.
///
/// A crashed holder blocks others for about this long; the page of each store gives the bound, which on ZooKeeper is the session timeout.
/// Renewal starts after a third of the TTL. That leaves more than six seconds for failed attempts, a failover or a stopped process before a
/// healthy holder loses the lock.
pub const DEFAULT_TTL: Duration = Duration::from_secs(10);

/// The shortest TTL. With a shorter one, a renewal after a third of it would race with ordinary scheduling delays.
pub const MIN_TTL: Duration = Duration::from_millis(20);

/// The longest TTL. A crashed holder would block others for this long; a live guard is renewed anyway.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Checks that a TTL is neither too short to be renewed in time nor so long that it would block others for days.
pub(crate) fn check_ttl(ttl: Duration) -> Result<()> {
    if (MIN_TTL..=MAX_TTL).contains(&ttl) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a TTL of {ttl:?} is out of range: {MIN_TTL:?} to 24 h. The locker renews the lease while the guard is alive, so a \
         long hold does not need a long TTL"
    )))
}
