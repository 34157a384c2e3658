//! The key of a claim, and its content.
//!
//! The key is `PREFIX/NAME/NUMBER`, as etcd's own lock creates it. The number is that of a lease, in hexadecimal. We derive it from the
//! owner, so that a request whose answer was lost finds the key that it created.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::backend::records::{RecordKey, RecordKind};
use crate::claim::{Claim, OwnerId};

/// The keys of one lock.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    /// The prefix of all keys of the lock, including the slash.
    pub(super) line: Vec<u8>,
    /// The key of the owner that asks for the lock.
    pub(super) own: Vec<u8>,
    /// The number of the lease after which the key is named.
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

/// Returns the prefix of all keys of a lock.
pub(super) fn line_of(prefix: &str, name: &str) -> Vec<u8> {
    let mut line = root_of(prefix);
    line.extend_from_slice(name.as_bytes());
    line.push(b'/');
    line
}

/// The folder of all records, below the prefix. No name of a lock contains a control character, so neither can a key or a line of any lock
/// below any prefix begin with it, nor can a record be taken for a member of a line: the rest of its key after every possible line contains
/// a slash.
const RECORDS: &str = "\u{1}fencepost";

/// Returns the prefix of the keys of all records of this kind.
pub(super) fn records_of(prefix: &str, kind: RecordKind) -> Vec<u8> {
    let mut folder = root_of(prefix);
    folder.extend_from_slice(format!("{RECORDS}/{}/", kind.as_str()).as_bytes());
    folder
}

/// Returns the key of a record.
pub(super) fn record_key(prefix: &str, key: &RecordKey) -> Vec<u8> {
    let mut own = records_of(prefix, key.kind);
    own.extend_from_slice(key.name.as_str().as_bytes());
    own
}

/// Returns the prefix of the keys of all locks.
pub(super) fn root_of(prefix: &str) -> Vec<u8> {
    if prefix.is_empty() {
        Vec::new()
    } else {
        format!("{prefix}/").into_bytes()
    }
}

/// Returns whether `key`, which begins with `line`, belongs to this lock and not to one whose name begins with this name and a slash.
pub(super) fn is_of_line(line: &[u8], key: &[u8]) -> bool {
    let rest = &key[line.len().min(key.len())..];
    !rest.contains(&b'/')
}

/// Returns the last 63 bits of the owner, because lease numbers are positive.
fn number_of(owner: OwnerId) -> i64 {
    let digits = owner.to_string();
    let bits = u64::from_str_radix(&digits[16..], 16);
    let number = bits.map_or(0, |bits| (bits & (u64::MAX >> 1)).cast_signed());
    // With zero, the server would choose a number.
    number.max(1)
}

/// Returns the content of the key of a claim: the value alone for a candidate in an election, as etcd's own elections expect it, and otherwise
/// a note about the lock. `kept` is the content that the key has already, if any: the value of a leader may be another one by now.
pub(super) fn content_of(
    claim: &Claim,
    had_to_wait: bool,
    since: SystemTime,
    kept: Option<&[u8]>,
) -> Vec<u8> {
    match (&claim.value, kept) {
        (Some(_), Some(kept)) => kept.to_vec(),
        (Some(value), None) => value.as_bytes().to_vec(),
        (None, _) => Value::new(claim, had_to_wait, since).write().into_bytes(),
    }
}

/// The content of the key of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    /// Whether the owner had to wait: `since` is then the start of the wait, and not of the hold.
    pub(super) had_to_wait: bool,
    /// A time of the clock of the machine that wrote it.
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

    /// Returns "owner ttl held|waiting since label", with times in milliseconds.
    pub(super) fn write(&self) -> String {
        let state = if self.had_to_wait { "waiting" } else { "held" };
        let since = self.since.duration_since(UNIX_EPOCH).unwrap_or_default();
        let [ttl, since] = [self.ttl, since].map(|time| time.as_millis());
        format!("{} {ttl} {state} {since} {}", self.owner, self.label)
    }

    /// Returns `None` if the text is not ours.
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
    use crate::claim::LockName;
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

    /// The line of a lock is a prefix, the name of the lock and a slash, and its members have no slash after that.
    #[test]
    fn no_record_is_in_the_line_of_any_lock() {
        assert!(LockName::new(RECORDS).is_err());
        for prefix in ["", "p", "p/q"] {
            for name in ["a", "a/b", "ab", "a/1f", "fencepost/shares/a"] {
                let name = LockName::new(name).unwrap();
                for &kind in RecordKind::ALL {
                    let name = name.clone();
                    let key = record_key(prefix, &RecordKey { kind, name });
                    let key = String::from_utf8(key).unwrap();
                    let (line, _) = key.rsplit_once('/').unwrap();
                    assert!(line.contains(RECORDS), "{key:?}: {line:?} may be a lock");
                }
            }
        }
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
