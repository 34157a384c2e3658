//! The fencing token: a number that grows with every grant of a name.
//!
//! A lock can end without its holder noticing (a pause, a cut cable). What still protects the data then is
//! the *resource*: it remembers the largest fence it has seen and refuses anything lower. See
//! [`resource`](crate::resource).

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The fencing token of one hold: totally ordered, larger for every later hold of the same name.
///
/// `epoch` comes from the store and grows with every lease it grants. `seq` grows with every hand-over
/// between tasks of one process under one lease, which costs the store nothing. Shown as `epoch.seq`.
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
    // The order of the fields is the order of fences.
    epoch: u64,
    seq: u16,
}

impl Fence {
    /// The first epoch that does not fit: epochs are below 2⁴⁷, so that epoch and seq together fit a BIGINT.
    pub const EPOCH_END: u64 = 1 << 47;

    /// A fence from its parts.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) when `epoch` is not below [`EPOCH_END`](Self::EPOCH_END): a fence that would
    /// wrap around is never made.
    pub fn new(epoch: u64, seq: u16) -> Result<Self> {
        if epoch >= Self::EPOCH_END {
            return Err(Error::invalid(format!(
                "fence epoch {epoch} is not below 2^47"
            )));
        }
        Ok(Self { epoch, seq })
    }

    /// The store's part: grows with every lease granted for this name.
    pub fn epoch(self) -> u64 {
        self.epoch
    }

    /// The local part: grows with every hand-over inside one process under one lease.
    pub fn seq(self) -> u16 {
        self.seq
    }

    /// One integer in the same order, for a BIGINT column. Never negative.
    pub fn as_i64(self) -> i64 {
        // Fits: epoch < 2^47 is checked where a fence is made.
        ((self.epoch << 16) | u64::from(self.seq)) as i64
    }

    /// The fence that [`as_i64`](Self::as_i64) packed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) when `packed` is negative.
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
