//! Rights, connections and limits of time.

use fencepost_trial::text::numbers::count;

use super::super::finding::{Finding, Harm};
use super::Kind;
use super::facts::Facts;

/// So many connections one process has at most, by default.
const OURS: i64 = 8;
/// A statement of the table waits so long for somebody's transaction.
const STATEMENT_MS: i64 = 1_000;
/// So much of what a session says about its locks is shown to others by default.
const TRACKED_BYTES: i64 = 1_024;

pub(super) fn judge(facts: &Facts, kind: Kind) -> Vec<Finding> {
    let mut findings = vec![connections(facts, kind)];
    match kind {
        Kind::Advisory => {
            findings.push(rights(facts));
            findings.push(names(facts));
            findings.extend(ignored(facts));
        }
        Kind::Table => {
            findings.extend(read_only(facts));
            findings.extend(time_limits(facts));
        }
    }
    findings
}

fn rights(facts: &Facts) -> Finding {
    let denied = facts.get("denied");
    if denied.is_empty() {
        return Finding::fine("rights", "rights");
    }
    let what = format!("user {} may not call {denied}", facts.user());
    Finding::danger("rights", Harm::NoLocks, what)
        .means("A lock and its fence are made of these: no lock can be taken.")
        .advice(format!(
            "GRANT EXECUTE ON FUNCTION {denied} TO {}",
            facts.user()
        ))
}

fn connections(facts: &Facts, kind: Kind) -> Finding {
    let room = [
        ("of the server", "connections", "connected"),
        ("of the user", "role_limit", "role_connected"),
        ("of the database", "database_limit", "database_connected"),
    ];
    let is_super = facts.get("is_super") == "t";
    let reserved = match is_super {
        true => 0,
        false => facts.number("reserved").unwrap_or_default(),
    };
    let room = room.into_iter().filter_map(|(whose, limit, used)| {
        let limit = facts.number(limit).filter(|limit| *limit >= 0)?;
        let limit = match whose {
            "of the server" => limit - reserved,
            // A superuser is held to no such limit.
            _ if is_super => return None,
            _ => limit,
        };
        Some((limit - facts.number(used)?, limit, whose))
    });
    let Some((left, limit, whose)) = room.min() else {
        return Finding::unknown("connections", "the server does not say how many are left");
    };
    let said = format!(
        "{} of {} connections {whose} are left",
        count(left),
        count(limit)
    );
    let needed = if kind == Kind::Advisory { OURS } else { 1 };
    let finding = if left >= needed {
        Finding::fine("connections", said)
    } else {
        let means = match kind {
            Kind::Advisory => {
                "A process has up to 8, one for each name it holds or waits for. When none is left, no lock can be taken."
            }
            Kind::Table => {
                "A process needs one. When none is left, no lock can be taken or renewed."
            }
        };
        Finding::caution("connections", Harm::Hampered, said)
            .means(means)
            .advice("end connections that nobody needs, or raise the limit")
    };
    finding.figure("left", left).figure("limit", limit)
}

/// `locks list` and `locks show` live on what sessions say about themselves.
fn names(facts: &Facts) -> Finding {
    let bytes = facts.number("track_bytes").unwrap_or(TRACKED_BYTES);
    let what = match facts.get("track_activities") {
        "off" => "track_activities is off".to_owned(),
        _ if bytes < TRACKED_BYTES => format!("track_activity_query_size is {bytes} bytes"),
        _ => return Finding::fine("names", "names of locks are shown"),
    };
    Finding::caution("names", Harm::Hampered, what)
        .means("Locks exclude all the same, but `fencepost locks` shows numbers in place of names.")
        .advice("track_activities = on and track_activity_query_size = 1024 or more")
}

/// What the role has set against runaway statements; said, because people look for it.
fn ignored(facts: &Facts) -> Option<Finding> {
    let set = set_limits(facts);
    let what = format!(
        "{}: not in the sessions of locks, which set their own",
        set.join(", ")
    );
    (!set.is_empty()).then(|| Finding::fine("time limits", what))
}

fn set_limits(facts: &Facts) -> Vec<String> {
    let names = ["statement_timeout", "idle_session_timeout"];
    let set = names.iter().filter_map(|name| {
        let ms = facts.number(name).filter(|ms| *ms > 0)?;
        Some(format!("{name} {} ms", count(ms)))
    });
    let read_only = facts
        .is_read_only()
        .then(|| "default_transaction_read_only".to_owned());
    set.chain(read_only).collect()
}

fn read_only(facts: &Facts) -> Option<Finding> {
    let is_told = facts.is_read_only() && !facts.is_standby();
    is_told.then(|| {
        let what = "transactions here are read-only (default_transaction_read_only)";
        Finding::danger("read-only", Harm::NoLocks, what)
            .means("A lock is a row that is written: none can be taken.")
            .advice(format!(
                "ALTER ROLE {} SET default_transaction_read_only = off, or another user",
                facts.user()
            ))
    })
}

fn time_limits(facts: &Facts) -> Vec<Finding> {
    let limit = |name: &str| facts.number(name).filter(|ms| *ms > 0);
    let mut findings = Vec::new();
    if let Some(ms) = limit("statement_timeout").filter(|ms| *ms < STATEMENT_MS) {
        let what = format!("statement_timeout is {} ms", count(ms));
        findings.push(
            Finding::caution("time limits", Harm::Hampered, what)
                .means("On a busy server a grant or a renewal is cut short, and a lease can end although its holder lives.")
                .advice(format!("ALTER ROLE {} SET statement_timeout = '5s'", facts.user()))
                .figure("limit_ms", ms),
        );
    }
    if let Some(ms) = limit("idle_session_timeout") {
        let what = format!("idle_session_timeout is {} ms", count(ms));
        findings.push(
            Finding::caution("idle sessions", Harm::Hampered, what)
                .means("The server ends our connection while nothing is asked on it; who waits hears of a release only after it is made anew.")
                .advice(format!("ALTER ROLE {} SET idle_session_timeout = 0", facts.user()))
                .figure("limit_ms", ms),
        );
    }
    if findings.is_empty() {
        findings.push(Finding::fine("time limits", "no limits of time"));
    }
    findings
}
