//! The gauntlet: one lock in every scenario that applies to it and to its store.
//!
//! A lock is judged by what it claims. Where a scenario does not apply, the gauntlet says why instead of leaving it out.

use crate::holds::Scenario;
use crate::matrix::{Cell, Column, Run, column, short_ttl_ms};
use crate::protocol::Claims;
use crate::store::{ServerFault, StoreFacts, TrialStore};
use crate::strategy::{self, Stores, Strategy};
use crate::text::numbers::{count, plural};
use crate::verdict::{Outcome, Verdict};

pub mod ladder;

/// The scenarios, in the order of the table.
pub const SCENARIOS: [Column; 15] = [
    column(None),
    column(Some(Scenario::Deadlock)),
    column(Some(Scenario::Sorted)),
    column(Some(Scenario::Crash)),
    column(Some(Scenario::TtlEdge)),
    column(Some(Scenario::Pause)),
    column(Some(Scenario::StaleRelease)),
    column(Some(Scenario::ShortStock)),
    column(Some(Scenario::LostWakeup)),
    column(Some(Scenario::Cut)),
    column(Some(Scenario::SlowReplies)),
    column(Some(Scenario::LostReply)),
    column(Some(Scenario::Storm)),
    column(Some(Scenario::Failover)),
    column(Some(Scenario::RestartEmpty)),
];

/// How long the storm of a gauntlet lasts at least.
const STORM_MS: u64 = 6_000;

/// The settings of a gauntlet.
#[derive(Debug, Clone)]
pub struct Gauntlet {
    /// The lock on trial.
    pub strategy: &'static Strategy,
    /// The store that keeps the locks.
    pub store: TrialStore,
    /// The TTL of lock trials, if it is not the default. Scenarios in which servers fail need a long one and keep theirs.
    pub ttl_ms: Option<u64>,
    /// The seed of the first run of each scenario.
    pub seed: u64,
    /// How often each scenario is run.
    pub runs: u64,
    /// The scenarios to run; the others are not tried.
    pub chosen: Vec<Column>,
    /// Why the lock cannot buy, if it says so when it is asked to get ready for a purchase.
    pub cannot_buy: Option<String>,
}

/// A scenario that was not tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untried {
    /// The scenario.
    pub scenario: &'static str,
    /// Why not.
    pub why: String,
}

/// What a gauntlet runs, and what it leaves out.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The trials. Those of one scenario follow each other.
    pub cells: Vec<Cell>,
    /// The scenarios that are left out.
    pub untried: Vec<Untried>,
}

impl Gauntlet {
    /// Returns what to run of the chosen scenarios. The gauntlet's order is kept.
    pub fn plan(&self) -> Plan {
        let mut plan = Plan {
            cells: Vec::new(),
            untried: Vec::new(),
        };
        for scenario in &SCENARIOS {
            let why = if self.chosen.contains(scenario) {
                self.not_applicable(*scenario)
            } else {
                Some("not chosen".into())
            };
            match why {
                Some(why) => plan.untried.push(Untried {
                    scenario: scenario.name(),
                    why,
                }),
                None => plan
                    .cells
                    .extend((0..self.runs).map(|run| self.cell(*scenario, run))),
            }
        }
        plan
    }

    /// Returns why a scenario does not apply to this lock on this store; `None` if it does.
    fn not_applicable(&self, scenario: Column) -> Option<String> {
        let buys = matches!(scenario.scenario, None | Some(Scenario::ShortStock));
        match &self.cannot_buy {
            Some(why) if buys => Some(format!("the lock says: {why}")),
            _ => without_servers(scenario, self.strategy, &self.store).map(str::to_owned),
        }
    }

    fn cell(&self, scenario: Column, run: u64) -> Cell {
        let mut cell = scenario.cell(self.strategy, &self.store, self.seed + run);
        if let Cell::Hold(trial) = &mut cell {
            if trial.scenario.fails_servers() {
                // Everything must happen within the lease.
                trial.ttl_ms = trial.scenario.ttl_ms_at(&self.store);
            } else if let Some(ttl_ms) = self.ttl_ms {
                // So long that a lock which renews its lease only once or twice is convicted too.
                (trial.ttl_ms, trial.work_ms) = (ttl_ms, ttl_ms * 7 / 2);
            }
            if let Some(storm) = &mut trial.storm {
                // Long enough for some twenty faults.
                storm.for_ms = (12 * trial.ttl_ms).max(STORM_MS);
            }
        }
        cell
    }

    /// Returns the TTL of the lock trials in which no server fails.
    pub fn lease_ms(&self) -> u64 {
        self.ttl_ms.unwrap_or_else(|| default_ttl_ms(&self.store))
    }

    /// Returns the verdict on all scenarios together: the worst of them.
    pub fn verdict(&self, rows: &[Row<'_>], untried: &[Untried]) -> Verdict {
        let Some(worst) = Outcome::worst(rows.iter().map(Row::outcome)) else {
            return Verdict::bare(Outcome::Inconclusive, "No scenario was tried.");
        };
        let name = self.strategy.name;
        let times = rows.iter().filter(|row| row.outcome() == worst).count();
        let of = plural(rows.len(), "scenario", "scenarios");
        let because = match worst {
            Outcome::Held => format!("{name} held in all of {of}."),
            Outcome::Broken => format!("{name} broke in {times} of {of}."),
            Outcome::Stuck => format!("{name} got stuck in {times} of {of}."),
            Outcome::Inconclusive => format!("Nothing broke, and {times} of {of} showed nothing."),
        };
        Verdict {
            limits: self
                .not_tried(untried)
                .map(|names| format!("not tried: {names}")),
            ..Verdict::bare(worst, because)
        }
    }

    /// Returns the scenarios that were left out and the claims that no scenario tests, each with its reason; `None` if there are none.
    pub(crate) fn not_tried(&self, untried: &[Untried]) -> Option<String> {
        let scenarios = (!untried.is_empty()).then(|| left_out(untried));
        let fair = self.strategy.claims.fair.then(|| UNJUDGED_FAIRNESS.into());
        let all: Vec<String> = scenarios.into_iter().chain(fair).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns the command that runs it again.
    pub fn command(&self) -> String {
        let mut text = format!("fencepost gauntlet --lock={}", self.strategy.argument());
        if self.chosen.len() < SCENARIOS.len() {
            for scenario in &self.chosen {
                text.push_str(&format!(" --scenario {}", scenario.name()));
            }
        }
        if self.store != TrialStore::default() {
            text.push_str(&format!(" --store {}", self.store.typed()));
        }
        if let Some(ttl_ms) = self.ttl_ms {
            text.push_str(&format!(" --ttl {ttl_ms}"));
        }
        if self.runs > 1 {
            text.push_str(&format!(" --runs {}", self.runs));
        }
        format!("{text} --seed {}", self.seed)
    }
}

/// What the gauntlet says of a lock that claims to be fair.
const UNJUDGED_FAIRNESS: &str = "fair (no trial judges the order of waiters)";

/// Returns the TTL of lock trials on this store, unless it is set.
pub fn default_ttl_ms(store: &TrialStore) -> u64 {
    short_ttl_ms(store)
}

/// Returns why the lab cannot make servers fail, or come between them and the processes, as this scenario demands; `None` if it can, or if
/// the scenario does not demand it.
fn without_servers(
    scenario: Column,
    strategy: &Strategy,
    store: &TrialStore,
) -> Option<&'static str> {
    let scenario = scenario.scenario?;
    let fault = scenario.server_fault(store.facts())?;
    if let ServerFault::Unavailable(why) = fault {
        return Some(why);
    }
    if !scenario.fails_servers() {
        return None;
    }
    if !store.is_private() {
        return Some("the lab kills only servers that it has started itself");
    }
    match strategy.stores {
        Stores::Only(kind) if !StoreFacts::of(kind).can_fail() => {
            Some("the lab has no servers of this lock that it can make fail")
        }
        _ => None,
    }
}

/// Returns what a lock with these claims is judged by in a scenario, in a few words.
pub fn judged_by(scenario: Option<Scenario>, claims: Claims) -> String {
    let late = match scenario {
        _ if claims.fencing => "it claims fences: the resource refuses a late write",
        _ if claims.untimed => "it claims to have no lease: the other waits",
        Some(Scenario::TtlEdge) if claims.keep_alive => {
            "it claims to renew its lease: the other waits"
        }
        _ => "no update is lost, which it does not claim beyond its lease",
    };
    match scenario {
        None => "nothing is sold twice",
        Some(Scenario::Deadlock) => "one holder at a time, and somebody gets on",
        Some(Scenario::Sorted) => "both finish, one after the other",
        Some(Scenario::Crash) => return recovery(claims),
        Some(Scenario::TtlEdge | Scenario::Pause | Scenario::Cut | Scenario::SlowReplies) => late,
        Some(Scenario::LostReply) => "an error is no grant, and the lock comes free again",
        Some(Scenario::StaleRelease) => "a release frees only its own lock",
        Some(Scenario::ShortStock) => "a failed purchase frees its lock",
        Some(Scenario::LostWakeup) => "whoever waits gets the lock when it is free",
        Some(Scenario::Storm) => return storm(claims),
        Some(Scenario::Failover | Scenario::RestartEmpty) if claims.fencing => late,
        Some(Scenario::Failover | Scenario::RestartEmpty) => "no update is lost",
    }
    .into()
}

fn storm(claims: Claims) -> String {
    let mut words = vec!["one holder within a lease, and a lock that can be taken afterwards"];
    if claims.fencing {
        words.push("it claims fences: they grow, and no update is lost");
    } else if claims.keep_alive {
        words.push("it claims to renew its lease");
    }
    words.join("; ")
}

fn recovery(claims: Claims) -> String {
    match claims.recovery_ms {
        Some(ms) => format!(
            "it claims to be free within {} ms of a kill",
            count(i64::try_from(ms).unwrap_or(i64::MAX))
        ),
        None => "it is free again when its lease is over".into(),
    }
}

/// Returns what a lock claims, in a few words.
pub fn in_words(claims: Claims) -> String {
    let mut words = Vec::new();
    if claims.fencing {
        words.push("fences");
    }
    if claims.untimed {
        words.push("no lease");
    } else if claims.keep_alive {
        words.push("a lease, renewed while its holder lives");
    } else {
        words.push("one holder within a lease");
    }
    if claims.fair {
        words.push("served in order");
    }
    words.join(", ")
}

/// "failover, restart-empty (a file has no server that could fail)"
pub(crate) fn left_out(untried: &[Untried]) -> String {
    let groups = untried.chunk_by(|one, other| one.why == other.why);
    let said = groups.map(|group| {
        let names: Vec<&str> = group.iter().map(|one| one.scenario).collect();
        format!("{} ({})", names.join(", "), group[0].why)
    });
    said.collect::<Vec<_>>().join("; ")
}

/// The runs of one scenario, judged by the worst of them.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The first of the worst runs.
    pub worst: &'a Run,
    /// How many runs had that verdict.
    pub times: usize,
    /// How many runs there were.
    pub of: usize,
}

impl Row<'_> {
    /// Returns what its lock is judged by in its scenario.
    pub fn judged_by(&self) -> String {
        match self.worst {
            Run::Hold(judged) => {
                let claims = strategy::claims_of(&judged.header);
                judged_by(Some(judged.trial.scenario), claims)
            }
            Run::Sale(_) | Run::Retry(_) => judged_by(None, Claims::PLAIN),
        }
    }

    /// Returns the command that repeats the worst run.
    pub fn reproduce(&self) -> String {
        match self.worst {
            Run::Sale(judged) => judged.reproduce(),
            Run::Hold(judged) => judged.trial.reproduce(),
            Run::Retry(judged) => judged.comparison.reproduce(),
        }
    }

    /// Returns the verdict of the row.
    pub fn outcome(&self) -> Outcome {
        self.worst.verdict().outcome
    }
}

/// Returns one row per scenario, for runs in the order of a plan.
pub fn rows(runs: &[Run]) -> Vec<Row<'_>> {
    runs.chunk_by(|one, other| one.scenario() == other.scenario())
        .filter_map(row)
        .collect()
}

fn row(runs: &[Run]) -> Option<Row<'_>> {
    let worst = runs.iter().min_by_key(|run| run.verdict().outcome.rank())?;
    let outcome = worst.verdict().outcome;
    let same = runs.iter().filter(|run| run.verdict().outcome == outcome);
    Some(Row {
        worst,
        times: same.count(),
        of: runs.len(),
    })
}

#[cfg(test)]
mod tests;
