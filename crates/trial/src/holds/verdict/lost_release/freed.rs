//! A repeated release of A's that freed B's lock: C was refused while B had it, and granted it when A was done with its release.

use super::super::Court;
use super::super::evidence;
use super::super::false_release::{met_by_release, met_evidence, releases};
use super::super::overlap::two_holders;
use crate::history::Fault;
use crate::holds::OTHER;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark};
use crate::verdict::{Evidence, Outcome, Verdict};

/// What happened, in the order of the fields.
pub(super) struct Freed<'a> {
    /// The hold of A whose release was spoiled.
    released: &'a Hold,
    /// B's hold.
    first: &'a Hold,
    /// When C was refused because of it.
    refused: Mark,
    /// When A had answered.
    answered: Mark,
    /// C's hold.
    second: &'a Hold,
}

impl<'a> Freed<'a> {
    /// Returns the first of them; `None` if there are none, or if something else may have ended B's lock.
    pub(super) fn of(court: &'a Court<'_>) -> Option<Self> {
        let own = releases(court).into_iter();
        own.filter_map(|released| Self::by(court, released)).next()
    }

    fn by(court: &'a Court<'_>, released: &'a Hold) -> Option<Self> {
        let (met, _) = court.checks.spoiled_release(released)?;
        let answered = court.checks.release_answered(released)?;
        let holds = court.facts.holds.iter();
        let mut beside = holds.filter(|hold| {
            let is_other = hold.who == OTHER && hold.key == released.key;
            is_other && met < hold.granted && hold.granted < answered
        });
        beside.find_map(|first| {
            let waits = court.facts.waits.iter();
            let kept_out = waits.filter(|wait| wait.key == first.key && wait.asked > first.granted);
            let mut refused = kept_out.filter_map(|wait| wait.refused());
            let refused = refused.find(|refused| *refused < answered)?;
            let second = court.checks.granted_beside(first, answered)?;
            Some(Self {
                released,
                first,
                refused,
                answered,
                second,
            })
        })
    }

    pub(super) fn verdict(&self, court: &Court<'_>) -> Verdict {
        let met = met_by_release(court, self.released);
        let is_lost = met.is_none_or(|(_, fault)| fault != Fault::ReplyHeld);
        let overlaps = court.checks.overlaps();
        let mut overlaps = overlaps.iter();
        let overlap = overlaps.find(|one| {
            one.first.granted == self.first.granted && one.second.granted == self.second.granted
        });
        let mut verdict = Verdict {
            evidence: self.evidence(court, met),
            why: Some(self.why(court, is_lost)),
            next: court
                .next(
                    "safe",
                    "a release compares the owner, also when it is repeated",
                )
                .into_iter()
                .collect(),
            ..Verdict::bare(
                Outcome::Broken,
                format!(
                    "{}: the reply to A's release was {}, and A's release freed B's lock.{}",
                    if overlap.is_some() {
                        "Two holders at once"
                    } else {
                        "B's lock was gone within its lease"
                    },
                    if is_lost { "lost" } else { "held back" },
                    court.losses()
                ),
            )
        };
        verdict.belief.text = overlap.map(|one: &Overlap<'_>| two_holders(one));
        verdict
    }

    fn evidence(&self, court: &Court<'_>, met: Option<(Mark, Fault)>) -> Vec<Evidence> {
        let Self {
            released,
            first,
            second,
            ..
        } = self;
        let granted = |hold: &Hold| {
            let sentence = format!("{} is granted {}", hold.who, hold.key);
            evidence(hold.granted, &hold.who, "granted", sentence)
        };
        let refusal = format!("{} is refused", second.who);
        let done = format!("{} is done with its release", released.who);
        met.map(|(mark, fault)| met_evidence(mark, fault, &released.who))
            .into_iter()
            .chain([
                granted(first),
                evidence(self.refused, &second.who, "refused", refusal),
                evidence(self.answered, &released.who, "answered", done),
                granted(second),
            ])
            .chain(court.interleaving())
            .collect()
    }

    fn why(&self, court: &Court<'_>, is_lost: bool) -> String {
        let lease_ns = self.released.asked.at_ns.saturating_add(court.ttl_ns());
        let ends_by_itself = !court.claims.untimed && self.first.granted.at_ns >= lease_ns;
        let begins = if ends_by_itself {
            "The reply to A's release was held back."
        } else {
            "A's release was done when its reply was held back."
        };
        let learns = if is_lost {
            "A learned that the reply was lost, and when it had answered,"
        } else {
            "When A had answered,"
        };
        format!(
            "{begins} B got the lock, and {} was refused. {learns} B's lock was gone within its lease: a repeated release that does \
             not compare the owner does this.",
            self.second.who
        )
    }
}
