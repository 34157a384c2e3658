//! How the names of locks and holders are written into ShedLock's columns.

use std::time::Duration;

use super::tables::digest;
use crate::claim::{Claim, LockName, OwnerId};

/// The size of ShedLock's column, in characters.
const NAME_MAX: usize = 64;
const HOLDER_MAX: usize = 255;
/// How many characters of a name that is too long are kept.
const KEPT: usize = 31;
/// How many digits of its digest follow: 128 bits.
const DIGITS: usize = 32;

/// Returns the row name of a lock. A name of up to 64 characters is used as it is. A longer one is shortened, and its digest distinguishes
/// it from others with the same beginning. The rule depends only on the name, so that all programs agree.
pub(super) fn row_of(name: &LockName) -> String {
    let name = name.as_str();
    if name.chars().count() <= NAME_MAX {
        return name.to_owned();
    }
    let kept: String = name.chars().take(KEPT).collect();
    format!("{kept}~{}", &digest(name)[..DIGITS])
}

/// Returns the content of `locked_by`: "owner ttl label", truncated to the size of the column. Only the first 32 characters matter.
pub(super) fn holder_of(claim: &Claim) -> String {
    let text = format!("{} {} {}", claim.owner, micros(claim.ttl), label_of(claim));
    text.chars().take(HOLDER_MAX).collect()
}

/// Returns the label. Postgres does not support NUL in texts.
pub(super) fn label_of(claim: &Claim) -> String {
    claim.label.replace('\0', "\u{fffd}")
}

/// A holder of this library, as [`holder_of`] wrote it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OurHolder<'a> {
    pub(super) owner: OwnerId,
    pub(super) ttl: Option<Duration>,
    pub(super) label: &'a str,
}

/// Returns `None` if another program wrote the text.
pub(super) fn ours(locked_by: &str) -> Option<OurHolder<'_>> {
    let (owner, rest) = locked_by.split_once(' ')?;
    let (ttl, label) = rest.split_once(' ')?;
    Some(OurHolder {
        owner: owner.parse().ok()?,
        ttl: ttl.parse().ok().map(Duration::from_micros),
        label,
    })
}

/// Returns whole microseconds, rounded up, because the server counts in microseconds.
pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    fn row(name: &str) -> String {
        row_of(&LockName::new(name).unwrap())
    }

    #[test]
    fn only_what_has_no_room_is_shortened() {
        let longest = "é".repeat(64);
        assert_eq!(row(&longest), longest);
        let [one, other] = ["a", "b"].map(|end| row(&format!("{}{end}", "x".repeat(64))));
        assert_ne!(one, other);
        assert!(
            one.starts_with(&"x".repeat(31)) && one.chars().count() == 64,
            "{one}"
        );
        let widest = row(&"🔒".repeat(63));
        assert_eq!(widest, "🔒".repeat(63));
    }

    #[test]
    fn a_holder_is_read_back_and_other_programs_are_told_apart() {
        let claim = Claim::new(
            LockName::new("stock").unwrap(),
            OwnerId::random(&SeededRandom::new(3)),
            Duration::from_millis(1500),
        )
        .with_label(format!("ci-7:2210\0{}", "x".repeat(300)));
        let written = holder_of(&claim);
        assert_eq!(written.chars().count(), 255);
        let read = ours(&written).unwrap();
        assert_eq!((read.owner, read.ttl), (claim.owner, Some(claim.ttl)));
        assert!(read.label.starts_with("ci-7:2210\u{fffd}xx"));
        for other_program in ["", "ip-10-0-0-7", "ip 10 0", &"f".repeat(32)] {
            assert_eq!(ours(other_program), None, "{other_program}");
        }
    }
}
