//! What a session publishes about its locks, so that `list` and people can find their names.
//!
//! `pg_locks` contains only numbers and processes. Every statement of a session therefore begins with a comment that names the locks that
//! it holds or asks for; `pg_stat_activity` shows the last statement of each session. The fence is known only after that statement, so it
//! is in `application_name` together with the owner, until the next statement.
//!
//! The server keeps 1,024 bytes of a statement (`track_activity_query_size`), and shows them to the same role, to superusers and to members
//! of `pg_read_all_stats`.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Claim, OwnerId};
use crate::stores::kit::percent;

const OPENING: &str = "/*fencepost ";
/// The longest comment that fits into the default size, with some room for the statement itself.
const LONGEST: usize = 900;
/// The shortest entry for a lock: a name of one letter, the owner, and the separators.
const SHORTEST_LOCK: usize = 40;
/// The longest label; host and process take less.
const LONGEST_LABEL: usize = 120;
/// The longest part of `application_name` for the program: the server keeps 63 bytes, and the rest takes 51.
const LONGEST_PROGRAM: usize = 12;

/// The epoch of a grant, and when it was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GrantedAt {
    pub(super) epoch: u64,
    /// The time on the server's clock, in milliseconds since 1970.
    pub(super) at_ms: u64,
}

/// The published data of one lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PublishedLock {
    pub(super) name: String,
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    /// When the lock was granted, or `None` if the statement itself asks for the lock.
    pub(super) since: Option<GrantedAt>,
    pub(super) label: Arc<str>,
}

impl PublishedLock {
    pub(super) fn of(claim: &Claim, since: Option<GrantedAt>) -> Self {
        Self {
            name: claim.name.as_str().to_owned(),
            owner: claim.owner,
            ttl: claim.ttl,
            since,
            label: claim.label.clone(),
        }
    }

    /// Returns name, owner, TTL in ms, epoch, start and label.
    fn write(&self) -> String {
        let (epoch, at_ms) = match self.since {
            Some(since) => (since.epoch.to_string(), since.at_ms.to_string()),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let ttl_ms = self.ttl.as_millis();
        format!(
            "{} {} {ttl_ms} {epoch} {at_ms} {}",
            encode(&self.name, usize::MAX),
            self.owner,
            encode(&self.label, LONGEST_LABEL),
        )
    }

    fn read(text: &str) -> Option<Self> {
        let mut fields = text.split(' ');
        let name = decode(fields.next()?)?;
        let owner = fields.next()?.parse().ok()?;
        let ttl = Duration::from_millis(fields.next()?.parse().ok()?);
        let (epoch, at_ms) = (fields.next()?, fields.next()?);
        let since = epoch.parse().ok().zip(at_ms.parse().ok());
        Some(Self {
            name,
            owner,
            ttl,
            since: since.map(|(epoch, at_ms)| GrantedAt { epoch, at_ms }),
            label: decode(fields.next()?)?.into(),
        })
    }
}

/// Returns the comment before a statement, or an empty text without locks. Locks that do not fit are left out; once no further lock can
/// fit, the iterator is not read any further.
pub(super) fn comment(locks: impl Iterator<Item = PublishedLock>) -> String {
    let mut text = String::new();
    for lock in locks {
        let written = lock.write();
        if text.is_empty() {
            text = format!("{OPENING}{written}");
        } else if text.len() + written.len() < LONGEST {
            let _infallible = write!(text, ";{written}");
        }
        if text.len() + SHORTEST_LOCK >= LONGEST {
            break;
        }
    }
    if !text.is_empty() {
        text.push_str("*/ ");
    }
    text
}

/// Parses the comment of a statement. Returns nothing if the statement is not ours.
pub(super) fn read(statement: &str) -> Vec<PublishedLock> {
    let Some(text) = statement.strip_prefix(OPENING) else {
        return Vec::new();
    };
    // A server that keeps less of a statement than usual may have truncated the comment, so its last part cannot be trusted.
    let (whole, cut) = match text.split_once("*/") {
        Some((whole, _)) => (whole, false),
        None => (text, true),
    };
    let parts: Vec<&str> = whole.split(';').collect();
    let trusted = parts.len() - usize::from(cut);
    parts[..trusted]
        .iter()
        .filter_map(|part| PublishedLock::read(part))
        .collect()
}

/// Returns the beginning of `application_name`: as much of the program's name as fits.
pub(super) fn program(name: &str) -> String {
    encode(name, LONGEST_PROGRAM)
}

/// Parses the fence and the owner of the lock that was granted last from `application_name`.
pub(super) fn newest(application_name: &str) -> Option<(u64, OwnerId)> {
    let mut words = application_name.rsplit(' ');
    let owner = words.next()?.parse().ok()?;
    let epoch = words.next()?.parse().ok()?;
    Some((epoch, owner))
}

/// Returns `application_name` without the fence and the owner.
pub(super) fn program_of(application_name: &str) -> &str {
    match newest(application_name) {
        Some(_) => application_name.rsplitn(3, ' ').nth(2).unwrap_or(""),
        None => application_name,
    }
}

/// Encodes a text so that it cannot end a comment or a string. Letters, digits and a few other characters stay; all other bytes become
/// `%2F` and the like.
fn encode(text: &str, longest: usize) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b":._-@#+".contains(&byte);
        let length = if plain { 1 } else { 3 };
        if encoded.len() + length > longest {
            break;
        }
        let _infallible = if plain {
            write!(encoded, "{}", char::from(byte))
        } else {
            write!(encoded, "%{byte:02X}")
        };
    }
    encoded
}

fn decode(text: &str) -> Option<String> {
    // A label may have been truncated in the middle of a character.
    percent::decode_bytes(text).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    fn published(name: &str, since: Option<GrantedAt>) -> PublishedLock {
        PublishedLock {
            name: name.to_owned(),
            owner: OwnerId::random(&SeededRandom::new(name.len() as u64)),
            ttl: Duration::from_secs(30),
            since,
            label: "ci-7:2210".into(),
        }
    }

    #[test]
    fn what_is_published_is_read_again() {
        let since = GrantedAt {
            epoch: 742,
            at_ms: 1_700_000_000_000,
        };
        let locks = [
            published("stock", None),
            published("*/ drop table t; -- ключ 🔒", Some(since)),
            published("'", Some(since)),
        ];
        let statement = format!("{}select 1", comment(locks.iter().cloned()));
        assert_eq!(read(&statement), locks);
        assert_eq!(statement.matches("*/").count(), 1);
        assert!(!statement.contains('\''));
    }

    #[test]
    fn what_was_cut_off_is_not_guessed() {
        let locks = [published("stock", None), published("orders", None)];
        let statement = comment(locks.iter().cloned());
        for cut in 0..statement.len() {
            let found = read(&statement[..cut]);
            assert!(found.iter().all(|lock| locks.contains(lock)), "{found:?}");
        }
        assert!(read("select 1").is_empty());
        assert!(read("/* fencepost */ select 1").is_empty());
    }

    #[test]
    fn the_longest_name_fits_and_further_locks_do_not_push_it_out() {
        let long = published(&"é".repeat(127), None);
        let others: Vec<PublishedLock> = (0..20)
            .map(|at| published(&format!("n{at}"), None))
            .collect();
        let statement = comment(std::iter::once(&long).chain(&others).cloned());
        assert!(statement.len() < 1000, "{}", statement.len());
        assert_eq!(read(&statement)[0], long);
    }

    #[test]
    fn the_application_name_carries_the_newest_fence() {
        let owner = OwnerId::random(&SeededRandom::new(1));
        let name = format!(
            "{}/2 {} {owner}",
            program("a program: with a long name"),
            (1_u64 << 47) - 1
        );
        assert!(name.len() <= 63, "{name}");
        assert_eq!(newest(&name), Some(((1 << 47) - 1, owner)));
        assert_eq!(program_of(&name), "a%20program:/2");
        assert_eq!(newest("psql"), None);
        assert_eq!(program_of("psql"), "psql");
        assert_eq!(newest(""), None);
    }
}
