//! The verdict on a lock trial, derived from its history alone.
//!
//! Damage at the resource breaks a lock, and so do two holders at once. The exception is a lock that promises fences when the
//! first holder's lease may have expired: then the resource must refuse the late holder, and the verdict depends on whether it
//! did. Promised fences must be present, and they must increase.
//!
//! Each scenario judges its own question. What every lock promises is judged after that, in the same way in all of them.

use std::collections::HashMap;

use super::check::{Findings, Overlap, Stuck};
use super::facts::{Facts, Inspection, Mark, Op};
use super::{Scenario, Trial};
use crate::history::{Fault, Header};
use crate::protocol::{Action, Claims};
use crate::strategy;
use crate::text::capital;
use crate::text::numbers::{ShortFences, count, in_words, plural};
use crate::verdict::{Axis, Belief, Cited, Damage, Evidence, Missing, Next, Outcome, Verdict};

mod absence;
mod cause;
mod crash;
mod deadlock;
mod edge;
mod fences;
mod lost_reply;
mod lost_store;
mod pause;
mod promises;
mod slow;
mod stale;
mod stock;
mod storm;
mod stuck;
mod wakeup;

pub(crate) use deadlock::waits as waits_in_words;
pub(crate) use fences::WHY as WHY_FENCES;

/// Judges a lock trial. An unknown scenario is inconclusive.
pub fn judge(header: &Header, facts: &Facts) -> Verdict {
    let Some(scenario) = Scenario::find(&header.scenario) else {
        let because = format!("There is no scenario '{}' to judge by.", header.scenario);
        return inconclusive(because, "scenario", "a scenario that this version knows.");
    };
    let court = Court {
        header,
        facts,
        findings: Findings::of(header, facts),
        claims: strategy::claims_of(header),
        trial: Trial::of(header),
    };
    let mut verdict = match scenario {
        Scenario::Crash => crash::judge(&court),
        Scenario::TtlEdge => edge::judge(&court),
        Scenario::Deadlock => deadlock::judge(&court),
        Scenario::Sorted => deadlock::judge_sorted(&court),
        Scenario::StaleRelease => stale::judge(&court),
        Scenario::ShortStock => stock::judge(&court),
        Scenario::Pause => pause::judge(&court),
        Scenario::Failover | Scenario::RestartEmpty => lost_store::judge(&court),
        Scenario::LostWakeup => wakeup::judge(&court),
        Scenario::Cut => pause::judge_cut(&court),
        Scenario::SlowReplies => slow::judge(&court),
        Scenario::LostReply => lost_reply::judge(&court),
        Scenario::Storm => storm::judge(&court),
    };
    verdict = promises::judge(&court, verdict);
    verdict.notes.extend(promises::notes(&court));
    verdict.checks = court.findings.list();
    court.add_axes(&mut verdict);
    if verdict.outcome == Outcome::Inconclusive {
        let failed = facts.failures.iter();
        let notes = failed.map(|(_, who, message)| format!("{who}: {message}"));
        verdict.notes.extend(notes);
    }
    limit(&mut verdict.notes);
    verdict
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

/// Everything that a verdict is based on.
struct Court<'a> {
    header: &'a Header,
    facts: &'a Facts,
    findings: Findings<'a>,
    claims: Claims,
    /// The trial, if the strategy is one of ours.
    trial: Option<Trial>,
}

/// A write based on an outdated read: the read, the write that came between, and the write that overwrote it.
struct Lost<'a> {
    read: &'a Op,
    between: &'a Op,
    write: &'a Op,
}

impl Lost<'_> {
    /// "A writes 1: computed from op 1, B's update is gone"
    fn evidence(&self) -> Evidence {
        let sentence = format!(
            "{}: computed from op {}, {}'s update is gone",
            did(self.write),
            self.read.serial,
            self.between.who
        );
        op_evidence(self.write, sentence)
    }
}

impl Court<'_> {
    fn ttl_ns(&self) -> u64 {
        self.findings.ttl_ns
    }

    /// Returns the overlaps that count against this lock. If the lock promises fences, only overlaps within a lease count.
    fn guilty_overlaps(&self) -> Vec<Overlap<'_>> {
        let mut overlaps = self.findings.overlaps();
        let ttl_ns = self.ttl_ns();
        overlaps.retain(|overlap| !self.claims.fencing || overlap.is_within_lease(ttl_ns));
        overlaps
    }

    /// Returns an inconclusive verdict: two processes met, but a lease may have been over by then.
    fn overrun(&self) -> Option<Verdict> {
        let met = self.is_damaged() || !self.findings.overlaps().is_empty();
        met.then(|| {
            inconclusive(
                "Two processes held the lock at once, but a lease may have been over by then.",
                "calm",
                "a machine that is less busy, or a longer --ttl.",
            )
        })
    }

    fn is_damaged(&self) -> bool {
        self.findings.lost_updates() > 0 || self.findings.interleaved().is_some()
    }

    /// Returns the first update that was overwritten.
    fn lost(&self) -> Option<Lost<'_>> {
        let [read, between, write] = lost_update(self.facts)?;
        Some(Lost {
            read,
            between,
            write,
        })
    }

    /// " One update is lost.", or an empty string if no update is lost.
    fn losses(&self) -> String {
        match self.findings.lost_updates() {
            0 => String::new(),
            lost => {
                let text = in_words(lost, "update is lost", "updates are lost");
                format!(" {}.", capital(&text))
            }
        }
    }

    /// Adds the two axes: what holders believed, and what happened to the number.
    fn add_axes(&self, verdict: &mut Verdict) {
        let overlaps = self.findings.overlaps();
        if verdict.belief.code == Belief::NotApplicable && !self.facts.holds.is_empty() {
            verdict.belief.code = belief_in(&overlaps);
        }
        let mut damage = Vec::new();
        if self.findings.lost_updates() > 0 {
            damage.push(Damage::LostUpdate);
        }
        if self.findings.interleaved().is_some() {
            damage.push(Damage::Interleaved);
        }
        if !damage.is_empty() {
            let additions = self.facts.additions();
            let additions = plural(additions.max(0) as usize, "addition", "additions");
            let number = count(self.facts.number());
            verdict.damage = Axis {
                code: damage,
                text: Some(format!("{additions} acknowledged, the number is {number}")),
            };
        }
    }

    /// Returns the operations in which two holds interleave, as one piece of evidence.
    fn interleaving(&self) -> Option<Evidence> {
        let (_, last) = self.findings.interleaved()?;
        let accepted: Vec<&Op> = self.facts.ops.iter().filter(|op| !op.refused).collect();
        let first = accepted
            .iter()
            .find(|op| op.who == last.who && op.hold == last.hold)?;
        let range = accepted
            .iter()
            .filter(|op| op.key == first.key && op.serial >= first.serial)
            .take(4);
        let range: Vec<_> = range.collect();
        let said: Vec<String> = range.iter().map(|op| did(op)).collect();
        let end = range.last().map_or(last.serial, |op| op.serial);
        Some(Evidence {
            cited: Cited::Ops(first.serial, end),
            ..evidence(
                first.mark,
                &first.who,
                "interleaved",
                format!("{}: the two holds interleave", said.join(", ")),
            )
        })
    }

    fn refused_op(&self) -> Option<&Op> {
        self.facts.ops.iter().find(|op| op.refused)
    }

    /// "fence 1.0; it had seen 2.0"
    fn fences(&self, op: &Op) -> String {
        let fences = ShortFences::among(&self.facts.fences());
        let short = |fence: Option<&str>| fences.shorten(fence.unwrap_or("none"));
        let (own, highest) = (short(op.fence.as_deref()), short(op.highest.as_deref()));
        format!("fence {own}; it had seen {highest}")
    }

    fn why_strategy(&self) -> Option<String> {
        let strategy = self.trial.as_ref()?.strategy;
        strategy.flaw.map(Into::into)
    }

    /// Suggests the same trial with another strategy, if it can be run.
    fn next(&self, strategy: &str, remark: &'static str) -> Option<Next> {
        let trial = self.trial.as_ref()?;
        let is_there = strategy::find(strategy)?.stores.include(&trial.store);
        let command = is_there.then(|| trial.command(strategy))?;
        Some(Next { command, remark })
    }

    /// Returns whether this command runs the trial that was just run.
    fn runs(&self, command: &str) -> bool {
        let own = |trial: &Trial| trial.command(trial.strategy.argument()) == command;
        self.trial.as_ref().is_some_and(own)
    }

    /// Suggests another scenario with the same strategy.
    fn next_scenario(&self, scenario: Scenario, remark: &'static str) -> Option<Next> {
        let trial = self.trial.as_ref()?;
        // The work of this trial may be shorter than the lease of that scenario, which would show nothing.
        let other = Trial::on(scenario, trial.strategy, trial.store.clone(), trial.seed);
        let command = other.brief_command();
        Some(Next { command, remark })
    }

    /// Returns an inconclusive verdict: the run shows neither that a promise was kept nor that it was broken.
    fn unanswered(&self) -> Verdict {
        inconclusive(
            "Nothing broke, and nothing was shown: the trial did not come to its end.",
            "answers",
            "answers to everything that was asked; the notes say what happened.",
        )
    }

    /// Returns the lab's last inspection of the lock that was refused then, or of any lock.
    fn inspection_of(&self, stuck: &Stuck) -> Option<&Inspection> {
        let (_, refused) = stuck.refused.last()?;
        let mut waits = self.facts.waits.iter();
        let key = waits.find(|wait| wait.refused() == Some(*refused));
        let key = key.map(|wait| wait.key.as_str());
        let is_same = |inspection: &&Inspection| key.is_none_or(|key| inspection.key == key);
        let all = self.facts.inspections.iter().rev();
        all.clone().find(is_same).or(all.clone().next())
    }

    /// Returns the state of the stuck lock in the store, as the lab saw it.
    fn last_inspection(&self, stuck: &Stuck) -> Option<Evidence> {
        let inspection = self.inspection_of(stuck)?;
        let sentence = match (inspection.taken, inspection.ttl_left_ms) {
            (false, _) => "the lab reads the store: no key".to_owned(),
            (true, None) => {
                let is_killed = |(.., fault): &(_, _, Fault)| *fault == Fault::Killed;
                let is_lost = |(.., fault): &(_, _, Fault)| *fault == Fault::ReplyLost;
                let owner = if self.facts.faults.iter().any(is_killed) {
                    "owner gone"
                } else if self.facts.faults.iter().any(is_lost) {
                    "owner unaware"
                } else if self.facts.cycles().is_empty() {
                    "owner done with it"
                } else {
                    "owner waiting"
                };
                format!("the lab reads the store: key there, no expiry, {owner}")
            }
            (true, Some(left)) => format!(
                "the lab reads the store: key there, {} ms left",
                crate::text::numbers::decimal(left)
            ),
        };
        Some(evidence(inspection.mark, "lab", "store", sentence))
    }
}

/// Returns a write that is based on an outdated read: the read, the first write in between, and the write.
pub(super) fn lost_update(facts: &Facts) -> Option<[&Op; 3]> {
    let mut of_key: HashMap<&str, Vec<&Op>> = HashMap::new();
    for op in facts.ops.iter().filter(|op| !op.refused) {
        of_key.entry(&op.key).or_default().push(op);
    }
    let lost = of_key.into_values().filter_map(|ops| lost_among(&ops));
    // The operations were made one after the other, whatever lock they belong to.
    lost.min_by_key(|[.., write]| write.mark.event)
}

/// Does the same for the operations on one number.
fn lost_among<'a>(accepted: &[&'a Op]) -> Option<[&'a Op; 3]> {
    let writes = NextWrites::of(accepted);
    let mut reads: HashMap<(&str, u64), usize> = HashMap::new();
    accepted.iter().enumerate().find_map(|(index, write)| {
        if write.action == Action::Read {
            reads.insert(own(write), index);
            return None;
        }
        let read = *reads.get(&own(write))?;
        let between = writes.by_others_after(read, own(write))?;
        (between < index).then(|| [accepted[read], accepted[between], *write])
    })
}

/// Returns the hold that an operation names.
fn own(op: &Op) -> (&str, u64) {
    (&op.who, op.hold)
}

/// Finds the next write after an operation.
struct NextWrites<'a> {
    /// For each operation, the next write after it, and the next one after that by another hold.
    after: Vec<(Option<usize>, Option<usize>)>,
    ops: &'a [&'a Op],
}

impl<'a> NextWrites<'a> {
    fn of(ops: &'a [&'a Op]) -> Self {
        let mut after = vec![(None, None); ops.len()];
        for index in (1..ops.len()).rev() {
            let (next, other) = after[index];
            after[index - 1] = match (ops[index].action, next) {
                (Action::Read, _) => (next, other),
                (Action::Write, Some(next)) if own(ops[next]) != own(ops[index]) => {
                    (Some(index), Some(next))
                }
                (Action::Write, _) => (Some(index), other),
            };
        }
        Self { after, ops }
    }

    /// Returns the first write after this operation that does not belong to this hold.
    fn by_others_after(&self, index: usize, hold: (&str, u64)) -> Option<usize> {
        let (next, other) = self.after[index];
        next.filter(|next| own(self.ops[*next]) != hold).or(other)
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

fn inconclusive(because: impl Into<String>, what: &'static str, advice: &'static str) -> Verdict {
    Verdict {
        missing: Some(Missing { what, advice }),
        ..Verdict::bare(Outcome::Inconclusive, because)
    }
}

/// Returns an inconclusive verdict: something seems to have taken too long, but the lab's clock says nothing about it.
fn stalled(because: impl Into<String>) -> Verdict {
    inconclusive(
        because,
        "calm",
        "a lab that is not stopped, on a machine that is less busy.",
    )
}

#[cfg(test)]
mod tests;
