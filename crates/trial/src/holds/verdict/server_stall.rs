//! Judges `server-stall`: the server was stopped while A held the lock, twice for less than a lease and once for more. Did A keep a lock
//! that claims to last, was there ever a second holder, and could the lock be taken when the server went on?

use super::outage::{
    Afterwards, afterwards, named, not_contended, not_overtaken, not_witnessed, two_holders,
    what_became,
};
use super::{Court, evidence};
use crate::holds::check::{NOT_KEPT_MIN, Outage, SLACK_NS};
use crate::holds::facts::Hold;
use crate::protocol::ReleaseResult;
use crate::text::capital;
use crate::text::numbers::{in_words, ms};
use crate::verdict::{Evidence, Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    if let Some(broken) = two_holders(court) {
        return broken;
    }
    let brief = BriefStops::of(court);
    let lasts = lasts(court);
    if lasts && brief.certain(court).count() >= NOT_KEPT_MIN {
        return not_kept(court, &brief);
    }
    if lasts && !brief.lapses.is_empty() {
        return lapsed_perhaps(&brief);
    }
    if let Some(overrun) = court.overrun().filter(|_| court.is_damaged()) {
        return overrun;
    }
    let Some((outage, hold)) = court.long_outage() else {
        return not_witnessed();
    };
    if brief.kept == 0 {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: the server was not seen to stop for less than A's lease.",
            Lack::Outage,
            "a server that is seen to stop, and to go on, while A holds the lock.",
        );
    }
    if !court.was_contended_before(outage, hold) || court.asked_during(outage).is_empty() {
        return not_contended();
    }
    if let Some(unshown) = not_overtaken(court, outage, hold) {
        return unshown;
    }
    match afterwards(court) {
        Afterwards::Decided(verdict) => *verdict,
        Afterwards::Taken { next, took_ns } => {
            let again = format!(
                "{} got the lock {} ms after nobody had it",
                next.who,
                ms(took_ns)
            );
            acquit(court, &brief, outage, hold, again)
        }
    }
}

/// Returns whether the lock claims to last while a server is away for less than a lease. A session may end with its connection.
fn lasts(court: &Court<'_>) -> bool {
    court.claims.keep_alive || court.claims.untimed && !court.claims.belongs_to_session()
}

/// A brief stop in which A lost its lock.
struct Lapse<'a> {
    outage: &'a Outage<'a>,
    hold: &'a Hold,
    evidence: Evidence,
}

/// What became of A's lock when the server was stopped for less than a lease.
struct BriefStops<'a> {
    kept: usize,
    longest_ns: u64,
    lapses: Vec<Lapse<'a>>,
}

impl<'a> BriefStops<'a> {
    fn of(court: &'a Court<'_>) -> Self {
        let mut all = Self {
            kept: 0,
            longest_ns: 0,
            lapses: Vec::new(),
        };
        for outage in court.checks.outages() {
            let lasted_ns = outage.lasted_ns();
            let is_brief = outage.is_silent && lasted_ns < court.ttl_ns() / 2;
            let Some(hold) = court.held_since(outage).filter(|_| is_brief) else {
                continue;
            };
            let end = hold.released.map(|(mark, _)| mark);
            // If the machine stalled, the stop may have been longer, or a renewal late.
            if end.is_none_or(|end| court.checks.has_stalled(hold.asked, end)) {
                continue;
            }
            all.longest_ns = all.longest_ns.max(lasted_ns);
            match loss(court, outage, hold) {
                Some(evidence) => all.lapses.push(Lapse {
                    outage,
                    hold,
                    evidence,
                }),
                None => all.kept += 1,
            }
        }
        all
    }
}

impl<'a> BriefStops<'a> {
    /// Returns the losses that no busy machine explains: enough of the lease was left when the server was back.
    fn certain(&self, court: &Court<'_>) -> impl Iterator<Item = &Lapse<'a>> {
        let lapses = self.lapses.iter();
        lapses.filter(|lapse| left_ns(court, lapse) >= SLACK_NS)
    }
}

/// Returns what shows that A lost its lock after a brief stop, although it was still at work.
fn loss(court: &Court<'_>, outage: &Outage<'_>, hold: &Hold) -> Option<Evidence> {
    let release = hold.release?;
    let mut others = court.facts.holds.iter();
    let other = others.find(|other| {
        let is_other = other.key == hold.key && other.who != hold.who;
        is_other && other.granted > outage.from && other.granted < release
    });
    if let Some(other) = other {
        let sentence = format!(
            "{} is granted {}, and A has not released it",
            other.who, other.key
        );
        return Some(evidence(other.granted, &other.who, "granted", sentence));
    }
    if let Some(said) = hold.said_lost.filter(|said| *said > outage.from) {
        let sentence = "A says that its lock is lost";
        return Some(evidence(said, &hold.who, "lost", sentence));
    }
    // Soon after the stop, a process that declines a step may only be unable to rule out a loss. Later, it has not kept its lock.
    let long_after_ns = outage.until.at_ns + SLACK_NS.max(court.ttl_ns() / 2);
    if let Some(declined) = hold
        .declined
        .filter(|declined| declined.at_ns > long_after_ns)
    {
        let after = ms(declined.at_ns - outage.until.at_ns);
        let sentence = format!("A declines to go on, {after} ms after the server was back");
        return Some(evidence(declined, &hold.who, "declined", sentence));
    }
    match hold.released? {
        (mark, ReleaseResult::AlreadyLost) => {
            let sentence = "A's release: no longer the owner";
            Some(evidence(mark, &hold.who, "already_lost", sentence))
        }
        _ => None,
    }
}

fn not_kept(court: &Court<'_>, brief: &BriefStops<'_>) -> Verdict {
    let lapses: Vec<&Lapse<'_>> = brief.certain(court).collect();
    let times = in_words(lapses.len() as i64, "time", "times");
    let why = lapses.first().map(|first| why_lost(court, first));
    Verdict {
        evidence: lapses.iter().map(|lapse| lapse.evidence.clone()).collect(),
        why,
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "A lost its lock {times} although the server was away for less than half of a lease each time, and the lock \
                 claims to last."
            ),
        )
    }
}

fn why_lost(court: &Court<'_>, lapse: &Lapse<'_>) -> String {
    let away = format!(
        "{} was away for {} ms",
        capital(&named(lapse.outage)),
        ms(lapse.outage.lasted_ns())
    );
    let back = if court.claims.untimed {
        format!("{away}, and the lock claims to have no lease")
    } else {
        let left = ms(left_ns(court, lapse));
        format!("{away}, and answered again {left} ms or more before the end of A's lease")
    };
    match lapse.evidence.at_ns.checked_sub(lapse.outage.until.at_ns) {
        Some(after_ns) => format!("{back}; {} ms after that, A's lock was lost.", ms(after_ns)),
        None => format!("{back}; A's lock was lost while it was away."),
    }
}

/// Returns how much of the first lease was certainly left when the server answered again.
fn left_ns(court: &Court<'_>, lapse: &Lapse<'_>) -> u64 {
    let lease_ns = lapse.hold.asked.at_ns.saturating_add(court.ttl_ns());
    lease_ns.saturating_sub(lapse.outage.until.at_ns)
}

fn lapsed_perhaps(brief: &BriefStops<'_>) -> Verdict {
    let lasted = brief
        .lapses
        .first()
        .map_or(0, |lapse| lapse.outage.lasted_ns());
    Verdict::inconclusive(
        format!(
            "A lost its lock when the server was away for {} ms, but not twice with a second of its lease left: that may be the machine.",
            ms(lasted)
        ),
        Lack::Calm,
        "a machine that is less busy, or a longer --ttl.",
    )
}

fn acquit(
    court: &Court<'_>,
    brief: &BriefStops<'_>,
    outage: &Outage<'_>,
    hold: &Hold,
    again: String,
) -> Verdict {
    let lasts = lasts(court);
    let kept = if lasts {
        "A kept its lock"
    } else {
        "nobody else got it within A's lease"
    };
    let times = in_words(brief.kept as i64, "time", "times");
    let because = if lasts {
        "A kept its lock while the server was away for less than a lease, and nobody got it beside A when it was away for longer."
    } else {
        "Nobody got A's lock within its lease while the server was away, and it could be taken when the server was back."
    };
    Verdict {
        witness: vec![
            format!(
                "{} was stopped {times} within the lease, for {} ms at most: {kept}",
                named(outage),
                ms(brief.longest_ns)
            ),
            format!(
                "then for {} ms, and answered no request of the lab; {}",
                ms(outage.lasted_ns()),
                what_became(court, outage, hold)
            ),
            again,
        ],
        limits: Some(limits(court).into()),
        ..Verdict::bare(Outcome::Held, because)
    }
}

fn limits(court: &Court<'_>) -> &'static str {
    if court.claims.keep_alive || court.claims.fencing || court.claims.untimed {
        "a lock cannot be taken or renewed while too few servers answer"
    } else {
        "a lock cannot be taken while too few servers answer; what A does after its lease is not judged without fences"
    }
}
