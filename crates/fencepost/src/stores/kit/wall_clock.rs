//! The wall clock, which tells people since when a lock is held. It can be set, so nothing else depends on it.

use std::time::SystemTime;

/// Returns the milliseconds since 1970 by this machine's clock.
pub(crate) fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
