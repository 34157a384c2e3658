//! Limits of Postgres that matter for locks: connections that are left, timeouts, and how much of a query is tracked.

use fencepost_trial::text::numbers::count;

use super::super::facts::Facts;
use super::super::readings::{Kind, Readings};

/// How many connections one process opens at most, by default.
const OURS: i64 = 8;
/// How long a statement on the table waits for another transaction.
const STATEMENT_MS: i64 = 1_000;
/// How many bytes of a query Postgres shows to others by default; the sessions describe their locks there.
const TRACKED_BYTES: i64 = 1_024;

/// How many connections are left, and under which limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Room {
    pub(super) left: i64,
    pub(super) limit: i64,
    whose: &'static str,
}

impl Room {
    pub(super) fn is_enough(&self, kind: Kind) -> bool {
        let needed = if kind == Kind::Advisory { OURS } else { 1 };
        self.left >= needed
    }

    pub(super) fn said(&self) -> String {
        let (left, limit) = (count(self.left), count(self.limit));
        format!("{left} of {limit} connections {} are left", self.whose)
    }
}

/// Returns the tightest of the limits of the server, the user and the database.
pub(super) fn room(read: &Readings) -> Option<Room> {
    let facts = &read.facts;
    let is_super = facts.get("is_super") == "t";
    let reserved = if is_super {
        0
    } else {
        facts.number("reserved").unwrap_or_default()
    };
    let room = |whose, limit: &str, used: &str, reserved: i64| {
        let limit = facts.number(limit).filter(|limit| *limit >= 0)? - reserved;
        let left = limit - facts.number(used)?;
        Some(Room { left, limit, whose })
    };
    let of_server = room("of the server", "connections", "connected", reserved);
    let of_user = room("of the user", "role_limit", "role_connected", 0);
    let of_database = room("of the database", "database_limit", "database_connected", 0);
    // Only the server's limit applies to a superuser.
    let held = [of_user, of_database].into_iter().filter(|_| !is_super);
    held.chain([of_server]).flatten().min()
}

/// Returns why `fencepost locks` cannot show the names of locks; `None` if it can.
pub(super) fn untracked(read: &Readings) -> Option<String> {
    let bytes = read.facts.number("track_bytes").unwrap_or(TRACKED_BYTES);
    match read.facts.get("track_activities") {
        "off" => Some("track_activities is off".to_owned()),
        _ if bytes < TRACKED_BYTES => Some(format!("track_activity_query_size is {bytes} bytes")),
        _ => None,
    }
}

fn limit_ms(facts: &Facts, name: &str) -> Option<i64> {
    facts.number(name).filter(|ms| *ms > 0)
}

/// Returns the limits that are set for the role, in words.
pub(super) fn set(facts: &Facts) -> Vec<String> {
    let names = ["statement_timeout", "idle_session_timeout"].into_iter();
    let set = names.filter_map(|name| {
        let ms = limit_ms(facts, name)?;
        Some(format!("{name} {} ms", count(ms)))
    });
    let read_only = facts
        .is_read_only()
        .then(|| "default_transaction_read_only".to_owned());
    set.chain(read_only).collect()
}

/// Returns `statement_timeout` in ms, if it is too short.
pub(super) fn short_statements(read: &Readings) -> Option<i64> {
    limit_ms(&read.facts, "statement_timeout").filter(|ms| *ms < STATEMENT_MS)
}

/// Returns `idle_session_timeout` in ms, if it is set.
pub(super) fn idle(read: &Readings) -> Option<i64> {
    limit_ms(&read.facts, "idle_session_timeout")
}
