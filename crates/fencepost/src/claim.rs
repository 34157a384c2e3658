//! The plain data of a request to a store and of its answer: name, owner, claim, grant.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::random::Random;

/// The name of a lock: 1 to 255 bytes of UTF-8 without control characters, line separators and text direction marks.
///
/// Everything else is allowed: spaces, slashes, quotes, braces, any script. Backends pass names only as bound values or escape them, so a
/// name cannot become a command, a path or a separate line in a log.
///
/// ```
/// use fencepost::LockName;
///
/// assert!(LockName::new("lock:product:42").is_ok());
/// assert!(LockName::new("").is_err());
/// assert!(LockName::new("two\nlines").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(Arc<str>);

impl LockName {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Checks a name, and creates a `LockName` from it.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the name is empty, is longer than
    /// [`MAX_BYTES`](Self::MAX_BYTES), or contains a control character (NUL, newline, escape …), a line separator or a character that
    /// reverses the text direction.
    pub fn new(name: &str) -> Result<Self> {
        if name.is_empty() {
            return Err(Error::invalid("the name of a lock must not be empty"));
        }
        if name.len() > Self::MAX_BYTES {
            return Err(Error::invalid(format!(
                "a lock's name has at most {} bytes, this one has {}",
                Self::MAX_BYTES,
                name.len()
            )));
        }
        if let Some(at) = name.chars().position(hides_or_breaks_text) {
            return Err(Error::invalid(format!(
                "a lock's name must not contain control characters, line separators or text direction marks: {name:?}, character {at}"
            )));
        }
        Ok(Self(name.into()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether the character would let a name forge or disguise a line of a log: control characters, line and paragraph separators, and
/// the marks that override the text direction.
pub(crate) fn hides_or_breaks_text(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl AsRef<str> for LockName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for LockName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl TryFrom<&str> for LockName {
    type Error = Error;

    fn try_from(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

impl TryFrom<String> for LockName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        Self::new(&name)
    }
}

impl TryFrom<&String> for LockName {
    type Error = Error;

    fn try_from(name: &String) -> Result<Self> {
        Self::new(name)
    }
}

impl TryFrom<&LockName> for LockName {
    type Error = Error;

    fn try_from(name: &LockName) -> Result<Self> {
        Ok(name.clone())
    }
}

/// The owner of a lease at the store: 128 random bits, new for every lease, displayed as 32 hexadecimal digits.
///
/// The locker creates the owner before it sends the first request, so that whatever an abandoned request leaves behind can be found and
/// released.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(u128);

impl OwnerId {
    /// Creates an owner from 128 random bits.
    pub fn random(random: &dyn Random) -> Self {
        Self(random.next_u128())
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for OwnerId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = || {
            let message = format!("not an owner: {text:?}; expected 32 hexadecimal digits");
            Error::invalid(message)
        };
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let bits = u128::from_str_radix(text, 16);
        bits.map(Self).map_err(|_| invalid())
    }
}

/// A request to a store: a lease on this name, for this owner, of this length.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The name of the lock.
    pub name: LockName,
    /// The owner that asks. A request with the same owner continues its earlier attempt; an owner never gets a second lease.
    pub owner: OwnerId,
    /// How long the lease lasts without renewal.
    pub ttl: Duration,
    /// A label for people: host and process. [`Backend::inspect`](crate::Backend::inspect) shows it; nothing depends on it.
    pub label: Arc<str>,
    /// How much of the name the claim takes. A store of locks is only ever asked for [`Part::Whole`].
    pub part: Part,
    /// The value of a candidate in an election, for stores that keep it in the same place as the lock ([`Backend::leaders`]).
    ///
    /// [`Backend::leaders`]: crate::Backend::leaders
    pub value: Option<Arc<str>>,
}

/// How much of a name a claim takes.
///
/// A store of locks is only ever asked for [`Whole`](Self::Whole), and shows the others: the parts of semaphores and read-write locks are
/// worked out on top of its [records](crate::backend::records).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Part {
    /// All of it, as a lock does.
    #[default]
    Whole,
    /// This many permits of a semaphore.
    Permits {
        /// How many the claim takes.
        count: u32,
        /// How many there are, if the store does not know. What the store knows counts.
        of: u32,
    },
    /// Reading, beside other readers.
    Read,
    /// Writing, alone.
    Write,
    /// Reading instead of the writing of this owner, which ends in the same step.
    ReadInPlaceOf(OwnerId),
}

impl Claim {
    /// Creates a claim of `owner` to `name` for `ttl`, with an empty label.
    pub fn new(name: LockName, owner: OwnerId, ttl: Duration) -> Self {
        Self {
            name,
            owner,
            ttl,
            label: "".into(),
            part: Part::Whole,
            value: None,
        }
    }

    /// Sets how much of the name the claim takes.
    #[must_use]
    pub fn with_part(self, part: Part) -> Self {
        Self { part, ..self }
    }

    /// Sets the value of a candidate in an election.
    #[must_use]
    pub fn with_value(self, value: impl Into<Arc<str>>) -> Self {
        Self {
            value: Some(value.into()),
            ..self
        }
    }

    /// Sets the label of the claim.
    #[must_use]
    pub fn with_label(self, label: impl Into<Arc<str>>) -> Self {
        Self {
            label: label.into(),
            ..self
        }
    }
}

/// A lease that the store granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The epoch of the fence. It is larger than every epoch granted for this name before, whatever happened to the lock in between.
    pub epoch: u64,
    /// A moment, on the backend's [`clock`](crate::Backend::clock), *before* the request that obtained this grant was sent.
    pub asked_at: Moment,
    /// For at least this long after `asked_at`, the store keeps others out. A client that waited may be granted less than its TTL at first.
    /// Do not make that too short: a locker hands the lock on inside its process only while at least
    /// [`HandOver::min_valid_percent`](crate::HandOver::min_valid_percent) of this time is left, and otherwise releases it.
    pub lease: Duration,
}

impl Grant {
    /// Creates the grant of a lease of this length, requested at `asked_at`.
    pub fn new(epoch: u64, asked_at: Moment, lease: Duration) -> Self {
        Self {
            epoch,
            asked_at,
            lease,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    #[test]
    fn hostile_names_are_refused_with_the_reason() {
        let long = "x".repeat(10_000);
        for (name, reason) in [
            ("", "empty"),
            (long.as_str(), "at most 255 bytes, this one has 10000"),
            ("a\0b", "control characters"),
            ("a\nb", "control characters"),
            ("a\u{1b}[31mb", "control characters"),
            ("a\u{2028}b", "line separators"),
            ("a\u{202e}b", "text direction marks"),
        ] {
            let error = LockName::new(name).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert!(
                !error.contains('\n') && !error.contains('\u{1b}'),
                "{error:?}"
            );
        }
    }

    #[test]
    fn names_that_only_look_hostile_are_kept_as_they_are() {
        let widest = "é".repeat(127);
        for name in [
            "'; DROP TABLE lock; --",
            "../../etc/passwd",
            "{a}{b}",
            "ключ 锁 🔒",
            " ",
            &widest,
        ] {
            assert_eq!(LockName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn an_owner_survives_being_written_down() {
        let owner = OwnerId::random(&SeededRandom::new(7));
        assert_eq!(owner.to_string().parse::<OwnerId>().unwrap(), owner);
        for text in [
            "",
            "12",
            "+0000000000000000000000000000000",
            &"g".repeat(32),
        ] {
            let error = text.parse::<OwnerId>().unwrap_err();
            let expected = format!("not an owner: {text:?}; expected 32 hexadecimal digits");
            assert_eq!(error.message(), expected);
        }
    }
}
