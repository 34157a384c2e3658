//! Maps lock names to nodes in ZooKeeper's tree, and orders the contenders below a node.

use std::fmt::Write;

use crate::backend::records::RecordKey;
use crate::claim::{LockName, OwnerId};
use crate::stores::kit::percent;

/// The text before the sequence number in the nodes of Curator's `InterProcessMutex`, and in those of our locks.
const LOCK_MARK: &str = "lock-";
/// The text before the sequence number in the nodes of Curator's `LeaderLatch`.
const LATCH_MARK: &str = "latch-";
/// The text before the sequence number in the nodes of kazoo's `Lock` and `Election`.
const KAZOO_MARK: &str = "__lock__";
/// The number of digits of a sequence number.
const SEQUENCE_DIGITS: usize = 10;

/// Returns the node below which the contenders for `name` stand in line: one level below `base`.
///
/// A name is its own path, as in Curator and kazoo, except for what a path cannot contain: `/`, `%`, the names `.` and `..` and the
/// characters that ZooKeeper refuses are written as `%` and two hexadecimal digits per byte. At the root of the tree, the first letter of
/// `zookeeper` is encoded as well, because the server uses that node itself.
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

/// Returns whether ZooKeeper refuses the character. This includes Java's surrogates, and with them everything beyond the basic plane.
fn is_refused(character: char) -> bool {
    matches!(character, '/' | '%' | '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

fn escape(character: char, into: &mut String) {
    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
        // Writing to a string cannot fail.
        let _ = write!(into, "%{byte:02X}");
    }
}

/// Returns the lock name for a node below `base`, or the node's own name if it is not an encoded name of ours.
pub(super) fn name_of(segment: &str, at_root: bool) -> String {
    let name = percent::decode(segment);
    let name = name.filter(|name| segment_of(name, at_root) == segment);
    name.unwrap_or_else(|| segment.to_owned())
}

/// The folder of all records. No lock has this folder: in the folder of a lock, two hexadecimal digits follow a `%`.
const RECORDS: &str = "%records";

/// Returns the node below which all records are.
pub(super) fn records_root(base: &str) -> String {
    format!("{base}/{RECORDS}")
}

/// Returns the node of a record.
pub(super) fn record_node(base: &str, key: &RecordKey) -> String {
    let segment = segment_of(key.name.as_str(), false);
    format!("{}/{}/{segment}", records_root(base), key.kind.as_str())
}

/// Returns the lock name for a node of a record, or `None` if it is not ours.
pub(super) fn record_name(segment: &str) -> Option<LockName> {
    let name = percent::decode(segment)?;
    let is_ours = segment_of(&name, false) == segment;
    is_ours.then(|| LockName::new(&name).ok())?
}

/// The form of a node: what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A lock, of this library or of Curator: `_c_UUID-lock-SEQUENCE`.
    Lock,
    /// A candidate in an election, as Curator's `LeaderLatch` has it: `_c_UUID-latch-SEQUENCE`.
    Latch,
    /// A candidate or a lock of kazoo: `HEX__lock__SEQUENCE`.
    Kazoo,
}

impl Form {
    fn of(before_sequence: &str) -> Option<Self> {
        let marks = [
            (LOCK_MARK, Self::Lock),
            (LATCH_MARK, Self::Latch),
            (KAZOO_MARK, Self::Kazoo),
        ];
        let found = marks
            .into_iter()
            .find(|(mark, _)| before_sequence.ends_with(mark));
        found.map(|(_, form)| form)
    }
}

/// Returns the beginning of this owner's node. The server appends the sequence number.
pub(super) fn prefix_of(owner: OwnerId, form: Form) -> String {
    let hex = owner.to_string();
    let mark = match form {
        Form::Kazoo => return hex + KAZOO_MARK,
        Form::Lock => LOCK_MARK,
        Form::Latch => LATCH_MARK,
    };
    format!(
        "_c_{}-{}-{}-{}-{}-{mark}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// Returns the owner of the node, if it has one of the forms of our nodes.
pub(super) fn owner_of(node: &str) -> Option<OwnerId> {
    let (owner, forms): (OwnerId, &[Form]) = match node.strip_prefix("_c_") {
        Some(rest) => {
            let guid = rest.get(..36)?.replace('-', "");
            (guid.parse().ok()?, &[Form::Lock, Form::Latch])
        }
        None => (node.get(..32)?.parse().ok()?, &[Form::Kazoo]),
    };
    let is_of = |form: &Form| node.starts_with(&prefix_of(owner, *form));
    forms.iter().any(is_of).then_some(owner)
}

/// A client that holds the lock or waits for it: a child of the lock's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contender {
    /// The sequence number; its order is the order of arrival.
    sequence: u32,
    pub(super) form: Form,
    pub(super) node: String,
}

impl Contender {
    fn read(node: &str) -> Option<(u32, Form)> {
        let at = node.len().checked_sub(SEQUENCE_DIGITS)?;
        let (before, sequence) = node.split_at_checked(at)?;
        let digits = sequence.bytes().all(|byte| byte.is_ascii_digit());
        let sequence = digits.then(|| sequence.parse().ok())??;
        Some((sequence, Form::of(before)?))
    }

    pub(super) fn is_of(&self, owner: OwnerId) -> bool {
        owner_of(&self.node) == Some(owner)
    }
}

/// Returns the contenders among the children of a lock's folder, the first one first.
pub(super) fn line(children: Vec<String>) -> Vec<Contender> {
    let read = |node: String| Some((Contender::read(&node)?, node));
    let mut line: Vec<Contender> = children
        .into_iter()
        .filter_map(read)
        .map(|((sequence, form), node)| Contender {
            sequence,
            form,
            node,
        })
        .collect();
    line.sort_by(|a, b| (a.sequence, &a.node).cmp(&(b.sequence, &b.node)));
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::records::RecordKind;
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
    fn no_lock_has_the_folder_of_the_records() {
        // What a lock of this name would have is not what its folder is read back as.
        assert_eq!(name_of(RECORDS, false), RECORDS);
        assert_ne!(folder("/locks", RECORDS), records_root("/locks"));
        assert_eq!(record_name("%zz"), None);
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
        let ours = format!("{}0000000011", prefix_of(owner, Form::Lock));
        let curator = "_c_00000000-0000-0000-0000-0000000000ff-lock-0000000009";
        let kazoo = "5fd0ab6c3d__lock__0000000010";
        let latch = "_c_00000000-0000-0000-0000-0000000000fe-latch-0000000012";
        let children = [
            &ours,
            curator,
            "leases",
            latch,
            kazoo,
            "lock-12",
            "x-0000000001",
        ];
        let line = line(children.iter().map(|node| (*node).to_owned()).collect());
        let nodes: Vec<&str> = line.iter().map(|contender| &*contender.node).collect();
        assert_eq!(nodes, [curator, kazoo, &ours, latch]);
        assert!(line[2].is_of(owner) && !line[0].is_of(owner));
        assert_eq!(owner_of(&ours), Some(owner));
        assert_eq!(owner_of(kazoo), None);
    }

    #[test]
    fn a_node_of_ours_is_found_whatever_it_stands_for() {
        let owner = OwnerId::random(&SeededRandom::new(3));
        for form in [Form::Lock, Form::Latch, Form::Kazoo] {
            let node = format!("{}0000000011", prefix_of(owner, form));
            let line = line(vec![node]);
            assert!(line[0].is_of(owner), "{line:?}");
            assert_eq!(line[0].form, form);
        }
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
            prop_assert_ne!(segment, RECORDS);
            let key = RecordKey { kind: RecordKind::Runs, name };
            let node = record_node("/base", &key);
            let segment = node.strip_prefix("/base/%records/runs/").unwrap();
            prop_assert!(!segment.contains('/'));
            prop_assert_eq!(record_name(segment), Some(key.name));
        }
    }
}
