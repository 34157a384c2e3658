//! The wall clock of this machine. Redis and ZooKeeper write it beside a lock, so that people see since when it is held. The first epoch
//! of a new SQLite file comes from it, and Redlock's stamps begin at it and always grow. It can be set, so nothing else depends on it.
//! Stores with a server take the time of epochs from the server.

use std::time::SystemTime;

#[cfg(feature = "sqlite")]
use crate::clock::Moment;

/// Returns the milliseconds since 1970 by this machine's clock.
#[cfg(any(feature = "redis", feature = "zookeeper"))]
pub(crate) fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the wall time since 2024 in units of 7.8125 µs, but at most 2⁴⁶ (the year 2041), so that a wrong clock does not exhaust the
/// fence.
#[cfg(feature = "sqlite")]
pub(crate) fn first_epoch(time: SystemTime) -> u64 {
    const START_OF_2024_S: u64 = 1_704_067_200;
    /// The length of two units, which is a whole number.
    const TWO_UNITS_NS: u128 = 15_625;
    let since_1970 = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let since_1970 = Moment::ZERO + since_1970;
    let start = Moment::from_nanos(START_OF_2024_S * 1_000_000_000);
    let units = since_1970.saturating_duration_since(start).as_nanos() * 2 / TWO_UNITS_NS;
    u64::try_from(units).unwrap_or(u64::MAX).min(1 << 46)
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_first_epoch_is_the_time_since_2024() {
        let at = |s| SystemTime::UNIX_EPOCH + Duration::from_secs(s);
        assert_eq!(first_epoch(at(0)), 0);
        assert_eq!(first_epoch(at(1_704_067_200)), 0);
        assert_eq!(first_epoch(at(1_704_067_201)), 128_000);
        assert_eq!(first_epoch(at(17_000_000_000)), 1 << 46);
    }
}
