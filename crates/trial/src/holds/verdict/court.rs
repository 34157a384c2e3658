//! What the verdicts of all scenarios share: the facts and checks of a run, the questions that several of them ask, and their sentences.

use super::lost_update::{LostUpdate, lost_update};
use super::{Checks, belief_in, did, evidence, overlap, stalled};
use crate::history::{Fault, Header};
use crate::holds::check::{Overlap, Stuck};
use crate::holds::facts::{Facts, Hold, Inspection, Op};
use crate::holds::{Scenario, Trial};
use crate::protocol::Claims;
use crate::strategy;
use crate::text::capital;
use crate::text::numbers::{ShortFences, count, decimal, in_words, plural};
use crate::verdict::{Axis, Belief, Cited, Damage, Evidence, Lack, Next, Verdict};

/// What a count of all answers to a process and to what it starts does not show.
pub(super) const STARTED_BY_IT: &str = "a program that the process starts is covered only if it asks the C library itself, which Go does not";

/// Everything that a verdict is based on.
pub(super) struct Court<'a> {
    pub(super) header: &'a Header,
    pub(super) facts: &'a Facts,
    pub(super) checks: Checks<'a>,
    pub(super) claims: Claims,
    /// The trial, if the strategy is one of ours.
    pub(super) trial: Option<Trial>,
}

impl Court<'_> {
    pub(super) fn ttl_ns(&self) -> u64 {
        self.checks.ttl_ns
    }

    /// Returns the overlaps that count against this lock. If the lock promises fences, only overlaps within a lease count.
    pub(super) fn guilty_overlaps(&self) -> Vec<Overlap<'_>> {
        let mut overlaps = self.checks.overlaps();
        overlaps.retain(|overlap| !self.claims.fencing || overlap.is_within_lease());
        overlaps
    }

    /// Returns an inconclusive verdict: two processes met, but a lease may have been over by then.
    pub(super) fn overrun(&self) -> Option<Verdict> {
        let met = self.is_damaged() || !self.checks.overlaps().is_empty();
        met.then(|| {
            Verdict::inconclusive(
                "Two processes held the lock at once, but a lease may have been over by then.",
                Lack::Calm,
                "a machine that is less busy, or a longer --ttl.",
            )
        })
    }

    /// Returns an inconclusive verdict if the lock claims that its lease lasts as long as its process, but the lab stalled before each
    /// overlap, and so may have that process.
    pub(super) fn not_renewed_in_a_stall(&self, overlaps: &[Overlap<'_>]) -> Option<Verdict> {
        let lasts = self.claims.keep_alive || self.claims.belongs_to_session();
        let is_excused = |overlap: &Overlap<'_>| {
            !overlap.is_within_lease() && self.checks.has_stalled_before(overlap)
        };
        let is_in_doubt = lasts && !overlaps.is_empty() && overlaps.iter().all(is_excused);
        is_in_doubt.then(|| {
            stalled("Two processes held the lock at once, but the lab itself stalled before that.")
        })
    }

    /// Returns whether the second process was granted the lock while the first one's lease was certainly running.
    pub(super) fn is_taken_over(&self, first: &Hold, second: &Hold) -> bool {
        second.granted.at_ns < first.asked.at_ns.saturating_add(self.ttl_ns())
    }

    /// Returns an inconclusive verdict: A wrote nothing, but nobody else had the lock by then.
    pub(super) fn not_overtaken(&self) -> Verdict {
        Verdict::inconclusive(
            "Nothing broke, and nothing was tested: B did not have the lock when A decided not to write.",
            Lack::Overrun,
            "somebody who gets the lock before A is asked to write.",
        )
    }

    /// Returns an inconclusive verdict if the lock claims to last for as long as its process wants it, but B got it before A gave it back.
    ///
    /// A stopped in time, so nothing broke. But the claim was not kept, and once that may be the machine.
    pub(super) fn not_kept(&self, first: &Hold, other: &Hold) -> Option<Verdict> {
        let lasts =
            self.claims.keep_alive || self.claims.untimed && !self.claims.belongs_to_session();
        let is_kept = first.release.is_some_and(|release| release < other.granted);
        (lasts && !is_kept).then(|| {
            Verdict::inconclusive(
                "A stopped itself in time, but B got a lock that claims to last until A releases it.",
                Lack::Kept,
                "a lock that lasts for as long as it claims, or a machine that is less busy.",
            )
        })
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.checks.lost_updates() > 0 || self.checks.interleaved().is_some()
    }

    /// Returns the first update that was overwritten.
    pub(super) fn lost(&self) -> Option<LostUpdate<'_>> {
        let [read, between, write] = lost_update(self.facts)?;
        Some(LostUpdate {
            read,
            between,
            write,
        })
    }

    /// Returns " One update is lost.", or an empty string if no update is lost.
    pub(super) fn losses(&self) -> String {
        match self.checks.lost_updates() {
            0 => String::new(),
            lost => {
                let text = in_words(lost, "update is lost", "updates are lost");
                format!(" {}.", capital(&text))
            }
        }
    }

    /// Adds the two axes: what holders believed, and what happened to the number.
    pub(super) fn add_axes(&self, verdict: &mut Verdict) {
        let overlaps = self.checks.overlaps();
        if verdict.belief.code == Belief::NotApplicable && !self.facts.holds.is_empty() {
            verdict.belief.code = belief_in(&overlaps);
        }
        let mut damage = Vec::new();
        if self.checks.lost_updates() > 0 {
            damage.push(Damage::LostUpdate);
        }
        if self.checks.interleaved().is_some() {
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
    pub(super) fn interleaving(&self) -> Option<Evidence> {
        let (_, last) = self.checks.interleaved()?;
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

    /// Returns the evidence of damage to the number: the update that was overwritten, otherwise the holds that interleave.
    pub(super) fn damage_evidence(&self) -> Option<Evidence> {
        match self.lost() {
            Some(lost) => Some(lost.evidence()),
            None => self.interleaving(),
        }
    }

    pub(super) fn refused_op(&self) -> Option<&Op> {
        self.facts.ops.iter().find(|op| op.refused)
    }

    /// Returns words such as "fence 1.0; it had seen 2.0".
    pub(super) fn fences(&self, op: &Op) -> String {
        let fences = ShortFences::among(&self.facts.fences());
        let short = |fence: Option<&str>| fences.shorten(fence.unwrap_or("none"));
        let (own, highest) = (short(op.fence.as_deref()), short(op.highest.as_deref()));
        format!("fence {own}; it had seen {highest}")
    }

    pub(super) fn why_strategy(&self) -> Option<String> {
        let strategy = self.trial.as_ref()?.strategy;
        strategy.flaw.map(Into::into)
    }

    /// Suggests the same trial with another strategy, if it can be run.
    pub(super) fn next(&self, strategy: &str, remark: &'static str) -> Option<Next> {
        let trial = self.trial.as_ref()?;
        let is_there = strategy::find(strategy)?.stores.include(&trial.store);
        let command = is_there.then(|| trial.command(strategy))?;
        Some(Next { command, remark })
    }

    /// Returns whether this command runs the trial that was just run.
    pub(super) fn runs(&self, command: &str) -> bool {
        let own = |trial: &Trial| trial.command(trial.strategy.argument()) == command;
        self.trial.as_ref().is_some_and(own)
    }

    /// Returns these suggestions, without the trial that was just run.
    pub(super) fn suggest<const N: usize>(&self, suggested: [Option<Next>; N]) -> Vec<Next> {
        let others = suggested.into_iter().flatten();
        others.filter(|next| !self.runs(&next.command)).collect()
    }

    /// Suggests another scenario with the same strategy.
    pub(super) fn next_scenario(&self, scenario: Scenario, remark: &'static str) -> Option<Next> {
        let trial = self.trial.as_ref()?;
        // The work of this trial may be shorter than the lease of that scenario, which would show nothing.
        let other = Trial::on(scenario, trial.strategy, trial.store.clone(), trial.seed);
        let command = other.brief_command();
        Some(Next { command, remark })
    }

    /// Returns an inconclusive verdict: the run shows neither that a promise was kept nor that it was broken.
    pub(super) fn unanswered(&self) -> Verdict {
        let (because, advice) = if self.facts.failures.is_empty() {
            (
                "Nothing broke, and nothing was shown: the events that would acquit the lock were not seen.",
                "a run in which they happen. Run it again.",
            )
        } else {
            (
                "Nothing broke, and nothing was shown: the trial did not come to its end.",
                "answers to everything that was asked; the notes say what happened.",
            )
        };
        Verdict::inconclusive(because, Lack::Answers, advice)
    }

    /// Returns the verdict on a run in which two holds were mixed within a lease. Two holders within a lease are judged among the promises,
    /// after the scenario; this judges damage that was seen without them.
    pub(super) fn mixed_within_lease(&self) -> Verdict {
        if self.checks.overlaps_within_lease().is_empty() {
            overlap::broken(self, &[])
        } else {
            self.unanswered()
        }
    }

    /// Returns an inconclusive verdict: nobody was asked anything.
    pub(super) fn not_begun(&self) -> Verdict {
        Verdict::not_begun(self.facts.not_begun().unwrap_or_default())
    }

    /// Returns the lab's last inspection of the lock that was refused then, or of any lock.
    pub(super) fn inspection_of(&self, stuck: &Stuck) -> Option<&Inspection> {
        let (_, refused) = stuck.refused.last()?;
        let mut waits = self.facts.waits.iter();
        let key = waits.find(|wait| wait.refused() == Some(*refused));
        let key = key.map(|wait| wait.key.as_str());
        let is_same = |inspection: &&Inspection| key.is_none_or(|key| inspection.key == key);
        let all = self.facts.inspections.iter().rev();
        all.clone().find(is_same).or(all.clone().next())
    }

    /// Returns the state of the stuck lock in the store, as the lab saw it.
    pub(super) fn last_inspection(&self, stuck: &Stuck) -> Option<Evidence> {
        let inspection = self.inspection_of(stuck)?;
        let sentence = match (inspection.taken, inspection.ttl_left_ms) {
            (false, _) => "the lab reads the store: no key".to_owned(),
            (true, None) => {
                let mut faults = self.facts.faults.iter();
                let owner = if faults.clone().any(|seen| seen.fault == Fault::Killed) {
                    "owner gone"
                } else if faults.any(|seen| seen.fault.spoils_reply()) {
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
                decimal(left)
            ),
        };
        Some(evidence(inspection.mark, "lab", "store", sentence))
    }
}
