//! The JSON report of a lock trial.

use serde::Serialize;
use serde_json::Value;

use super::{VerdictEntry, ms};
use crate::history::{Change, Fault, StormSettings};
use crate::holds::check::Overlap;
use crate::holds::facts::{Cycle, FaultSeen, Hold, Op, ServerChange};
use crate::holds::storm::{PROCESSES, Planned, PlannedFault, Shrunk, Tried};
use crate::holds::{Judged, Scenario, Trial};
use crate::protocol::{Action, PurchaseOutcome, ReleaseResult};

/// Returns the report of a lock trial as one JSON document.
pub fn report(judged: &Judged) -> Value {
    // Every field is a number, a string or a list of these, so the conversion cannot fail.
    serde_json::to_value(Report::of(judged)).unwrap_or_default()
}

/// Returns the report of the worst of several storms, and how often the lock was convicted.
pub fn report_of_worst(judged: &Judged, convicted: usize, runs: u64) -> Value {
    let mut document = report(judged);
    document["runs"] = serde_json::json!({ "convicted": convicted, "of": runs });
    document
}

/// Adds the smaller plans of faults that were looked for.
pub fn add_smaller_plans(document: &mut Value, shrunk: &Shrunk) {
    let tried: Vec<Value> = shrunk.tried.iter().map(tried_plan).collect();
    document["smaller_plans"] = serde_json::json!({
        "tried": tried,
        "smallest": shrunk.smallest,
        "complete": shrunk.is_complete,
    });
}

fn tried_plan(tried: &Tried) -> Value {
    let faults = tried.plan.faults.iter().map(PlannedEntry::of);
    serde_json::json!({
        "label": tried.label,
        "convicted": tried.convicted,
        "runs": tried.runs,
        "for_ms": tried.plan.for_ms,
        "faults": faults.collect::<Vec<_>>(),
    })
}

#[derive(Serialize)]
struct PlannedEntry {
    at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    who: Option<&'static str>,
    fault: &'static str,
    for_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    each_way_ms: Option<u64>,
}

impl PlannedEntry {
    fn of(planned: &Planned) -> Self {
        Self {
            at_ms: planned.at_ms,
            who: planned
                .process
                .and_then(|index| PROCESSES.get(index).copied()),
            fault: planned.fault.name(),
            for_ms: planned.for_ms,
            each_way_ms: match planned.fault {
                PlannedFault::Delay { each_way_ms } => Some(each_way_ms),
                _ => None,
            },
        }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    scenario: &'a str,
    strategy: &'a str,
    timestamp: &'a str,
    schema: &'static str,
    version: &'a str,
    store: &'a str,
    seed: u64,
    options: Options,
    total_duration_ms: f64,
    holds: Vec<HoldEntry<'a>>,
    operations: Vec<OpEntry<'a>>,
    purchases: Vec<BuyEntry<'a>>,
    faults: Vec<FaultEntry<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<ServerEntry<'a>>,
    number: Number,
    overlaps: Vec<OverlapEntry<'a>>,
    wait_cycles: Vec<CycleEntry>,
    recovery: Option<Recovery>,
    stuck_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shortest_conviction: Option<Beginning>,
    verdict: VerdictEntry,
}

#[derive(Serialize)]
struct Beginning {
    events: usize,
    of: usize,
}

#[derive(Serialize)]
struct Options {
    ttl_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    work_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storm: Option<StormSettings>,
}

#[derive(Serialize)]
struct HoldEntry<'a> {
    who: &'a str,
    lock: &'a str,
    fence: Option<&'a str>,
    asked_ms: f64,
    granted_ms: f64,
    lease_over_ms: Option<f64>,
    believed_until_ms: f64,
    ended: &'static str,
    event: u64,
}

#[derive(Serialize)]
struct OpEntry<'a> {
    op: u64,
    who: &'a str,
    action: Action,
    value: i64,
    fence: Option<&'a str>,
    refused: bool,
    at_ms: f64,
    event: u64,
}

#[derive(Serialize)]
struct BuyEntry<'a> {
    who: &'a str,
    asked_ms: f64,
    at_ms: Option<f64>,
    outcome: Option<PurchaseOutcome>,
    event: Option<u64>,
}

#[derive(Serialize)]
struct FaultEntry<'a> {
    who: &'a str,
    fault: Fault,
    at_ms: f64,
    event: u64,
}

#[derive(Serialize)]
struct ServerEntry<'a> {
    server: &'a str,
    change: Change,
    at_ms: f64,
    event: u64,
}

#[derive(Serialize)]
struct Number {
    initial: i64,
    r#final: i64,
    additions: i64,
    lost_updates: i64,
}

#[derive(Serialize)]
struct OverlapEntry<'a> {
    lock: &'a str,
    first: &'a str,
    second: &'a str,
    from_ms: f64,
    until_ms: f64,
    within_lease: bool,
}

#[derive(Serialize)]
struct CycleEntry {
    processes: Vec<String>,
    since_ms: f64,
    lasted_ms: f64,
    event: u64,
}

#[derive(Serialize)]
struct Recovery {
    killed_ms: f64,
    granted_ms: f64,
    recovery_ms: f64,
}

impl<'a> Report<'a> {
    fn of(judged: &'a Judged) -> Self {
        let Judged { header, facts, .. } = judged;
        let checks = judged.checks();
        let recovery = checks.recovery().filter(|_| checks.measures_recovery());
        let recovery = recovery.map(|(died, next)| Recovery {
            killed_ms: ms(died.at_ns),
            granted_ms: ms(next.granted.at_ns),
            recovery_ms: ms(next.granted.at_ns - died.at_ns),
        });
        Self {
            scenario: &header.scenario,
            strategy: &header.strategy,
            timestamp: &header.recorded,
            schema: "fencepost/trial/2",
            version: &header.version,
            store: &header.store,
            seed: header.seed,
            options: Options::of(&judged.trial),
            total_duration_ms: ms(facts.end_ns),
            holds: facts.holds.iter().map(HoldEntry::of).collect(),
            operations: facts.ops.iter().map(OpEntry::of).collect(),
            purchases: facts.buys.iter().map(BuyEntry::of).collect(),
            faults: facts.faults.iter().map(FaultEntry::of).collect(),
            servers: facts.servers.iter().map(ServerEntry::of).collect(),
            number: Number {
                initial: 0,
                r#final: facts.number(),
                additions: facts.additions(),
                lost_updates: checks.lost_updates(),
            },
            overlaps: checks
                .overlaps()
                .into_iter()
                .map(OverlapEntry::of)
                .collect(),
            wait_cycles: facts.cycles().iter().map(CycleEntry::of).collect(),
            recovery,
            shortest_conviction: judged.shortest.as_ref().map(|shortest| Beginning {
                events: shortest.events,
                of: judged.events.len(),
            }),
            stuck_ms: checks.stuck().map(|stuck| ms(stuck.lasted_ns)),
            verdict: VerdictEntry::of(&judged.verdict, judged.expected(), judged.reproduce()),
        }
    }
}

impl Options {
    fn of(trial: &Trial) -> Self {
        Self {
            ttl_ms: trial.ttl_ms,
            work_ms: (trial.scenario == Scenario::TtlEdge).then_some(trial.work_ms),
            storm: trial.storm,
        }
    }
}

impl<'a> HoldEntry<'a> {
    fn of(hold: &'a Hold) -> Self {
        let ended = match (hold.killed, hold.released, hold.release, hold.learned_at) {
            (Some(_), ..) => "killed",
            (_, Some((_, ReleaseResult::AlreadyLost)), ..) => "already_lost",
            (_, _, Some(_), _) => "released",
            (_, _, None, Some(_)) => "lost",
            (_, _, None, None) => "open",
        };
        Self {
            who: &hold.who,
            lock: &hold.key,
            fence: hold.fence.as_deref(),
            asked_ms: ms(hold.asked.at_ns),
            granted_ms: ms(hold.granted.at_ns),
            lease_over_ms: hold.lease_over.map(|over| ms(over.at_ns)),
            believed_until_ms: ms(hold.believed_until_ns),
            ended,
            event: hold.granted.event,
        }
    }
}

impl<'a> OpEntry<'a> {
    fn of(op: &'a Op) -> Self {
        Self {
            op: op.serial,
            who: &op.who,
            action: op.action,
            value: op.value,
            fence: op.fence.as_deref(),
            refused: op.refused,
            at_ms: ms(op.mark.at_ns),
            event: op.mark.event,
        }
    }
}

impl<'a> BuyEntry<'a> {
    fn of(buy: &'a crate::holds::facts::Buy) -> Self {
        Self {
            who: &buy.who,
            asked_ms: ms(buy.asked.at_ns),
            at_ms: buy.answer.map(|(mark, _)| ms(mark.at_ns)),
            outcome: buy.answer.map(|(_, outcome)| outcome),
            event: buy.answer.map(|(mark, _)| mark.event),
        }
    }
}

impl<'a> FaultEntry<'a> {
    fn of(seen: &'a FaultSeen) -> Self {
        Self {
            who: &seen.who,
            fault: seen.fault,
            at_ms: ms(seen.mark.at_ns),
            event: seen.mark.event,
        }
    }
}

impl<'a> ServerEntry<'a> {
    fn of(changed: &'a ServerChange) -> Self {
        Self {
            server: &changed.server,
            change: changed.change,
            at_ms: ms(changed.mark.at_ns),
            event: changed.mark.event,
        }
    }
}

impl<'a> OverlapEntry<'a> {
    fn of(overlap: Overlap<'a>) -> Self {
        Self {
            lock: &overlap.first.key,
            first: &overlap.first.who,
            second: &overlap.second.who,
            from_ms: ms(overlap.from_ns),
            until_ms: ms(overlap.until_ns),
            within_lease: overlap.is_within_lease(),
        }
    }
}

impl CycleEntry {
    fn of(cycle: &Cycle) -> Self {
        Self {
            processes: cycle.who.clone(),
            since_ms: ms(cycle.since.at_ns),
            lasted_ms: ms(cycle.lasted_ns),
            event: cycle.since.event,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_lists_every_scenario() {
        let schema = include_str!("../../../../../docs/schema/report.json");
        let schema: Value = serde_json::from_str(schema).unwrap();
        let listed = &schema["$defs"]["trial"]["properties"]["scenario"]["enum"];
        assert_eq!(
            *listed,
            serde_json::json!(Scenario::ALL.map(Scenario::name).to_vec())
        );
    }
}
