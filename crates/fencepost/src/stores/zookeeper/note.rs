//! The data of a node, for people and for [`inspect`](crate::Backend::inspect): "owner ttl since label".

use std::time::Duration;

use crate::claim::{Claim, OwnerId};
use crate::clock::unix_millis;

/// The data of one of our nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    /// Milliseconds since 1970, by the clock of the client that wrote it: when it asked or, once it holds the lock, when it got the lock.
    pub(super) since_ms: u64,
    pub(super) label: String,
}

impl Note {
    /// Creates a note with the current time.
    pub(super) fn of(claim: &Claim, ttl: Duration) -> Self {
        Self {
            owner: claim.owner,
            ttl,
            since_ms: unix_millis(),
            label: claim.label.to_string(),
        }
    }

    pub(super) fn write(&self) -> String {
        let Self {
            owner,
            ttl,
            since_ms,
            label,
        } = self;
        format!("{owner} {} {since_ms} {label}", ttl.as_millis())
    }

    /// Returns `None` if the data are not ours.
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(data).ok()?.splitn(4, ' ');
        Some(Self {
            owner: parts.next()?.parse().ok()?,
            ttl: Duration::from_millis(parts.next()?.parse().ok()?),
            since_ms: parts.next()?.parse().ok()?,
            label: parts.next()?.to_owned(),
        })
    }
}

/// Returns the data of a node: the value alone for a candidate in an election, as other programs expect it, and otherwise a note.
pub(super) fn content_of(claim: &Claim, ttl: Duration) -> Vec<u8> {
    match &claim.value {
        Some(value) => value.as_bytes().to_vec(),
        None => Note::of(claim, ttl).write().into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    #[test]
    fn a_note_survives_being_written_down() {
        let note = Note {
            owner: OwnerId::random(&SeededRandom::new(5)),
            ttl: Duration::from_millis(1500),
            since_ms: 1_700_000_000_123,
            label: "ci-7 with spaces:22".to_owned(),
        };
        assert_eq!(Note::read(note.write().as_bytes()), Some(note));
        for data in [&b""[..], b"10.0.0.7", b"\xff\xfe", b"a b c d"] {
            assert_eq!(Note::read(data), None);
        }
    }
}
