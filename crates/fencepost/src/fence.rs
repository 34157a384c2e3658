//! The fencing token: a number that grows with every hold of a name.
//!
//! A lock can end without its holder noticing, for example because the process paused or the network broke. Then the *resource* must
//! protect the data: it remembers the largest fence it has seen and refuses a lower one. See [`resource`](crate::resource).

use std::fmt;
use std::str::FromStr;
#[cfg(any(feature = "sqlite", feature = "redis"))]
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};

/// The fencing token of one hold. Fences are totally ordered, and a later hold of the same name has a larger one.
///
/// `epoch` comes from the store and grows with every lease it grants. `seq` grows with every hand-over between tasks of one process under
/// one lease, which needs no request to the store. Displayed as `epoch.seq`.
///
/// ```
/// use fencepost::Fence;
///
/// let first: Fence = "41.7".parse()?;
/// let later = Fence::new(42, 0)?;
/// assert!(first < later);
/// assert!(first.as_i64() < later.as_i64());
/// assert_eq!(Fence::from_i64(later.as_i64())?, later);
/// # Ok::<(), fencepost::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    // The derived order compares the fields from top to bottom, so this order matters.
    epoch: u64,
    seq: u16,
}

impl Fence {
    /// The first epoch that is too large: epochs are below 2⁴⁷, so that epoch and seq together fit in a BIGINT.
    pub const EPOCH_END: u64 = 1 << 47;

    /// Creates a fence from its parts.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if `epoch` is not below [`EPOCH_END`](Self::EPOCH_END). A fence
    /// never wraps around.
    pub fn new(epoch: u64, seq: u16) -> Result<Self> {
        if epoch >= Self::EPOCH_END {
            return Err(Error::invalid(format!(
                "fence epoch {epoch} is not below 2^47"
            )));
        }
        Ok(Self { epoch, seq })
    }

    /// Returns the part that comes from the store. It grows with every lease granted for this name.
    pub fn epoch(self) -> u64 {
        self.epoch
    }

    /// Returns the local part. It grows with every hand-over inside one process under one lease.
    pub fn seq(self) -> u16 {
        self.seq
    }

    /// Returns the fence as one integer that sorts in the same order, for a BIGINT column. Never negative.
    pub fn as_i64(self) -> i64 {
        // This fits: the constructor checks that epoch < 2^47.
        ((self.epoch << 16) | u64::from(self.seq)) as i64
    }

    /// Returns the fence that [`as_i64`](Self::as_i64) packed.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if `packed` is negative.
    pub fn from_i64(packed: i64) -> Result<Self> {
        let packed = u64::try_from(packed)
            .map_err(|_| Error::invalid(format!("a packed fence is never negative: {packed}")))?;
        Self::new(packed >> 16, (packed & 0xffff) as u16)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.seq)
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fence({self})")
    }
}

impl FromStr for Fence {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("not a fence: {text:?}; expected EPOCH.SEQ"));
        let (epoch, seq) = text.split_once('.').ok_or_else(wrong)?;
        Self::new(
            epoch.parse().map_err(|_| wrong())?,
            seq.parse().map_err(|_| wrong())?,
        )
    }
}

/// Returns the epoch at which a new counter starts: the wall time since 2024 in units of 7.8125 µs, but at most 2⁴⁶ (the year 2041), so
/// that a wrong clock does not exhaust the fence.
#[cfg(any(feature = "sqlite", feature = "redis"))]
pub(crate) fn epoch_of_time(time: SystemTime) -> u64 {
    const START_OF_2024_S: u64 = 1_704_067_200;
    /// The length of two units, which is a whole number.
    const TWO_UNITS_NS: u128 = 15_625;
    let since_1970 = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let since_2024 = since_1970.saturating_sub(Duration::from_secs(START_OF_2024_S));
    let units = since_2024.as_nanos() * 2 / TWO_UNITS_NS;
    u64::try_from(units).unwrap_or(u64::MAX).min(1 << 46)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packing_keeps_the_order(a in 0..Fence::EPOCH_END, b in 0..Fence::EPOCH_END, s: u16, t: u16) {
            let (a, b) = (Fence::new(a, s).unwrap(), Fence::new(b, t).unwrap());
            prop_assert_eq!(a.cmp(&b), a.as_i64().cmp(&b.as_i64()));
            prop_assert_eq!(Fence::from_i64(a.as_i64()).unwrap(), a);
            prop_assert_eq!(a.to_string().parse::<Fence>().unwrap(), a);
        }
    }

    #[cfg(any(feature = "sqlite", feature = "redis"))]
    #[test]
    fn a_first_epoch_is_the_time_since_2024() {
        let at = |s| SystemTime::UNIX_EPOCH + Duration::from_secs(s);
        assert_eq!(epoch_of_time(at(0)), 0);
        assert_eq!(epoch_of_time(at(1_704_067_200)), 0);
        assert_eq!(epoch_of_time(at(1_704_067_201)), 128_000);
        assert_eq!(epoch_of_time(at(17_000_000_000)), 1 << 46);
    }

    #[test]
    fn the_largest_fence_fits_and_the_next_is_refused() {
        let last = Fence::new(Fence::EPOCH_END - 1, u16::MAX).unwrap();
        assert_eq!(last.as_i64(), i64::MAX);
        assert!(Fence::new(Fence::EPOCH_END, 0).is_err());
        assert!(Fence::from_i64(-1).is_err());
        for text in ["", "1", "1.", ".1", "1.65536", "-1.0", "1.0.0"] {
            assert!(text.parse::<Fence>().is_err(), "{text}");
        }
    }
}
