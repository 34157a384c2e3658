//! The gauntlet: one lock in every scenario that applies to it and to its store.
//!
//! A lock is judged by what it claims. Where a scenario does not apply, the gauntlet says why instead of leaving it out.

use crate::any_scenario::AnyScenario;
use crate::history::FaultKind;
use crate::holds::Scenario;
use crate::holds::check::with_slack;
use crate::matrix::{Cell, Run, default_ttl_ms};
use crate::protocol::Claims;
use crate::store::{ServerFault, StoreFacts, TrialStore};
use crate::story::scenarios::judged_by;
use crate::strategy::{self, Stores, Strategy};
use crate::text::numbers::plural;
use crate::verdict::{Outcome, Verdict};

pub mod envelope;
pub mod kind;
pub mod label;
pub mod ladder;

pub use kind::Kind;
pub use label::{Label, LabelName, Limit, labelled};

/// The scenarios, in the order of the table.
pub const SCENARIOS: [AnyScenario; 44] = [
    AnyScenario::Sale,
    AnyScenario::Lock(Scenario::Deadlock),
    AnyScenario::Lock(Scenario::DeadlockSorted),
    AnyScenario::Lock(Scenario::Crash),
    AnyScenario::Lock(Scenario::TtlEdge),
    AnyScenario::Lock(Scenario::Pause),
    AnyScenario::Lock(Scenario::LateWrite),
    AnyScenario::Lock(Scenario::WriteOnlyFence),
    AnyScenario::Lock(Scenario::StaleRelease),
    AnyScenario::Lock(Scenario::ShortStock),
    AnyScenario::Lock(Scenario::LostWakeup),
    AnyScenario::Lock(Scenario::Names),
    AnyScenario::Lock(Scenario::Turns),
    AnyScenario::Lock(Scenario::Waiters),
    AnyScenario::Lock(Scenario::Deadline),
    AnyScenario::Lock(Scenario::Order),
    AnyScenario::Lock(Scenario::Reentry),
    AnyScenario::Lock(Scenario::SamePid),
    AnyScenario::Lock(Scenario::Cut),
    AnyScenario::Lock(Scenario::CutReplies),
    AnyScenario::Lock(Scenario::CutRequests),
    AnyScenario::Lock(Scenario::SlowReplies),
    AnyScenario::Lock(Scenario::LostReply),
    AnyScenario::Lock(Scenario::LostRelease),
    AnyScenario::Lock(Scenario::StoreErrors),
    AnyScenario::Lock(Scenario::PauseAtStep),
    AnyScenario::Lock(Scenario::FailedRenewal),
    AnyScenario::Lock(Scenario::ManyLeases),
    AnyScenario::Lock(Scenario::DeadConnection),
    AnyScenario::Lock(Scenario::Vanish),
    AnyScenario::Lock(Scenario::Storm),
    AnyScenario::Lock(Scenario::Failover),
    AnyScenario::Lock(Scenario::RestartEmpty),
    AnyScenario::Lock(Scenario::RestartBehind),
    AnyScenario::Lock(Scenario::ServerClock),
    AnyScenario::Lock(Scenario::ClockBack),
    AnyScenario::Lock(Scenario::Eviction),
    AnyScenario::Lock(Scenario::TakenAway),
    AnyScenario::Lock(Scenario::Deposed),
    AnyScenario::Lock(Scenario::ServerStall),
    AnyScenario::Lock(Scenario::MajorityDown),
    AnyScenario::Lock(Scenario::LeaderDeaths),
    AnyScenario::Lock(Scenario::ClientClock),
    AnyScenario::Lock(Scenario::Suspend),
];

/// How long the storm of a gauntlet lasts at least.
const STORM_MS: u64 = 6_000;

/// The settings of a gauntlet.
#[derive(Debug, Clone)]
pub struct Gauntlet {
    /// The lock on trial.
    pub strategy: &'static Strategy,
    /// How the lock is built.
    pub kind: Kind,
    /// The limits that its own documentation states.
    pub limits: Vec<Limit>,
    /// The store that keeps the locks.
    pub store: TrialStore,
    /// The TTL of lock trials, if it is not the default. Scenarios in which servers fail, and a few others, need a long one and keep theirs.
    pub ttl_ms: Option<u64>,
    /// The seed of the first run of each scenario.
    pub seed: u64,
    /// How often each scenario is run.
    pub runs: u64,
    /// The scenarios to run; the others are not tried.
    pub chosen: Vec<AnyScenario>,
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
pub struct GauntletPlan {
    /// The trials. Those of one scenario follow each other.
    pub cells: Vec<Cell>,
    /// The scenarios that are left out.
    pub untried: Vec<Untried>,
}

impl Gauntlet {
    /// Returns what to run of the chosen scenarios. The gauntlet's order is kept.
    pub fn plan(&self) -> GauntletPlan {
        let mut plan = GauntletPlan {
            cells: Vec::new(),
            untried: Vec::new(),
        };
        for scenario in SCENARIOS {
            let why = if self.chosen.contains(&scenario) {
                self.not_applicable(scenario)
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
                    .extend((0..self.runs).map(|run| self.cell(scenario, run))),
            }
        }
        plan
    }

    /// Returns what was not tried: what the plan leaves out, and the scenarios of which no run was finished.
    pub fn left_undone(&self, plan: &GauntletPlan, rows: &[Row<'_>]) -> Vec<Untried> {
        let is_done = |scenario: &str| rows.iter().any(|row| row.worst.scenario() == scenario);
        let mut undone: Vec<&'static str> = plan.cells.iter().map(Cell::scenario).collect();
        undone.dedup();
        undone.retain(|scenario| !is_done(scenario));
        let undone = undone.into_iter().map(|scenario| Untried {
            scenario,
            why: "not finished: the gauntlet ended before".into(),
        });
        plan.untried.iter().cloned().chain(undone).collect()
    }

    /// Returns why a scenario does not apply to this lock on this store; `None` if it does.
    fn not_applicable(&self, scenario: AnyScenario) -> Option<String> {
        let buys = matches!(
            scenario,
            AnyScenario::Sale | AnyScenario::Lock(Scenario::ShortStock)
        );
        match &self.cannot_buy {
            Some(why) if buys => Some(format!("the lock says: {why}")),
            _ => without_servers(scenario, self.strategy, &self.store)
                .or(scenario.lock().and_then(Scenario::lacks))
                .or_else(|| not_claimed(scenario, self.strategy.claims))
                .map(str::to_owned),
        }
    }

    fn cell(&self, scenario: AnyScenario, run: u64) -> Cell {
        let mut cell = scenario.cell(self.strategy, &self.store, self.seed + run);
        if let Cell::Lock(trial) = &mut cell {
            if trial.scenario.keeps_its_ttl() {
                // If servers fail, everything must happen within the lease.
                trial.ttl_ms = trial.scenario.ttl_ms_at(&self.store);
            } else if let Some(ttl_ms) = self.ttl_ms {
                // So long that a lock which renews its lease only once or twice is convicted too.
                (trial.ttl_ms, trial.work_ms) = (ttl_ms, ttl_ms * 7 / 2);
            }
            if measures_recovery(trial.scenario) {
                trial.ttl_ms = lease_beyond(trial.strategy.claims, trial.ttl_ms);
            }
            if let Some(storm) = &mut trial.storm {
                // Long enough for some twenty faults.
                storm.for_ms = (12 * trial.ttl_ms).max(STORM_MS);
                // What a server and a clock do has scenarios of its own, and these are slower to bring about.
                storm.faults = storm
                    .faults
                    .without(FaultKind::Server)
                    .without(FaultKind::Clock);
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
        Verdict {
            found: label::summary(rows),
            limits: self
                .not_tried(untried)
                .map(|names| format!("not tried: {names}")),
            ..Verdict::bare(worst, self.in_a_sentence(rows))
        }
    }

    fn in_a_sentence(&self, rows: &[Row<'_>]) -> String {
        let times = |outcome| rows.iter().filter(|row| row.outcome() == outcome).count();
        counted(
            self.strategy.name,
            rows.len(),
            times(Outcome::Broken),
            times(Outcome::Stuck),
            times(Outcome::Inconclusive),
        )
    }

    /// Returns the scenarios that were left out, each with its reason; `None` if there are none.
    pub(crate) fn not_tried(&self, untried: &[Untried]) -> Option<String> {
        (!untried.is_empty()).then(|| left_out(untried))
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

/// Returns how often a lock did what, the worst first.
fn counted(name: &str, of: usize, broke: usize, stuck: usize, nothing: usize) -> String {
    let of = plural(of, "scenario", "scenarios");
    let what = match (broke, stuck) {
        (0, 0) if nothing == 0 => return format!("{name} held in all of {of}."),
        (0, 0) => return format!("Nothing broke, and {nothing} of {of} showed nothing."),
        (broke, 0) => format!("broke in {broke}"),
        (0, stuck) => format!("got stuck in {stuck}"),
        (broke, stuck) => format!("broke in {broke} and got stuck in {stuck}"),
    };
    let and_nothing = match nothing {
        0 => String::new(),
        nothing => format!("; {nothing} showed nothing"),
    };
    format!("{name} {what} of {of}{and_nothing}.")
}

/// Returns whether the trial is about how soon somebody gets the lock of a dead holder.
fn measures_recovery(scenario: Scenario) -> bool {
    matches!(scenario, Scenario::Crash | Scenario::Vanish)
}

/// Returns a lease so long that its end cannot pass for the recovery that the lock claims: at least this long, and twice the time beyond which
/// a recovery is certainly late. A lock without a lease, or whose lease ends sooner than it claims, needs none.
fn lease_beyond(claims: Claims, ttl_ms: u64) -> u64 {
    match claims.recovery_ms {
        Some(promised_ms) if !claims.untimed && promised_ms < ttl_ms => {
            let late_ns = with_slack(promised_ms.saturating_mul(1_000_000));
            ttl_ms.max(2 * late_ns / 1_000_000)
        }
        _ => ttl_ms,
    }
}

/// Returns why the lab cannot make servers fail, or come between them and the processes, as this scenario demands; `None` if it can, or if
/// the scenario does not demand it.
fn without_servers(
    scenario: AnyScenario,
    strategy: &Strategy,
    store: &TrialStore,
) -> Option<&'static str> {
    let scenario = scenario.lock()?;
    let fault = scenario.server_fault(store.facts())?;
    if let ServerFault::Unavailable(why) = fault {
        return Some(why);
    }
    if !scenario.fails_servers() {
        return None;
    }
    if !store.is_private() {
        return Some("the lab makes only servers fail that it has started itself");
    }
    match strategy.stores {
        Stores::Only(kind) if !StoreFacts::of(kind).can_fail() => {
            Some("the lab has no servers of this lock that it can make fail")
        }
        _ => None,
    }
}

/// Returns why a scenario has nothing to judge in a lock with these claims; `None` if it has.
fn not_claimed(scenario: AnyScenario, claims: Claims) -> Option<&'static str> {
    let is_about_renewal = scenario.lock().is_some_and(Scenario::is_about_renewal);
    if scenario.lock() == Some(Scenario::Order) && !claims.fair {
        return Some("not claimed: it does not serve waiters in order");
    }
    (is_about_renewal && !claims.keep_alive).then_some("not claimed: it does not renew its leases")
}

/// Returns what a lock claims, in a few words.
pub fn claims_in_words(claims: Claims) -> String {
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

/// Returns words such as "failover, restart-empty (a file has no server that could fail)".
pub(crate) fn left_out(untried: &[Untried]) -> String {
    let groups = untried.chunk_by(|one, other| one.why == other.why);
    let said = groups.map(|group| {
        let names: Vec<&str> = group.iter().map(|one| one.scenario).collect();
        format!("{} ({})", names.join(", "), group[0].why)
    });
    said.collect::<Vec<_>>().join("; ")
}

/// What somebody thinks of a scenario before it is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// The scenario.
    pub scenario: &'static str,
    /// The predicted verdict.
    pub outcome: Outcome,
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
    /// All of them.
    pub runs: &'a [Run],
    /// Why the lock was convicted, if it was and that is known.
    pub label: Option<&'a Label>,
}

impl Row<'_> {
    /// Returns what its lock is judged by in its scenario.
    pub fn judged_by(&self) -> String {
        judged_by(self.worst.any_scenario(), self.claims())
    }

    /// Returns what its lock claimed in the worst run.
    fn claims(&self) -> Claims {
        match self.worst {
            Run::Lock(judged) => strategy::claims_of(&judged.header),
            Run::Sale(_) | Run::Retry(_) => Claims::PLAIN,
        }
    }

    /// Returns the command that repeats the worst run.
    pub fn reproduce(&self) -> String {
        self.worst.reproduce()
    }

    /// Returns the verdict of the row.
    pub fn outcome(&self) -> Outcome {
        self.worst.verdict().outcome
    }

    /// Returns the runs that convicted the lock, whether it broke or got stuck.
    fn convictions(&self) -> impl Iterator<Item = &Run> {
        let runs = self.runs.iter();
        runs.filter(|run| run.verdict().outcome.is_conviction())
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
        runs,
        label: None,
    })
}

#[cfg(test)]
mod tests;
