//! What a crash, a power cut or a promotion costs.

use fencepost_trial::text::numbers::plural;

use super::super::finding::{Finding, Harm};
use super::Kind;
use super::facts::Facts;

pub(super) fn judge(facts: &Facts, kind: Kind) -> Vec<Finding> {
    let mut findings = vec![disk(facts, kind)];
    if !facts.is_standby() {
        findings.push(standbys(facts, kind));
        findings.extend((kind == Kind::Advisory).then(restarts));
    }
    findings
}

/// No fault of the server's: nobody is deceived. But whoever plans one wants to know.
fn restarts() -> Finding {
    Finding::fine(
        "restart",
        "every restart of the server frees the advisory locks, and their holders are told",
    )
    .means("Work that must not be interrupted by one needs leases in a table (?table=shedlock), which outlive it.")
}

fn disk(facts: &Facts, kind: Kind) -> Finding {
    let off = ["fsync", "full_page_writes"];
    let off: Vec<&str> = off
        .into_iter()
        .filter(|name| facts.get(name) == "off")
        .collect();
    if off.is_empty() {
        return Finding::fine("persistence", "writes reach the disk (fsync)");
    }
    let means = match kind {
        Kind::Advisory => {
            "A power cut can undo what was told: the fence can fall, and a resource then refuses new holders or lets a late one in."
        }
        Kind::Table => {
            "A power cut can undo what was told, or spoil the database: a lock that is held can be granted again."
        }
    };
    let what = format!("{} off", off.join(" and "));
    Finding::caution("persistence", harm(kind), what)
        .means(means)
        .advice("fsync = on and full_page_writes = on, then pg_ctl reload")
}

/// What is lost when the last commits are: an advisory lock ends with its session anyway, and its holder is told.
fn harm(kind: Kind) -> Harm {
    match kind {
        Kind::Advisory => Harm::FenceFalls,
        Kind::Table => Harm::Forgotten,
    }
}

/// Whether a standby that takes over knows every grant.
fn standbys(facts: &Facts, kind: Kind) -> Finding {
    let count = facts.number("standbys").unwrap_or_default();
    let names = facts.get("synchronous_standbys");
    let commit = facts.get("synchronous_commit");
    // Sessions of advisory locks raise everything to `on`, the table only `off`.
    let is_waited_for = kind == Kind::Advisory || commit != "local";
    let is_synchronous = !names.is_empty() && is_waited_for;
    let waited_for = facts.number("standbys_waited_for").unwrap_or_default();
    let said = plural(count as usize, "standby", "standbys");
    let finding = match (count, is_synchronous) {
        (0, true) => Finding::danger(
            "standbys",
            Harm::NoLocks,
            format!("synchronous_standby_names is '{names}', and none is connected"),
        )
        .means("Every commit waits for one, and so does every grant: it hangs.")
        .advice("start the standby, or empty synchronous_standby_names and reload"),
        (0, false) => Finding::fine("standbys", "no standby"),
        (_, true) if facts.number("standbys_seen") == Some(0) => Finding::unknown(
            "standbys",
            format!(
                "{said}; whether '{names}' means them: the user may not see (pg_read_all_stats)"
            ),
        ),
        (_, true) if waited_for < needed(names) => Finding::danger(
            "standbys",
            Harm::NoLocks,
            format!(
                "{said}, and synchronous_standby_names is '{names}', which means {} of them",
                match waited_for {
                    0 => "none".to_owned(),
                    few => format!("only {few}"),
                }
            ),
        )
        .means(format!(
            "Every commit waits for {}, and so does every grant: it hangs.",
            needed(names)
        ))
        .advice("start the standby that is named, or correct synchronous_standby_names and reload"),
        (_, true) if waited_for == count => {
            Finding::fine("standbys", format!("{said}, synchronous"))
        }
        (_, true) => Finding::fine("standbys", format!("{said}, {waited_for} synchronous")),
        (_, false) => {
            let means = match kind {
                Kind::Advisory => {
                    "A promotion frees every lock. Holders are told, unless the old primary goes on running: then two hold a lock, and the later one has the larger fence."
                }
                Kind::Table => {
                    "A promotion can forget a lock granted just before: then two hold it."
                }
            };
            let what = match names.is_empty() {
                true => format!("{said}, asynchronous"),
                false => format!("{said}, not waited for: synchronous_commit is {commit}"),
            };
            Finding::caution("standbys", Harm::Forgotten, what)
                .means(means)
                .advice("fence the resource; or synchronous_standby_names with more than one standby (with one, its loss stops all writes)")
        }
    };
    finding.figure("replicas", count)
}

/// How many standbys a commit waits for: `FIRST 2 (a, b)`, `ANY 2 (*)`, `2 (a, b)`, or a list, of which it is one.
fn needed(names: &str) -> i64 {
    let Some((before, _)) = names.split_once('(') else {
        return 1;
    };
    let number = before.split_whitespace().next_back();
    number.and_then(|number| number.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::super::super::finding::Severity;
    use super::*;

    fn of(count: &str, names: &str, commit: &str, kind: Kind) -> Severity {
        let facts = Facts::of(&[
            ("standbys", count),
            ("synchronous_standbys", names),
            ("synchronous_commit", commit),
            ("standbys_seen", count),
            (
                "standbys_waited_for",
                if names.is_empty() { "0" } else { count },
            ),
        ]);
        standbys(&facts, kind).severity
    }

    #[test]
    fn a_standby_that_is_not_named_is_not_waited_for() {
        let of = |count, names, seen, waited_for| {
            let facts = Facts::of(&[
                ("standbys", count),
                ("synchronous_standbys", names),
                ("synchronous_commit", "on"),
                ("standbys_seen", seen),
                ("standbys_waited_for", waited_for),
            ]);
            standbys(&facts, Kind::Advisory).severity
        };
        assert_eq!(of("1", "nosuch", "1", "0"), Severity::Danger);
        assert_eq!(of("2", "a", "2", "1"), Severity::Fine);
        assert_eq!(of("2", "FIRST 2 (a, b)", "2", "1"), Severity::Danger);
        assert_eq!(of("2", "ANY 1 (a, b)", "2", "2"), Severity::Fine);
        assert_eq!(of("1", "2(a, b)", "1", "1"), Severity::Danger);
        assert_eq!(of("1", "a", "0", "0"), Severity::Unknown);
    }

    #[test]
    fn only_a_standby_that_is_waited_for_knows_every_grant() {
        for (count, names, commit, kind, severity) in [
            ("0", "", "on", Kind::Advisory, Severity::Fine),
            ("1", "", "on", Kind::Table, Severity::Caution),
            ("1", "*", "on", Kind::Table, Severity::Fine),
            ("1", "*", "local", Kind::Table, Severity::Caution),
            ("1", "*", "off", Kind::Table, Severity::Fine),
            ("1", "*", "off", Kind::Advisory, Severity::Fine),
            ("1", "*", "local", Kind::Advisory, Severity::Fine),
            ("1", "", "on", Kind::Advisory, Severity::Caution),
            ("0", "*", "on", Kind::Advisory, Severity::Danger),
        ] {
            assert_eq!(
                of(count, names, commit, kind),
                severity,
                "{count} {names} {commit}"
            );
        }
    }
}
