//! The label of a bad row: why a lock was convicted in a scenario, as far as a comparison with the reference lock of its kind shows it.
//!
//! A label accuses nobody by itself. It says what the lock's own documentation says, or what happened to a lock of ours that is built
//! alike.

use std::collections::BTreeSet;

use serde::Serialize;

use super::kind::{EndsWith, Kind};
use super::{Gauntlet, Row};
use crate::any_scenario::AnyScenario;
use crate::holds::Scenario;
use crate::matrix::{Cell, Run};
use crate::strategy::Strategy;
use crate::text::numbers::in_words;
use crate::verdict::Outcome;

mod charge;
mod likeness;

use charge::{Charge, charges};
use likeness::Likeness;

/// How often the reference must have held, without exception, before a conviction breaks a promise.
pub const REFERENCE_RUNS: usize = 20;
/// How often the lock must have been convicted.
pub const CONVICTIONS: usize = 2;

/// A limit that the lock's own documentation states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The scenario in which it shows.
    pub scenario: String,
    /// What the documentation says, word for word.
    pub quote: String,
    /// Where it says so.
    pub place: String,
}

/// Why a lock was convicted, in two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelName {
    /// Its own documentation says so.
    DocumentedLimit,
    /// The reference lock of its kind is convicted in the same way.
    LimitOfItsKind,
    /// The reference lock held every time, and the lock was convicted more than once.
    BreaksItsPromise,
    /// None of these.
    Unexplained,
}

impl LabelName {
    const ALL: [Self; 4] = [
        Self::BreaksItsPromise,
        Self::Unexplained,
        Self::DocumentedLimit,
        Self::LimitOfItsKind,
    ];

    /// Returns the label as people read it.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::DocumentedLimit => "documented limit",
            Self::LimitOfItsKind => "limit of its kind",
            Self::BreaksItsPromise => "breaks its promise",
            Self::Unexplained => "unexplained",
        }
    }
}

/// The label of a row, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The label.
    pub name: LabelName,
    /// The reason.
    pub because: String,
    /// What happened to the reference lock, if it was run.
    pub reference: Option<Compared>,
}

impl Label {
    /// Returns words such as "limit of its kind: its reference, safe, was convicted in the same way, 1 of 1".
    pub fn text(&self) -> String {
        format!("{}: {}", self.name.in_words(), self.because)
    }
}

/// What happened to the reference lock in the same scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Its name.
    pub lock: &'static str,
    /// How often it was convicted.
    pub convicted: usize,
    /// How often it held.
    pub held: usize,
    /// How often it was run.
    pub runs: usize,
}

impl Gauntlet {
    /// Returns the trials of the reference locks that explain these rows: as many runs of each scenario, with the same seeds.
    pub fn reference_cells(&self, rows: &[Row<'_>]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for row in rows {
            let Some(strategy) = self.to_compare(row) else {
                continue;
            };
            let reference = Self {
                strategy,
                ..self.clone()
            };
            let scenario = row.worst.any_scenario();
            cells.extend((0..self.runs).map(|run| reference.cell(scenario, run)));
        }
        cells
    }

    /// Returns the label of each row, given the runs of the reference locks.
    pub fn labels(&self, rows: &[Row<'_>], references: &[Run]) -> Vec<Option<Label>> {
        let label = |row: &Row<'_>| {
            let same = references.iter();
            let same = same.filter(|run| run.scenario() == row.worst.scenario());
            self.label(row, &same.collect::<Vec<_>>())
        };
        rows.iter().map(label).collect()
    }

    /// Returns the lock that must be run in the scenario of this row to explain it; `None` if the row is good, or if no run would explain
    /// it.
    fn to_compare(&self, row: &Row<'_>) -> Option<&'static Strategy> {
        if !row.outcome().is_conviction() || self.limit_in(row).is_some() {
            return None;
        }
        let reference = self.reference(row)?;
        (!std::ptr::eq(reference, self.strategy)).then_some(reference)
    }

    /// Returns the label of a row; `None` if the lock was not convicted. `reference` contains the runs of the reference lock in the
    /// same scenario.
    fn label(&self, row: &Row<'_>, reference: &[&Run]) -> Option<Label> {
        if !row.outcome().is_conviction() {
            return None;
        }
        let bare = |name, because| Label {
            name,
            because,
            reference: None,
        };
        if let Some(limit) = self.limit_in(row) {
            let said = format!("\"{}\" ({})", limit.quote, limit.place);
            return Some(bare(LabelName::DocumentedLimit, said));
        }
        let Some(reference_lock) = self.reference(row) else {
            let because = "the lab has no reference lock of its kind on this store".into();
            return Some(bare(LabelName::Unexplained, because));
        };
        if std::ptr::eq(reference_lock, self.strategy) {
            let because = "it is the reference lock of its kind";
            let known = limits_of(self.kind, row.worst.any_scenario());
            return Some(if is_covered(&charges_of(row), known) {
                bare(LabelName::LimitOfItsKind, because.into())
            } else {
                let because = format!("{because}, and locks of this kind should withstand this");
                bare(LabelName::Unexplained, because)
            });
        }
        let label = if reference.is_empty() {
            let because = format!("its reference, {}, was not run", reference_lock.name);
            bare(LabelName::Unexplained, because)
        } else {
            compare(row, reference_lock, reference)
        };
        Some(match self.strategy.flaw {
            // The lab itself documents what is wrong with its exhibits.
            Some(flaw) if label.name != LabelName::LimitOfItsKind => Label {
                name: LabelName::DocumentedLimit,
                because: format!("an exhibit with a known flaw: {flaw}"),
                ..label
            },
            _ => label,
        })
    }

    /// Returns the limit that the lock's own documentation states for the scenario of this row, if it covers what happened.
    fn limit_in(&self, row: &Row<'_>) -> Option<&Limit> {
        let mut limits = self.limits.iter();
        let limit = limits.find(|limit| limit.scenario == row.worst.scenario())?;
        let charges = charges_of(row);
        let uncovered = [Charge::WithinLease, Charge::Fence];
        let is_more = is_about_an_end(row.worst.any_scenario())
            && uncovered.iter().any(|charge| charges.contains(charge));
        (!is_more).then_some(limit)
    }

    fn reference(&self, row: &Row<'_>) -> Option<&'static Strategy> {
        // A fence that the lock does not claim is not judged, so it is none of the reference either.
        let fenced = self.kind.fenced && self.strategy.claims.fencing;
        let kind = Kind {
            fenced,
            ..self.kind
        };
        kind.reference(row.claims(), row.worst.any_scenario(), &self.store)
    }
}

/// Returns the rows with their labels.
pub fn labelled<'a>(rows: &[Row<'a>], labels: &'a [Option<Label>]) -> Vec<Row<'a>> {
    let pairs = rows.iter().zip(labels);
    pairs
        .map(|(row, label)| Row {
            label: label.as_ref(),
            ..*row
        })
        .collect()
}

/// Returns the scenarios under each label: "limit of its kind: deadlock, pause".
pub(super) fn summary(rows: &[Row<'_>]) -> Vec<String> {
    let named = |name: LabelName| {
        let own = |row: &&Row<'_>| row.label.is_some_and(|label| label.name == name);
        let scenarios = rows.iter().filter(own).map(|row| row.worst.scenario());
        let scenarios: Vec<&str> = scenarios.collect();
        let said = format!("{}: {}", name.in_words(), scenarios.join(", "));
        (!scenarios.is_empty()).then_some(said)
    };
    LabelName::ALL.into_iter().filter_map(named).collect()
}

fn compare(row: &Row<'_>, reference_lock: &'static Strategy, reference: &[&Run]) -> Label {
    let is = |wanted: fn(Outcome) -> bool| {
        let outcomes = reference.iter().map(|run| run.verdict().outcome);
        outcomes.filter(|outcome| wanted(*outcome)).count()
    };
    let compared = Compared {
        lock: reference_lock.name,
        convicted: is(Outcome::is_conviction),
        held: is(|outcome| outcome == Outcome::Held),
        runs: reference.len(),
    };
    let Compared {
        lock,
        convicted,
        held,
        runs,
    } = compared;
    let times = row.convictions().count();
    let (name, because) = if let Some(likeness) = Likeness::of(row, reference) {
        let how = likeness.in_words(convicted, runs);
        (
            likeness.label(),
            format!("its reference, {lock}, was convicted {how}"),
        )
    } else if convicted > 0 {
        (
            LabelName::Unexplained,
            format!(
                "its reference, {lock}, was convicted for another reason, {convicted} of {runs}"
            ),
        )
    } else if held == runs && runs >= REFERENCE_RUNS && times >= CONVICTIONS {
        let times = in_words(times as i64, "time", "times");
        (
            LabelName::BreaksItsPromise,
            format!(
                "its reference, {lock}, held {held} of {runs}, and this lock was convicted {times}"
            ),
        )
    } else {
        (LabelName::Unexplained, missing(compared, times))
    };
    Label {
        name,
        because,
        reference: Some(compared),
    }
}

/// Returns what the comparison showed, and what it lacks.
fn missing(compared: Compared, times: usize) -> String {
    let Compared {
        lock, held, runs, ..
    } = compared;
    let mut text = format!("its reference, {lock}, held {held} of {runs}");
    if runs < REFERENCE_RUNS {
        text.push_str(&format!(
            "; --runs {REFERENCE_RUNS} would show whether it breaks its promise"
        ));
    } else if times < CONVICTIONS {
        text.push_str(", and this lock was convicted only once");
    }
    text
}

/// Returns what is known to convict locks of a kind in a scenario, however well they are made. Nothing else is a limit of the kind,
/// least of all a second holder within a running lease.
fn limits_of(kind: Kind, scenario: AnyScenario) -> &'static [Charge] {
    let lasts = kind.renewed || kind.hold != EndsWith::Lease;
    match scenario.lock() {
        // A fence that is floored by the server's time falls with that time, if nothing else remembers it.
        Some(Scenario::RestartBehind) if kind.fenced => &[Charge::Fence, Charge::TwoHolders],
        // The server ends every lease by its own time of day.
        Some(Scenario::ClockBack) => &[Charge::Stuck, Charge::Recovery],
        // Whoever is left at the old primary renews its lease there, and nobody tells it: no fence does, either.
        Some(Scenario::Deposed) if kind.renewed => &[Charge::TwoHolders],
        // Two that wait for each other keep their locks for as long as they live.
        Some(Scenario::Deadlock) if lasts => &[Charge::Stuck],
        Some(
            Scenario::Crash
            | Scenario::SamePid
            | Scenario::Waiters
            | Scenario::LostReply
            | Scenario::StoreErrors
            | Scenario::LeaderDeaths
            | Scenario::Storm,
        ) if kind.hold == EndsWith::Untimed => &[Charge::Stuck, Charge::Recovery],
        // No server hears of the end of a connection whose machine has vanished.
        Some(Scenario::Vanish) if kind.hold != EndsWith::Lease => {
            &[Charge::Stuck, Charge::Recovery]
        }
        Some(Scenario::Deadlock | Scenario::TtlEdge) if !lasts && !kind.fenced => {
            &[Charge::TwoHolders]
        }
        Some(
            Scenario::Pause
            | Scenario::Suspend
            | Scenario::Cut
            | Scenario::CutReplies
            | Scenario::CutRequests
            | Scenario::SlowReplies
            | Scenario::PauseAtStep
            | Scenario::LateWrite
            | Scenario::WriteOnlyFence
            | Scenario::Failover
            | Scenario::RestartEmpty
            | Scenario::RestartBehind
            | Scenario::ServerClock
            | Scenario::Eviction
            | Scenario::TakenAway
            | Scenario::Deposed,
        ) if !kind.fenced => &[Charge::TwoHolders],
        _ => &[],
    }
}

/// Returns whether a scenario is about holders whose lease, session or life is over. Whoever does not withstand that admits nothing about
/// running leases.
fn is_about_an_end(scenario: AnyScenario) -> bool {
    matches!(
        scenario.lock(),
        Some(
            Scenario::Deadlock
                | Scenario::Crash
                | Scenario::Vanish
                | Scenario::TtlEdge
                | Scenario::Pause
                | Scenario::Suspend
                | Scenario::Cut
                | Scenario::CutReplies
                | Scenario::CutRequests
                | Scenario::SlowReplies
                | Scenario::LateWrite
                | Scenario::WriteOnlyFence
                | Scenario::Failover
                | Scenario::RestartEmpty
                | Scenario::RestartBehind
                | Scenario::ServerClock
                | Scenario::ClockBack
                | Scenario::Eviction
                | Scenario::TakenAway
                | Scenario::Deposed
        )
    )
}

fn is_covered(charges: &BTreeSet<Charge>, known: &[Charge]) -> bool {
    charges.iter().all(|charge| known.contains(charge))
}

/// Returns what the runs of a row convict the lock for, all together.
fn charges_of(row: &Row<'_>) -> BTreeSet<Charge> {
    row.convictions().flat_map(charges).collect()
}

#[cfg(test)]
mod tests;
