//! What a crash, a power cut or a promotion costs.

use fencepost_trial::report::numbers::plural;

use super::super::finding::{Finding, Harm};
use super::Kind;
use super::facts::Facts;

pub(super) fn judge(facts: &Facts, kind: Kind) -> Vec<Finding> {
    let mut findings = vec![disk(facts, kind)];
    if !facts.is_standby() {
        findings.push(standbys(facts, kind));
    }
    findings
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
    Finding::caution("persistence", Harm::Forgotten, what)
        .means(means)
        .advice("fsync = on and full_page_writes = on, then pg_ctl reload")
}

/// Whether a standby that takes over knows every grant.
fn standbys(facts: &Facts, kind: Kind) -> Finding {
    let count = facts.number("standbys").unwrap_or_default();
    let names = facts.get("synchronous_standbys");
    let commit = facts.get("synchronous_commit");
    // Both kinds of lock raise `off`: advisory locks to `local`, the table to `on`.
    let is_waited_for = match commit {
        "local" => false,
        "off" => kind == Kind::Table,
        _ => true,
    };
    let is_synchronous = !names.is_empty() && is_waited_for;
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
        (_, true) => Finding::fine("standbys", format!("{said}, synchronous")),
        (_, false) => {
            let means = match kind {
                Kind::Advisory => {
                    "A promotion frees every lock (holders are told), and the fence can fall behind what resources have seen."
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

#[cfg(test)]
mod tests {
    use super::super::super::finding::Severity;
    use super::*;

    fn of(count: &str, names: &str, commit: &str, kind: Kind) -> Severity {
        let facts = Facts::of(&[
            ("standbys", count),
            ("synchronous_standbys", names),
            ("synchronous_commit", commit),
        ]);
        standbys(&facts, kind).severity
    }

    #[test]
    fn only_a_standby_that_is_waited_for_knows_every_grant() {
        for (count, names, commit, kind, severity) in [
            ("0", "", "on", Kind::Advisory, Severity::Fine),
            ("1", "", "on", Kind::Table, Severity::Caution),
            ("1", "*", "on", Kind::Table, Severity::Fine),
            ("1", "*", "local", Kind::Table, Severity::Caution),
            ("1", "*", "off", Kind::Table, Severity::Fine),
            ("1", "*", "off", Kind::Advisory, Severity::Caution),
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
