//! Where a lock's name is in ZooKeeper's tree, and who of those below it stands in line.

use std::fmt::Write;

use crate::claim::{LockName, OwnerId};
use crate::stores::kit::percent;

/// What stands before the sequence number in nodes that Curator's `InterProcessMutex` makes, and in ours.
const CURATOR_MARK: &str = "lock-";
/// The same in those of kazoo's `Lock`.
const KAZOO_MARK: &str = "__lock__";
/// The digits of a sequence number.
const SEQUENCE_DIGITS: usize = 10;

/// The node below which those who want `name` stand in line: one level below `base`.
///
/// A name is its own path, as Curator and kazoo would have it, except for what a path cannot hold: `/`, `%`, the names `.` and `..`
/// and the characters that ZooKeeper refuses are written as `%` and two hexadecimal digits for each of their bytes. At the
/// root of the tree so is the first letter of `zookeeper`, where the server keeps things of its own.
pub(super) fn folder_of(base: &str, name: &LockName) -> String {
    let mut path = String::with_capacity(base.len() + name.as_str().len() + 1);
    path.push_str(base);
    path.push('/');
    path.push_str(&segment_of(name.as_str(), base.is_empty()));
    path
}

fn segment_of(name: &str, at_root: bool) -> String {
    let whole = matches!(name, "." | "..") || (at_root && name == "zookeeper");
    let mut segment = String::with_capacity(name.len());
    for (at, character) in name.char_indices() {
        if (whole && at == 0) || is_refused(character) {
            escape(character, &mut segment);
        } else {
            segment.push(character);
        }
    }
    segment
}

/// Java's surrogates are among the refused, and with them everything beyond the basic plane.
fn is_refused(character: char) -> bool {
    matches!(character, '/' | '%' | '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

fn escape(character: char, into: &mut String) {
    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
        // Writing to a string cannot fail.
        let _ = write!(into, "%{byte:02X}");
    }
}

/// The lock's name that a node below `base` stands for; the node's own where it is no name of ours.
pub(super) fn name_of(segment: &str, at_root: bool) -> String {
    let name = percent::decode(segment);
    let name = name.filter(|name| segment_of(name, at_root) == segment);
    name.unwrap_or_else(|| segment.to_owned())
}

/// How the node of this owner begins: `_c_UUID-lock-`. The server adds the sequence number.
pub(super) fn prefix_of(owner: OwnerId) -> String {
    let hex = owner.to_string();
    format!(
        "_c_{}-{}-{}-{}-{}-{CURATOR_MARK}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// Whose node this is, if it was made as ours are.
pub(super) fn owner_of(node: &str) -> Option<OwnerId> {
    let guid = node.strip_prefix("_c_")?.get(..36)?;
    let owner: OwnerId = guid.replace('-', "").parse().ok()?;
    node.starts_with(&prefix_of(owner)).then_some(owner)
}

/// One who holds the lock or waits for it: a child of the lock's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contender {
    /// The order of these is the order of arrival.
    sequence: u32,
    pub(super) node: String,
}

impl Contender {
    fn read(node: &str) -> Option<u32> {
        let at = node.len().checked_sub(SEQUENCE_DIGITS)?;
        let (before, sequence) = node.split_at_checked(at)?;
        let is_marked = before.ends_with(CURATOR_MARK) || before.ends_with(KAZOO_MARK);
        let digits = sequence.bytes().all(|byte| byte.is_ascii_digit());
        (is_marked && digits).then(|| sequence.parse().ok())?
    }

    pub(super) fn is_of(&self, owner: OwnerId) -> bool {
        owner_of(&self.node) == Some(owner)
    }
}

/// Those in line among the children of a lock's folder, the first one first.
pub(super) fn line(children: Vec<String>) -> Vec<Contender> {
    let read = |node: String| Some((Contender::read(&node)?, node));
    let mut line: Vec<Contender> = children
        .into_iter()
        .filter_map(read)
        .map(|(sequence, node)| Contender { sequence, node })
        .collect();
    line.sort_by(|a, b| (a.sequence, &a.node).cmp(&(b.sequence, &b.node)));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;
    use proptest::prelude::*;

    fn folder(base: &str, name: &str) -> String {
        folder_of(base, &LockName::new(name).unwrap())
    }

    #[test]
    fn a_plain_name_is_its_own_path() {
        for name in ["orders", "lock:product:42", "a b", "ключ", "nightly.report"] {
            assert_eq!(folder("/locks", name), format!("/locks/{name}"));
        }
    }

    #[test]
    fn what_a_path_cannot_hold_is_escaped() {
        for (name, path) in [
            ("a/b", "/locks/a%2Fb"),
            ("100%", "/locks/100%25"),
            (".", "/locks/%2E"),
            ("..", "/locks/%2E."),
            ("🔒", "/locks/%F0%9F%94%92"),
            ("\u{e000}", "/locks/%EE%80%80"),
        ] {
            assert_eq!(folder("/locks", name), path);
        }
        assert_eq!(folder("", "zookeeper"), "/%7Aookeeper");
        assert_eq!(folder("/a", "zookeeper"), "/a/zookeeper");
    }

    #[test]
    fn names_of_others_stay_as_they_are() {
        for segment in ["a%zz", "a%2f", "%41", "%"] {
            assert_eq!(name_of(segment, false), segment);
        }
    }

    #[test]
    fn the_line_is_in_order_of_arrival_whoever_made_the_nodes() {
        let owner = OwnerId::random(&SeededRandom::new(3));
        let ours = format!("{}0000000011", prefix_of(owner));
        let curator = "_c_00000000-0000-0000-0000-0000000000ff-lock-0000000009";
        let kazoo = "5fd0ab6c3d__lock__0000000010";
        let children = [&ours, curator, "leases", kazoo, "lock-12", "x-0000000001"];
        let line = line(children.iter().map(|node| (*node).to_owned()).collect());
        let nodes: Vec<&str> = line.iter().map(|contender| &*contender.node).collect();
        assert_eq!(nodes, [curator, kazoo, &ours]);
        assert!(line[2].is_of(owner) && !line[0].is_of(owner));
        assert_eq!(owner_of(&ours), Some(owner));
        assert_eq!(owner_of(kazoo), None);
    }

    proptest! {
        #[test]
        fn every_name_has_a_path_of_its_own(name in "\\PC{1,60}", other in "\\PC{1,60}") {
            let (Ok(name), Ok(other)) = (LockName::new(&name), LockName::new(&other)) else {
                return Ok(());
            };
            let path = folder_of("/base", &name);
            let segment = path.strip_prefix("/base/").unwrap();
            prop_assert!(!segment.contains('/') && segment != "." && segment != "..");
            prop_assert_eq!(name_of(segment, false), name.as_str());
            prop_assert_eq!(path == folder_of("/base", &other), name == other);
        }
    }
}
