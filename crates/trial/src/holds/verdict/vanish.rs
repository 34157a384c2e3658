//! Judges `vanish`: the holder's machine vanished from the network, so no connection of the holder's ended. Did somebody else get its lock, and
//! when?

use super::recovery::{in_doubt, limits, measured, promised, why_late};
use super::{Court, evidence, stalled};
use crate::history::Fault;
use crate::holds::HOLDER;
use crate::holds::facts::{Hold, Mark};
use crate::text::numbers::ms;
use crate::verdict::{Evidence, Lack, Outcome, Verdict};

/// Judges what came after the holder was gone. A lock that nobody can have for three TTLs is judged with those of the other scenarios.
pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let Some(gone) = Gone::of(court) else {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A's machine was not seen to vanish.",
            Lack::Vanish,
            "a lock that reaches its store through the address it is given, and a holder that is seen to die.",
        );
    };
    let Some(hold) = court.facts.first_of(HOLDER) else {
        return court.unanswered();
    };
    let lease_ns = hold.asked.at_ns.saturating_add(court.ttl_ns());
    let has_no_end = court.claims.keep_alive || court.claims.untimed;
    let was_held = hold.granted < gone.vanished && hold.killed == Some(gone.died);
    if !was_held || gone.died.at_ns >= lease_ns && !has_no_end {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A held nothing any more when its machine vanished.",
            Lack::Hold,
            "a lease that outlives its holder: a longer --ttl.",
        );
    }
    match court.checks.recovery() {
        Some((_, next)) => gone.recovered(court, hold, next),
        None => court.unanswered(),
    }
}

/// When the holder's machine vanished, and when the holder died with it.
struct Gone {
    vanished: Mark,
    died: Mark,
}

impl Gone {
    /// Returns `None` unless both were seen, in this order. Whoever dies before its machine vanishes has ended its connections.
    fn of(court: &Court<'_>) -> Option<Self> {
        let vanished = court.facts.fault_of(HOLDER, Fault::Vanished)?;
        let died = court.facts.fault_of(HOLDER, Fault::Killed)?;
        (vanished < died).then_some(Self { vanished, died })
    }

    /// Returns the verdict on a run in which `next` got the lock.
    fn recovered(&self, court: &Court<'_>, hold: &Hold, next: &Hold) -> Verdict {
        let took_ns = next.granted.at_ns.saturating_sub(self.died.at_ns);
        let bound_ns = court.checks.recovery_bound_ns();
        let is_late = bound_ns.is_some_and(|bound_ns| took_ns > bound_ns);
        if is_late && court.checks.has_stalled(self.vanished, next.granted) {
            return stalled(format!(
                "{} got the lock {} ms after A was gone, but the lab itself stalled meanwhile.",
                next.who,
                ms(took_ns)
            ));
        }
        if is_late {
            return self.late(court, next, took_ns);
        }
        if court.checks.recovered_in_doubt(took_ns) {
            return in_doubt(
                court,
                &format!("{} ms after A's machine had vanished", ms(took_ns)),
            );
        }
        let Some(refused) = self.kept_out(court) else {
            return Verdict::inconclusive(
                "B got the lock at its first try: nothing shows that A's hold had outlived A.",
                Lack::Contention,
                "somebody whom the lock of the vanished holder keeps out at first.",
            );
        };
        let measured = measured(court, self.died, Some(hold), took_ns);
        Verdict {
            measured: measured
                .filter(|_| !court.claims.untimed)
                .into_iter()
                .collect(),
            witness: vec![format!(
                "A's machine vanished while A held the lock, and no connection of A's ended; B was refused {} ms after A's death",
                ms(refused.at_ns.saturating_sub(self.died.at_ns))
            )],
            limits: Some(if court.claims.untimed {
                "the server found out by itself that A was gone: how soon it does is a setting of its own".into()
            } else {
                limits(court, took_ns)
            }),
            ..Verdict::bare(
                Outcome::Held,
                format!(
                    "Recovered by itself, {} ms after A's machine had vanished.",
                    ms(took_ns)
                ),
            )
        }
    }

    /// Returns when somebody was first refused who had asked after the holder's death.
    fn kept_out(&self, court: &Court<'_>) -> Option<Mark> {
        let mut waits = court.facts.waits.iter();
        waits.find_map(|wait| wait.refused().filter(|_| wait.asked > self.died))
    }

    /// Returns the verdict on a run in which somebody got the lock later than it was promised, or than the lease explains.
    fn late(&self, court: &Court<'_>, next: &Hold, took_ns: u64) -> Verdict {
        let because = format!(
            "Recovered {} ms after A's machine had vanished; {}.",
            ms(took_ns),
            promised(court)
        );
        let granted = format!("{} is granted the lock", next.who);
        let granted = evidence(next.granted, &next.who, "granted", granted);
        Verdict {
            why: Some(why_late(court, self.died, next)),
            evidence: vanished_before(court, HOLDER, self.died)
                .into_iter()
                .chain([granted])
                .collect(),
            ..Verdict::bare(Outcome::Broken, because)
        }
    }
}

/// Returns the moment at which the machine of this process vanished as a piece of evidence, if that was before it died.
pub(super) fn vanished_before(court: &Court<'_>, who: &str, died: Mark) -> Option<Evidence> {
    let vanished = court.facts.fault_of(who, Fault::Vanished)?;
    let sentence = format!("{who}'s machine vanishes: no connection of {who}'s ends");
    (vanished < died).then(|| evidence(vanished, who, "vanished", sentence))
}
