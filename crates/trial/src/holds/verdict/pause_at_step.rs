//! A process was paused at each reply of its store in turn, longer than its lease, and then got the reply: did it go on as if no time had
//! passed?
//!
//! A is the process that is paused, B the one that gets the lock meanwhile, and C the one that tries when the first has answered.

use super::cause::Cause;
use super::overlap::{overlap_evidence, two_holders};
use super::overwritten::{self, FENCED_LIMITS, harmless};
use super::{Court, evidence};
use crate::history::Fault;
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark, Wait};
use crate::holds::{FIRST_LOCK, HOLDER, OTHER, THIRD};
use crate::text::numbers::{count, in_words, ms};
use crate::verdict::{Evidence, Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let pauses = Pause::all(court);
    let overlaps = court.checks.overlaps();
    let guilty = overlaps.iter();
    let guilty = guilty.filter_map(|overlap| Some((overlap, Way::of(court, &pauses, overlap)?)));
    if let Some((overlap, way)) = guilty.min_by_key(|(overlap, _)| overlap.from_ns) {
        return broken(court, overlap, &way, &pauses);
    }
    if court.claims.fencing && court.is_damaged() {
        return overwritten::broken(court, &[]);
    }
    let is_harmless = court.claims.fencing && !court.is_damaged();
    if let Some(overrun) = court.overrun().filter(|_| !is_harmless) {
        return overrun;
    }
    if pauses.is_empty() {
        return Verdict::inconclusive(
            "Nothing broke, and nothing was tested: A was not seen to pause at a reply of its store for longer than its lease.",
            Lack::Pause,
            "a lock that asks its store through the address it is given, without encryption.",
        );
    }
    if let Some(pause) = pauses.iter().find(|pause| !pause.began_in_lease(court)) {
        return Verdict::inconclusive(
            format!(
                "Nothing broke, and not everything was tested: A's lease was over before it was paused {}.",
                pause.phase.words()
            ),
            Lack::Lease,
            "a machine on which A reaches that step within its lease.",
        );
    }
    if let Some(pause) = pauses.iter().find(|pause| !pause.was_dangerous(court)) {
        return Verdict::inconclusive(
            format!(
                "Nothing broke, and not everything was tested: B did not hold the lock when A went on {}.",
                pause.phase.words()
            ),
            Lack::Overrun,
            "somebody who gets the lock while A is paused, and still holds it when A has answered.",
        );
    }
    if let Some(pause) = pauses.iter().find(|pause| !pause.was_followed_up(court)) {
        return Verdict::inconclusive(
            format!(
                "Nothing broke, and not everything was tested: nobody tried B's lock after A had gone on {}.",
                pause.phase.words()
            ),
            Lack::Third,
            "C, which is refused when A has answered, while B certainly holds the lock.",
        );
    }
    if !pauses.iter().any(|pause| pause.phase == Phase::Asking) {
        return court.unanswered();
    }
    acquit(court, &pauses)
}

/// What A was doing when it was paused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Asking,
    Working,
    Releasing,
    /// It asked its store something although it was asked nothing.
    Otherwise,
}

impl Phase {
    const ALL: [Self; 4] = [
        Self::Asking,
        Self::Working,
        Self::Releasing,
        Self::Otherwise,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::Asking => "while it asked for the lock",
            Self::Working => "while it held the lock",
            Self::Releasing => "while it released the lock",
            Self::Otherwise => "while nothing was asked of it",
        }
    }
}

/// A pause at a reply, beyond the lease.
#[derive(Clone, Copy)]
struct Pause {
    held_back: Mark,
    stopped: Mark,
    went_on: Mark,
    phase: Phase,
}

impl Pause {
    /// Returns every pause that certainly lasted longer than a lease.
    fn all(court: &Court<'_>) -> Vec<Self> {
        let faults = court.facts.faults.iter();
        let own: Vec<(Mark, Fault)> = faults
            .filter(|seen| seen.who == HOLDER)
            .map(|seen| (seen.mark, seen.fault))
            .collect();
        let pauses = own.windows(4).filter_map(|four| {
            let (marks, faults): (Vec<Mark>, Vec<Fault>) = four.iter().copied().unzip();
            let expected = [
                Fault::ReplyHeld,
                Fault::Stopped,
                Fault::ReplyDelivered,
                Fault::Continued,
            ];
            let lasted_ns = marks[3].at_ns.saturating_sub(marks[1].at_ns);
            (faults == expected && lasted_ns > court.ttl_ns()).then(|| Self {
                held_back: marks[0],
                stopped: marks[1],
                went_on: marks[3],
                phase: phase(court, marks[0], marks[3]),
            })
        });
        pauses.collect()
    }

    fn lasted_ns(&self) -> u64 {
        self.went_on.at_ns.saturating_sub(self.stopped.at_ns)
    }

    /// Returns whether this was the last reply for which A waited when it asked for the lock: the reply with the next number came when A was
    /// not asking any more. Then the grant was in the reply itself, and not in one that came later.
    fn is_last_while_asking(&self, pauses: &[Self]) -> bool {
        let mut later = pauses.iter().filter(|other| other.stopped > self.stopped);
        later.next().is_some_and(|next| next.phase != Phase::Asking)
    }

    /// Returns whether A still had its lock when the reply was held back, as far as it had been granted the lock. A lease counts from the
    /// request. One that was over by then may be noticed at this very step, and nothing is shown.
    fn began_in_lease(&self, court: &Court<'_>) -> bool {
        if court.claims.keep_alive || court.claims.untimed || self.phase == Phase::Asking {
            return true;
        }
        let mut holds = court.facts.holds.iter();
        let ttl_ns = court.ttl_ns();
        holds.all(|hold| {
            // What the lab reads while A is stopped, A said before.
            let is_over = hold.released.is_some_and(|(mark, _)| mark < self.went_on);
            let is_meant = hold.who == HOLDER && hold.granted < self.held_back && !is_over;
            !is_meant || self.held_back.at_ns < hold.asked.at_ns.saturating_add(ttl_ns)
        })
    }

    /// Returns when A had certainly done whatever it was paused at: when it answered next or, if nothing was asked of it, when it went on.
    fn done_ns(&self, court: &Court<'_>) -> Option<u64> {
        match self.phase {
            Phase::Otherwise => Some(self.went_on.at_ns),
            Phase::Asking | Phase::Working | Phase::Releasing => {
                next_answer_ns(court, self.went_on)
            }
        }
    }

    /// Returns whether B certainly had the lock when A went on, until A had answered. Where A keeps its lock through a pause, B must have
    /// been refused.
    fn was_dangerous(&self, court: &Court<'_>) -> bool {
        let Some(answered_ns) = self.done_ns(court) else {
            return false;
        };
        let is_held = self.is_held_by_b(court, answered_ns);
        let was_refused = |wait: &Wait| {
            let asked_meanwhile = wait.who == OTHER && wait.asked > self.stopped;
            let refused = wait.refused();
            asked_meanwhile && refused.is_some_and(|refused| refused < self.went_on)
        };
        is_held || court.checks.lasts_by_itself() && court.facts.waits.iter().any(was_refused)
    }

    /// Returns whether C was refused after A had answered, while B certainly still had the lock. Where A kept its lock, there is nothing of
    /// B's that A could have freed.
    fn was_followed_up(&self, court: &Court<'_>) -> bool {
        let Some(answered_ns) = self.done_ns(court) else {
            return false;
        };
        let is_refused = |wait: &Wait| {
            let asked_then = wait.who == THIRD && wait.asked.at_ns >= answered_ns;
            let refused = wait
                .refused()
                .filter(|_| asked_then && wait.key == FIRST_LOCK);
            refused.is_some_and(|refused| self.is_held_by_b(court, refused.at_ns))
        };
        !self.is_held_by_b(court, answered_ns) || court.facts.waits.iter().any(is_refused)
    }

    /// Returns whether B got the lock in this pause, and certainly had it when A went on and until this time.
    fn is_held_by_b(&self, court: &Court<'_>, until_ns: u64) -> bool {
        let from_ns = self.went_on.at_ns;
        let mut holds = court.facts.holds.iter();
        holds.any(|hold| {
            hold.who == OTHER
                && hold.key == FIRST_LOCK
                && hold.granted > self.stopped
                && court.checks.certainly_held(hold, from_ns, until_ns)
        })
    }
}

fn phase(court: &Court<'_>, held_back: Mark, went_on: Mark) -> Phase {
    let is_open = |from: Mark, until: Option<Mark>| {
        from < held_back && until.is_none_or(|until| until > went_on)
    };
    let facts = court.facts;
    let mut waits = facts.waits.iter().filter(|wait| wait.who == HOLDER);
    let mut holds = facts.holds.iter().filter(|hold| hold.who == HOLDER);
    let releases = |hold: &Hold| {
        let sent = hold.release;
        sent.is_some_and(|sent| is_open(sent, hold.released.map(|(mark, _)| mark)))
    };
    // A grant that the lab reads while A is stopped was sent before.
    let has_lock = |hold: &Hold| {
        hold.granted < went_on && hold.release.is_none_or(|release| release > went_on)
    };
    if waits.any(|wait| is_open(wait.asked, wait.answer.map(|(mark, _)| mark))) {
        Phase::Asking
    } else if holds.clone().any(releases) {
        Phase::Releasing
    } else if holds.any(has_lock) {
        Phase::Working
    } else {
        Phase::Otherwise
    }
}

/// Returns when A first answered something after this time.
fn next_answer_ns(court: &Court<'_>, after: Mark) -> Option<u64> {
    let facts = court.facts;
    let waits = facts.waits.iter().filter(|wait| wait.who == HOLDER);
    let waits = waits.filter_map(|wait| wait.answer.map(|(mark, _)| mark));
    let holds = facts.holds.iter().filter(|hold| hold.who == HOLDER);
    let holds = holds.flat_map(|hold| [hold.declined, hold.released.map(|(mark, _)| mark)]);
    let ops = facts.ops.iter().filter(|op| op.who == HOLDER);
    let failed = facts.failures.iter().filter(|failed| failed.who == HOLDER);
    let answers = waits
        .chain(holds.flatten())
        .chain(ops.map(|op| op.mark))
        .chain(failed.map(|failed| failed.mark));
    let later = answers.filter(|mark| *mark > after);
    later.map(|mark| mark.at_ns).min()
}

/// How two processes came to hold the lock at once.
enum Way {
    /// A went on with its work after the pause.
    WentOn(Pause),
    /// A got a late reply, and then the lock.
    LateGrant(Pause),
    /// Another process got the lock beside B after A had answered.
    LetIn(Pause),
    /// Both leases were running, whatever the pauses.
    WithinLease,
}

impl Way {
    /// Returns `None` if nobody is to blame: a lease may simply have been over.
    fn of(court: &Court<'_>, pauses: &[Pause], overlap: &Overlap<'_>) -> Option<Self> {
        let (first, second) = (overlap.first, overlap.second);
        let ttl_ns = court.ttl_ns();
        let last = |is: &dyn Fn(&&Pause) -> bool| pauses.iter().rev().find(is).copied();
        // Whose lease ran? B asks when A's is over, and is granted the lock at once.
        let is_running = overlap.from_ns < first.asked.at_ns.saturating_add(ttl_ns)
            || court.checks.has_no_end(overlap);
        match (first.who.as_str(), second.who.as_str()) {
            (HOLDER, OTHER) if !court.claims.fencing && !overlap.is_within_lease() => {
                let is_meanwhile = |pause: &&Pause| {
                    first.asked < pause.stopped
                        && first.granted < pause.went_on
                        && pause.stopped < second.granted
                };
                last(&is_meanwhile).map(Self::WentOn)
            }
            (OTHER, HOLDER) if !court.claims.fencing && is_running => {
                let is_before =
                    |pause: &&Pause| second.asked < pause.stopped && pause.went_on < second.granted;
                last(&is_before).map(Self::LateGrant)
            }
            (OTHER, THIRD) if is_running => {
                let is_before = |pause: &&Pause| pause.went_on < second.granted;
                last(&is_before).map(Self::LetIn)
            }
            _ => None,
        }
        .or_else(|| {
            let within = court.checks.overlaps_within_lease();
            within.contains(overlap).then_some(Self::WithinLease)
        })
    }

    fn pause(&self) -> Option<Pause> {
        match self {
            Self::WentOn(pause) | Self::LateGrant(pause) | Self::LetIn(pause) => Some(*pause),
            Self::WithinLease => None,
        }
    }

    fn headline(&self, court: &Court<'_>, overlap: &Overlap<'_>) -> String {
        match self {
            Self::WentOn(_) if court.checks.lasts_by_itself() => {
                "A went on after a pause, and B had the lock: two holders at once".into()
            }
            Self::WentOn(_) => "A went on after its lease was over: two holders at once".into(),
            Self::LateGrant(_) => "A was granted the lock after a pause, although B held it".into(),
            Self::LetIn(pause) if pause.phase == Phase::Releasing => {
                "A's late release gave B's lock away: C got the lock, too".into()
            }
            Self::LetIn(_) => "C got the lock while B held it".into(),
            Self::WithinLease => Cause::of(court, overlap).headline(),
        }
    }

    fn why(&self, court: &Court<'_>, overlap: &Overlap<'_>, pauses: &[Pause]) -> Option<String> {
        let Some(pause) = self.pause() else {
            return Cause::of(court, overlap).why();
        };
        let paused = format!(
            "A was paused for {} ms, {}, before the reply of its store reached it",
            ms(pause.lasted_ns()),
            pause.phase.words()
        );
        let then = match self {
            Self::WentOn(_) => "then it went on with its work as if no time had passed.",
            Self::LateGrant(pause)
                if pause.is_last_while_asking(pauses) && !court.checks.lasts_by_itself() =>
            {
                "its lease was over by then, and it did not look at the clock."
            }
            Self::LateGrant(_) => "then it was granted the lock although B held it.",
            Self::LetIn(pause) if pause.phase == Phase::Releasing => {
                "what it asked next freed the lock that was there, which was B's."
            }
            Self::LetIn(pause) if pause.phase == Phase::Asking => {
                "what it did next freed the lock that was there, which was B's."
            }
            Self::LetIn(_) | Self::WithinLease => "then C got the lock beside B.",
        };
        Some(format!("{paused}; {then}"))
    }
}

fn broken(court: &Court<'_>, overlap: &Overlap<'_>, way: &Way, pauses: &[Pause]) -> Verdict {
    let paused = way.pause().map(|pause| paused(&pause));
    let mut verdict = Verdict {
        evidence: paused
            .into_iter()
            .flatten()
            .chain(overlap_evidence(Some(overlap)))
            .chain(court.interleaving())
            .collect(),
        why: way.why(court, overlap, pauses),
        next: court.suggest([
            court.next("watchdog", "counts from the request, and stops itself"),
            court.next("fenced", "lets the resource refuse A"),
        ]),
        ..Verdict::bare(
            Outcome::Broken,
            format!("{}.{}", way.headline(court, overlap), court.losses()),
        )
    };
    verdict.belief.text = Some(two_holders(overlap));
    verdict
}

/// Returns the beginning and the end of a pause as evidence.
fn paused(pause: &Pause) -> [Evidence; 2] {
    let began = format!(
        "a reply of the store to A is held back, and A is stopped, {}",
        pause.phase.words()
    );
    let ended = format!(
        "A gets the reply and goes on, {} ms later",
        ms(pause.lasted_ns())
    );
    [
        evidence(pause.held_back, HOLDER, "reply_held", began),
        evidence(pause.went_on, HOLDER, "continued", ended),
    ]
}

/// Returns whether there was a last round, in which A took the lock and released it without a reply that was held back. Otherwise there may
/// be further steps that were not tried.
fn is_complete(court: &Court<'_>, pauses: &[Pause]) -> bool {
    let last = pauses.iter().map(|pause| pause.went_on).max();
    let mut own = court.facts.holds.iter();
    own.any(|hold| {
        hold.who == HOLDER
            && hold.key == FIRST_LOCK
            && hold.released.is_some()
            && last.is_some_and(|last| hold.asked > last)
    })
}

fn acquit(court: &Court<'_>, pauses: &[Pause]) -> Verdict {
    let shortest_ns = pauses.iter().map(Pause::lasted_ns).min();
    let phases = Phase::ALL.into_iter().filter_map(|phase| {
        let times = pauses.iter().filter(|pause| pause.phase == phase).count();
        (times > 0).then(|| format!("{times} × {}", phase.words()))
    });
    let phases: Vec<String> = phases.collect();
    let refused = court.refused_op();
    let (because, limits) = match refused {
        Some(op) => (
            format!(
                "No damage: the resource refused what A did after a pause ({}).",
                court.fences(op)
            ),
            FENCED_LIMITS,
        ),
        None => (
            "A's late replies did no harm: never two holders, no update lost, and B kept its lock."
                .into(),
            "a pause between two steps that ask nothing of the store is another trial: trial pause",
        ),
    };
    let mut verdict = Verdict {
        witness: vec![
            format!(
                "A was paused at {} of its store, for {} ms at least on a lease of {} ms: {}",
                in_words(pauses.len() as i64, "reply", "replies"),
                ms(shortest_ns.unwrap_or_default()),
                count(i64::try_from(court.header.ttl_ms).unwrap_or(i64::MAX)),
                phases.join(", ")
            ),
            if court.checks.lasts_by_itself() {
                "B had the lock when A went on, or had been refused it".into()
            } else {
                "B had the lock each time when A went on, and C was refused it after A had answered"
                    .into()
            },
        ],
        limits: Some(if is_complete(court, pauses) {
            limits.into()
        } else {
            let tried = in_words(pauses.len() as i64, "reply", "replies");
            format!(
                "not every step may have been tried: A was paused at {tried}, and there may be more; {limits}"
            )
        }),
        ..Verdict::bare(Outcome::Held, because)
    };
    if refused.is_some() {
        verdict.belief.text = Some(harmless(court));
    }
    verdict
}
