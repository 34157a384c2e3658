//! Postgres standbys: whether one that is promoted knows every grant.

use fencepost_trial::text::numbers::plural;

use super::super::readings::{Kind, Readings};

/// The standbys of a primary, and how many of them a commit waits for.
pub(super) struct Standbys<'a> {
    pub(super) count: i64,
    names: &'a str,
    commit: &'a str,
    is_synchronous: bool,
    waited_for: i64,
    /// How many standbys may confirm commits, now or after another one fails.
    able: i64,
    /// Whether this user may see which standbys are synchronous.
    is_seen: bool,
}

impl<'a> Standbys<'a> {
    pub(super) fn of(read: &'a Readings) -> Self {
        let facts = &read.facts;
        let names = facts.get("synchronous_standbys");
        let commit = facts.get("synchronous_commit");
        // Sessions of advisory locks raise every lower `synchronous_commit` to `on`; the table raises only `off`.
        let is_waited_for = read.kind == Kind::Advisory || commit != "local";
        let waited_for = facts.number("standbys_waited_for").unwrap_or_default();
        Self {
            count: facts.number("standbys").unwrap_or_default(),
            names,
            commit,
            is_synchronous: !names.is_empty() && is_waited_for,
            waited_for,
            able: facts.number("standbys_able").unwrap_or(waited_for),
            is_seen: facts.number("standbys_seen") != Some(0),
        }
    }

    fn said(&self) -> String {
        plural(self.count as usize, "standby", "standbys")
    }

    /// Synchronous standbys are configured, but none is connected.
    pub(super) fn absent(&self) -> Option<String> {
        let is_absent = self.is_synchronous && self.count == 0;
        let names = self.names;
        is_absent.then(|| format!("synchronous_standby_names is '{names}', and none is connected"))
    }

    /// Describes that the user may not see whether the connected standbys are the configured ones.
    pub(super) fn unseen(&self) -> Option<String> {
        let (said, names) = (self.said(), self.names);
        (self.is_synchronous && !self.is_seen).then(|| {
            format!(
                "{said}; the user may not see whether '{names}' includes them (needs pg_read_all_stats)"
            )
        })
    }

    pub(super) fn too_few(&self) -> Option<String> {
        if !self.is_synchronous || self.waited_for >= self.needed() {
            return None;
        }
        let few = match self.waited_for {
            0 => "none".to_owned(),
            few => format!("only {few}"),
        };
        let (said, names) = (self.said(), self.names);
        Some(format!(
            "{said}, and synchronous_standby_names is '{names}', which includes {few} of them"
        ))
    }

    /// Describes that more standbys can confirm a commit than are needed. If one of them is promoted, the others can still confirm the
    /// commits of the old primary.
    pub(super) fn more_than_needed(&self) -> Option<String> {
        let (able, needed, names) = (self.able, self.needed(), self.names);
        let is_more = self.is_synchronous && self.waited_for.max(able) > needed;
        is_more.then(|| {
            format!("{able} standbys can confirm a commit, but a commit needs only {needed}: synchronous_standby_names is '{names}'")
        })
    }

    /// Returns how to make every commit wait for all standbys that may be promoted.
    pub(super) fn wait_for_all(&self) -> String {
        let able = self.able;
        format!(
            "make every commit wait for all standbys that may be promoted: synchronous_standby_names = 'FIRST {able} (…)'; or make sure that an old primary is stopped before a promotion"
        )
    }

    pub(super) fn synchronous(&self) -> Option<String> {
        let said = self.said();
        self.is_synchronous.then(|| {
            if self.waited_for == self.count {
                format!("{said}, synchronous")
            } else {
                format!("{said}, {} synchronous", self.waited_for)
            }
        })
    }

    pub(super) fn asynchronous(&self) -> String {
        let said = self.said();
        if self.names.is_empty() {
            format!("{said}, asynchronous")
        } else {
            format!(
                "{said}, not waited for: synchronous_commit is {}",
                self.commit
            )
        }
    }

    /// Returns how many standbys a commit waits for.
    pub(super) fn needed(&self) -> i64 {
        needed(self.names)
    }
}

/// Returns how many standbys a commit waits for: `FIRST 2 (a, b)`, `ANY 2 (*)`, `2 (a, b)`, or 1 for a plain list.
fn needed(names: &str) -> i64 {
    let Some((before, _)) = names.split_once('(') else {
        return 1;
    };
    let number = before.split_whitespace().next_back();
    number.and_then(|number| number.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::super::super::super::finding::Severity;
    use super::super::super::super::rules::apply;
    use super::super::super::facts::Facts;
    use super::super::CHECKS;
    use super::*;

    fn severity(facts: Facts, kind: Kind) -> Severity {
        let readings = Readings {
            kind,
            facts,
            trial: None,
            takes_transaction_ids: false,
            samples: Vec::new(),
        };
        let mut findings = apply(CHECKS, &readings).into_iter();
        let found = findings.find(|finding| finding.topic == "standbys");
        found.unwrap().severity
    }

    fn of(count: &str, names: &str, commit: &str, kind: Kind) -> Severity {
        let facts = Facts::of(&[
            ("version_number", "150000"),
            ("standbys", count),
            ("synchronous_standbys", names),
            ("synchronous_commit", commit),
            ("standbys_seen", count),
            (
                "standbys_waited_for",
                if names.is_empty() { "0" } else { count },
            ),
        ]);
        severity(facts, kind)
    }

    #[test]
    fn a_standby_that_is_not_named_is_not_waited_for() {
        let of = |count, names, seen, waited_for| {
            let facts = Facts::of(&[
                ("version_number", "150000"),
                ("standbys", count),
                ("synchronous_standbys", names),
                ("synchronous_commit", "on"),
                ("standbys_seen", seen),
                ("standbys_waited_for", waited_for),
            ]);
            severity(facts, Kind::Advisory)
        };
        assert_eq!(of("1", "nosuch", "1", "0"), Severity::Danger);
        assert_eq!(of("2", "a", "2", "1"), Severity::Fine);
        assert_eq!(of("2", "FIRST 2 (a, b)", "2", "1"), Severity::Danger);
        assert_eq!(of("2", "ANY 1 (a, b)", "2", "2"), Severity::Caution);
        assert_eq!(of("2", "ANY 2 (a, b)", "2", "2"), Severity::Fine);
        assert_eq!(of("1", "2(a, b)", "1", "1"), Severity::Danger);
        assert_eq!(of("1", "a", "0", "0"), Severity::Unknown);
    }

    #[test]
    fn a_standby_whose_confirmation_is_not_needed_can_confirm_for_an_old_primary() {
        let of = |names, waited_for, able| {
            let facts = Facts::of(&[
                ("version_number", "150000"),
                ("standbys", "2"),
                ("synchronous_standbys", names),
                ("synchronous_commit", "on"),
                ("standbys_seen", "2"),
                ("standbys_waited_for", waited_for),
                ("standbys_able", able),
            ]);
            severity(facts, Kind::Advisory)
        };
        assert_eq!(of("FIRST 1 (a, b)", "1", "2"), Severity::Caution);
        assert_eq!(of("a, b", "1", "2"), Severity::Caution);
        assert_eq!(of("FIRST 2 (a, b)", "2", "2"), Severity::Fine);
        assert_eq!(of("a", "1", "1"), Severity::Fine);
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
