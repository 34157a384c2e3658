//! The keys of a lock in Redis: its own key, as every other client knows it, and our keys in the same slot.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use crate::mutex::lock;

/// Returns the key with the waiters for `name`, in order.
pub(super) fn line_of(name: &str) -> String {
    beside(name, "line")
}

/// Returns the key with the heartbeats of clients that have waited for a while.
pub(super) fn wait_of(name: &str) -> String {
    beside(name, "wait")
}

/// Returns the key with the last epoch.
pub(super) fn fence_of(name: &str) -> String {
    beside(name, "fence")
}

/// Returns a key of ours in the slot of `name`: `fp:{TAG}:WHAT:NAME`, with a tag that contains no `}`. The scripts derive one such key from
/// another by replacing the first `}:WHAT:`.
pub(super) fn beside(name: &str, what: &str) -> String {
    match hash_tag(name) {
        None if name.contains('}') => {
            let tag = lock(&TAGS).of(slot(name));
            format!("fp:{{{tag}}}:{what}:{name}")
        }
        tag => format!("fp:{{{}}}:{what}:{name}", tag.unwrap_or(name)),
    }
}

/// Tags for names that cannot be a tag themselves, because a `}` in them would end the tag too early.
static TAGS: LazyLock<Mutex<Tags>> = LazyLock::new(Mutex::default);

/// The smallest number that leads to each slot, as far as known. Finding a certain slot takes about 16,000 numbers, so all numbers found on
/// the way are kept: at most one for each of the 16,384 slots.
#[derive(Default)]
struct Tags {
    of_slot: HashMap<u16, u32>,
    next: u32,
}

impl Tags {
    fn of(&mut self, wanted: u16) -> u32 {
        loop {
            if let Some(tag) = self.of_slot.get(&wanted) {
                return *tag;
            }
            let tag = self.next;
            self.next += 1;
            self.of_slot.entry(slot(&tag.to_string())).or_insert(tag);
        }
    }
}

/// Returns the cluster slot of a key, by the specification: CRC16 (XMODEM) of the hash tag, or of the whole key.
fn slot(key: &str) -> u16 {
    let hashed = hash_tag(key).unwrap_or(key);
    let crc = hashed.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    });
    crc % 16_384
}

/// Returns whether a name begins like our own keys; a lock of such a name could be mistaken for one of them.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.starts_with("fp:{")
}

/// Returns the key with the highest fence that has accessed the value under `key`.
pub(crate) fn gate_of(key: &str) -> String {
    beside(key, "gate")
}

/// Returns what a cluster hashes instead of the whole key: the text between the first `{` and the next `}`, unless it is empty.
fn hash_tag(name: &str) -> Option<&str> {
    let (_, after) = name.split_once('{')?;
    let (tag, _) = after.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// Returns the name whose fence is stored under `key`, or `None` if the key is not a fence.
pub(super) fn name_of_fence(key: &str) -> Option<&str> {
    name_of(key, "fence")
}

pub(super) fn name_of<'a>(key: &'a str, what: &str) -> Option<&'a str> {
    let mark = format!("}}:{what}:");
    // A name may contain the mark itself, so the right position is the one that leads back to the key.
    key.match_indices(&mark)
        .map(|(at, _)| &key[at + mark.len()..])
        .find(|name| beside(name, what) == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_is_the_one_of_the_specification() {
        assert_eq!(slot("123456789"), 0x31c3);
        assert_eq!(slot("{user1000}.following"), slot("{user1000}.followers"));
    }

    #[test]
    fn all_keys_of_a_name_share_its_slot() {
        for name in [
            "deploy",
            "lock:product:42",
            "{shop}:stock",
            "a{b",
            "{}x",
            "a{}{b}",
            "x}y",
        ] {
            for key in [line_of(name), wait_of(name), fence_of(name), gate_of(name)] {
                assert_eq!(slot(&key), slot(name), "{key}");
            }
        }
    }

    #[test]
    fn a_tag_is_looked_for_once() {
        let mut tags = Tags::default();
        let (tag, looked_at) = (tags.of(slot("x}y")), tags.next);
        assert_eq!(slot(&tag.to_string()), slot("x}y"));
        assert_eq!(tag + 1, looked_at, "the smallest, as it always was");
        assert_eq!(tags.of(slot("x}y")), tag);
        assert_eq!(tags.of(slot("0")), 0, "found on the way");
        assert_eq!(tags.next, looked_at, "looked for again");
    }

    #[test]
    fn a_fence_leads_back_to_its_name() {
        for name in ["deploy", "{shop}:stock", "x}:fence:y", "a b/c", "}:fence:"] {
            assert_eq!(name_of_fence(&fence_of(name)), Some(name));
        }
        assert_eq!(name_of_fence("fp:{a}:fence:b"), None);
    }
}
