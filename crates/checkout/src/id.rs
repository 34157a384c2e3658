//! The ids of products, shops, carts, users and orders.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How many characters of an order's id are public.
const PUBLIC_SUFFIX_LEN: usize = 6;
/// The longest id.
pub const MAX_ID: usize = 64;

/// An id: 1 to 64 characters of `A-Z a-z 0-9 . _ -`, the first a letter or a digit.
///
/// Such an id needs no quoting in the name of a lock, in a path or in a log line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$", example = "lamp-7")]
pub struct Id(String);

/// The error for an invalid id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id has 1 to 64 characters of A-Z a-z 0-9 . _ -, the first a letter or a digit")]
pub struct NotAnId;

/// The error for a system without a source of randomness: an id could be guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system has no randomness for a new id")]
pub struct NoRandomness;

impl Id {
    /// Checks `text`.
    ///
    /// # Errors
    /// Returns [`NotAnId`] if it is not a valid id.
    pub fn new(text: impl Into<String>) -> Result<Self, NotAnId> {
        let text = text.into();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let begins_well = text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric());
        if begins_well && text.len() <= MAX_ID && text.bytes().all(is_plain) {
            Ok(Self(text))
        } else {
            Err(NotAnId)
        }
    }

    /// Creates a new id that nobody can guess. Later ids sort after earlier ones.
    ///
    /// # Errors
    /// Returns [`NoRandomness`] if the system has none.
    pub fn random(now_ms: i64) -> Result<Self, NoRandomness> {
        let chance = getrandom::u64().map_err(|_| NoRandomness)?;
        let more = getrandom::u32().map_err(|_| NoRandomness)?;
        Ok(Self(format!("{now_ms:012x}{chance:016x}{more:08x}")))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the last characters, which tell orders apart. They are not enough to request an order; a client that knows the whole id may
    /// see the order.
    pub fn public_suffix(&self) -> &str {
        &self.0[self.0.len().saturating_sub(PUBLIC_SUFFIX_LEN)..]
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Id {
    type Error = NotAnId;

    fn try_from(text: String) -> Result<Self, NotAnId> {
        Self::new(text)
    }
}

impl From<Id> for String {
    fn from(id: Id) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_needs_quoting_is_an_id() {
        for wrong in ["", "-a", ".", "a b", "a/b", "a:b", "ä", "a\n", "a'b"] {
            assert_eq!(Id::new(wrong), Err(NotAnId), "{wrong:?}");
        }
        assert_eq!(Id::new("x".repeat(65)), Err(NotAnId));
        for right in ["a", "7", "lamp-7", "A.b_c-d", &"x".repeat(64)] {
            assert_eq!(Id::new(right).unwrap().as_str(), right);
        }
    }

    #[test]
    fn random_ids_are_ids_and_sort_by_time() {
        let random = |now_ms| Id::random(now_ms).unwrap();
        let (early, late) = (random(1_000), random(1_700_000_000_000));
        assert!(early < late);
        assert_eq!(Id::new(early.as_str()), Ok(early));
    }
}
