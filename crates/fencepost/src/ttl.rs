//! How long a lease may last.

use std::time::Duration;

use crate::error::{Error, Result};

/// The TTL of a lease when the builder is not told otherwise.
///
/// Ten seconds. A crashed holder blocks the others for at most this long. Renewal starts after a third of it, which leaves
/// more than six seconds of failed attempts, failover or a stopped process before a healthy holder loses the lock.
pub const DEFAULT_TTL: Duration = Duration::from_secs(10);

/// The shortest TTL: below it, a renewal at a third of it would race with ordinary scheduling delays.
pub const MIN_TTL: Duration = Duration::from_millis(20);

/// The longest TTL. A crashed holder would block the others for as long; a guard is kept alive anyway while it lives.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Refuses a TTL that cannot be kept, or that would block others for days.
pub(crate) fn check_ttl(ttl: Duration) -> Result<()> {
    if (MIN_TTL..=MAX_TTL).contains(&ttl) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a TTL of {ttl:?} is out of range: {MIN_TTL:?} to 24 h. A guard is kept alive while it lives, so a long hold needs \
         no long TTL"
    )))
}
