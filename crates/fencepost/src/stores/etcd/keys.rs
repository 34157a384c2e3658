//! Which key a claim has, and what stands in it.
//!
//! `PREFIX/NAME/NUMBER`, as etcd's own lock makes them: the number is that of a lease, in hexadecimal. Ours is taken from the owner, so
//! that a request whose answer was lost finds the key it made.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::claim::{Claim, OwnerId};

/// The keys of one lock.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    /// What all its keys begin with, with the slash.
    pub(super) line: Vec<u8>,
    /// The key of one who asks for it.
    pub(super) own: Vec<u8>,
    /// The lease that the key is named after.
    pub(super) number: i64,
}

impl Keys {
    pub(super) fn of(prefix: &str, claim: &Claim) -> Self {
        Self::of_owner(prefix, claim.name.as_str(), claim.owner)
    }

    pub(super) fn of_owner(prefix: &str, name: &str, owner: OwnerId) -> Self {
        let line = line_of(prefix, name);
        let number = number_of(owner);
        let mut own = line.clone();
        own.extend_from_slice(format!("{number:x}").as_bytes());
        Self { line, own, number }
    }
}

/// What all keys of a lock begin with.
pub(super) fn line_of(prefix: &str, name: &str) -> Vec<u8> {
    let mut line = root_of(prefix);
    line.extend_from_slice(name.as_bytes());
    line.push(b'/');
    line
}

/// What the keys of all locks begin with.
pub(super) fn root_of(prefix: &str) -> Vec<u8> {
    match prefix.is_empty() {
        true => Vec::new(),
        false => format!("{prefix}/").into_bytes(),
    }
}

/// Whether `key`, which begins with `line`, is of this lock, and not of another whose name begins with this one's and a slash.
pub(super) fn is_of_line(line: &[u8], key: &[u8]) -> bool {
    let rest = &key[line.len().min(key.len())..];
    !rest.contains(&b'/')
}

/// The last 63 bits of the owner: leases have positive numbers.
fn number_of(owner: OwnerId) -> i64 {
    let digits = owner.to_string();
    let bits = u64::from_str_radix(&digits[16..], 16);
    let number = bits.map_or(0, |bits| (bits & (u64::MAX >> 1)).cast_signed());
    // Zero lets the server choose.
    number.max(1)
}

/// What stands in a key of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    /// It had to wait: `since` tells since when, and not since when it holds the lock.
    pub(super) had_to_wait: bool,
    /// By the clock of the machine that wrote it.
    pub(super) since: SystemTime,
    pub(super) label: String,
}

impl Value {
    pub(super) fn new(claim: &Claim, had_to_wait: bool, since: SystemTime) -> Self {
        Self {
            owner: claim.owner,
            ttl: claim.ttl,
            had_to_wait,
            since,
            label: claim.label.to_string(),
        }
    }

    /// "owner ttl held|waiting since label", times in milliseconds.
    pub(super) fn write(&self) -> String {
        let state = if self.had_to_wait { "waiting" } else { "held" };
        let since = self.since.duration_since(UNIX_EPOCH).unwrap_or_default();
        let [ttl, since] = [self.ttl, since].map(|time| time.as_millis());
        format!("{} {ttl} {state} {since} {}", self.owner, self.label)
    }

    /// `None`: not ours.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut parts = text.splitn(5, ' ');
        let owner = parts.next()?.parse().ok()?;
        let ttl = Duration::from_millis(parts.next()?.parse().ok()?);
        let had_to_wait = match parts.next()? {
            "held" => false,
            "waiting" => true,
            _ => return None,
        };
        let since = Duration::from_millis(parts.next()?.parse().ok()?);
        Some(Self {
            owner,
            ttl,
            had_to_wait,
            since: UNIX_EPOCH.checked_add(since)?,
            label: parts.next()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn a_key_is_named_as_etcds_own_lock_names_it() {
        let owner: OwnerId = "000000000000000080000000000000ab".parse().unwrap();
        let keys = Keys::of_owner("locks", "stock", owner);
        assert_eq!(keys.own, b"locks/stock/ab");
        assert_eq!(keys.number, 0xab, "never negative");
        let zero: OwnerId = "00000000000000000000000000000000".parse().unwrap();
        assert_eq!(Keys::of_owner("", "stock", zero).own, b"stock/1");
    }

    #[test]
    fn a_lock_below_another_is_another_lock() {
        let line = line_of("", "a");
        assert!(is_of_line(&line, b"a/12ab"));
        assert!(!is_of_line(&line, b"a/b/12ab"));
    }

    #[test]
    fn a_value_is_read_as_it_was_written() {
        let value = Value {
            owner: OwnerId::random(&SystemRandom),
            ttl: Duration::from_millis(1500),
            had_to_wait: true,
            since: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
            label: "ci-7: 2210 x".into(),
        };
        assert_eq!(Value::read(value.write().as_bytes()), Some(value));
        for text in ["", "x", "00 1 held 1 a"] {
            assert_eq!(Value::read(text.as_bytes()), None, "{text}");
        }
    }
}
