//! The verdict on a lock trial, derived from its history alone.
//!
//! Damage at the resource breaks a lock, and so do two holders at once. The exception is a lock that promises fences when the
//! first holder's lease may have expired: then the resource must refuse the late holder, and the verdict depends on whether it
//! did. Promised fences must be present, and they must increase.
//!
//! Each scenario judges its own question. What every lock promises is judged after that, in the same way in all of them.

use super::check::{Checks, Overlap};
use super::facts::{Facts, FailedRequest, Mark, Op};
use super::{Scenario, Trial};
use crate::history::Header;
use crate::protocol::Action;
use crate::strategy;
use crate::text::numbers::{count, plural};
use crate::verdict::{Belief, Cited, Evidence, Lack, Outcome, Verdict};

mod absence;
mod cause;
mod client_clock;
mod clock_back;
mod court;
mod crash;
mod dead_connection;
mod deadline;
mod deadlock;
mod deposed;
mod failed_renewal;
mod false_release;
mod fences;
mod kept_alive;
mod late_write;
mod leader_deaths;
mod lost_lock;
mod lost_release;
mod lost_reply;
mod lost_store;
mod lost_update;
mod lost_wakeup;
mod majority_down;
mod many_leases;
mod names;
mod not_granted;
mod one_way;
mod order;
mod outage;
mod overlap;
mod overwritten;
mod pause;
mod pause_at_step;
mod promises;
mod recovery;
mod reentry;
mod same_pid;
mod server_loss;
mod server_stall;
mod short_stock;
mod slow_replies;
mod spoiled;
mod stale_release;
mod store_errors;
mod storm;
mod stuck;
mod taken_away;
mod ttl_edge;
mod turns;
mod vanish;
mod waiters;
mod write_only_fence;

use court::Court;

#[cfg(test)]
pub(super) use lost_update::lost_update;

/// Judges a lock trial. An unknown scenario is inconclusive.
pub fn judge(header: &Header, facts: &Facts) -> Verdict {
    let Some(scenario) = Scenario::find(&header.scenario) else {
        let because = format!("There is no scenario '{}' to judge by.", header.scenario);
        return Verdict::inconclusive(
            because,
            Lack::Scenario,
            "a scenario that this version knows.",
        );
    };
    let court = Court {
        header,
        facts,
        checks: Checks::of(header, facts),
        claims: strategy::claims_of(header),
        trial: Trial::of(header),
    };
    let mut verdict = match facts.slept_ms {
        Some(for_ms) => Verdict::suspended(for_ms),
        None => promises::judge(&court, of_scenario(&court, scenario)),
    };
    verdict = promises::through_the_store(&court, verdict);
    verdict = promises::to_its_end(&court, verdict);
    verdict.notes.extend(promises::notes(&court));
    verdict.checks = court.checks.list();
    court.add_axes(&mut verdict);
    if verdict.outcome == Outcome::Inconclusive {
        let failed = facts.failures.iter();
        let notes = failed.map(|FailedRequest { who, message, .. }| format!("{who}: {message}"));
        verdict.notes.extend(notes);
    }
    limit(&mut verdict.notes);
    verdict
}

/// Returns the answer to the scenario's own question.
fn of_scenario(court: &Court<'_>, scenario: Scenario) -> Verdict {
    match scenario {
        _ if court.facts.not_begun().is_some() => court.not_begun(),
        Scenario::Crash => crash::judge(court),
        Scenario::TtlEdge => ttl_edge::judge(court),
        Scenario::Deadlock => deadlock::judge(court),
        Scenario::DeadlockSorted => deadlock::judge_sorted(court),
        Scenario::StaleRelease => stale_release::judge(court),
        Scenario::ShortStock => short_stock::judge(court),
        Scenario::Pause => pause::judge(court),
        Scenario::Suspend => pause::judge_suspended(court),
        Scenario::ClientClock => client_clock::judge(court),
        Scenario::Failover | Scenario::RestartEmpty | Scenario::RestartBehind => {
            lost_store::judge(court)
        }
        Scenario::ServerClock | Scenario::Eviction => lost_lock::judge(court),
        Scenario::TakenAway => taken_away::judge(court),
        Scenario::Deposed => deposed::judge(court),
        Scenario::ClockBack => clock_back::judge(court),
        Scenario::ServerStall => server_stall::judge(court),
        Scenario::MajorityDown => majority_down::judge(court),
        Scenario::LeaderDeaths => leader_deaths::judge(court),
        Scenario::LostWakeup => lost_wakeup::judge(court),
        Scenario::Names => names::judge(court),
        Scenario::Turns => turns::judge(court),
        Scenario::Waiters => waiters::judge(court),
        Scenario::Deadline => deadline::judge(court),
        Scenario::Order => order::judge(court),
        Scenario::Reentry => reentry::judge(court),
        Scenario::SamePid => same_pid::judge(court),
        Scenario::Cut => pause::judge_cut(court),
        Scenario::CutReplies => one_way::judge_replies(court),
        Scenario::CutRequests => one_way::judge_requests(court),
        Scenario::SlowReplies => slow_replies::judge(court),
        Scenario::LostReply => lost_reply::judge(court),
        Scenario::LostRelease => lost_release::judge(court),
        Scenario::FailedRenewal => failed_renewal::judge(court),
        Scenario::StoreErrors => store_errors::judge(court),
        Scenario::PauseAtStep => pause_at_step::judge(court),
        Scenario::LateWrite => late_write::judge(court),
        Scenario::WriteOnlyFence => write_only_fence::judge(court),
        Scenario::ManyLeases => many_leases::judge(court),
        Scenario::DeadConnection => dead_connection::judge(court),
        Scenario::Vanish => vanish::judge(court),
        Scenario::Storm => storm::judge(court),
    }
}

/// The number of notes that a verdict has at most. A reader learns nothing from the hundredth.
const NOTES_MAX: usize = 20;

/// Leaves out what is too much, and says so.
fn limit(notes: &mut Vec<String>) {
    let further = notes.len().saturating_sub(NOTES_MAX);
    if further > 0 {
        notes.truncate(NOTES_MAX);
        let further = plural(further, "further note is", "further notes are");
        notes.push(format!("{further} left out; the history has everything"));
    }
}

fn did(op: &Op) -> String {
    let verb = match op.action {
        Action::Read => "reads",
        Action::Write => "writes",
    };
    format!("{} {verb} {}", op.who, count(op.value))
}

fn evidence(mark: Mark, who: &str, what: &str, sentence: impl Into<String>) -> Evidence {
    Evidence {
        event: mark.event,
        cited: Cited::Event,
        at_ns: mark.at_ns,
        who: who.into(),
        what: what.into(),
        sentence: sentence.into(),
        shows: String::new(),
    }
}

fn op_evidence(op: &Op, sentence: impl Into<String>) -> Evidence {
    let what = match op.action {
        Action::Read => format!("read {}", op.value),
        Action::Write => format!("write {}", op.value),
    };
    Evidence {
        cited: Cited::Op(op.serial),
        ..evidence(op.mark, &op.who, &what, sentence)
    }
}

fn belief_in(overlaps: &[Overlap<'_>]) -> Belief {
    if overlaps.is_empty() {
        Belief::NoOverlap
    } else {
        Belief::Overlap
    }
}

/// Returns an inconclusive verdict: something seems to have taken too long, but the lab's clock says nothing about it.
fn stalled(because: impl Into<String>) -> Verdict {
    Verdict::inconclusive(
        because,
        Lack::Calm,
        "a lab that is not stopped, on a machine that is less busy.",
    )
}

#[cfg(test)]
mod tests;
