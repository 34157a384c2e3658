//! A process gave up waiting, and another waited for long: was anything left of the first, and did the second get a whole lease?

use super::overlap::{self, overlap_evidence, two_holders};
use super::{Court, evidence};
use crate::holds::check::{HandOver, Overlap, nanoseconds, with_slack};
use crate::holds::facts::{Hold, Mark, Wait};
use crate::text::numbers::{count, ms};
use crate::verdict::{Lack, Outcome, Verdict};

/// How many waits must have timed out for an acquittal.
const GAVE_UP_MIN: usize = 2;

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    let guilty = court.checks.overlaps_within_lease();
    if !guilty.is_empty() || court.checks.is_damaged_within_lease() {
        return overlap::broken(court, &guilty);
    }
    if let Some((hand_over, overlap)) = court.checks.lease_used_up() {
        return used_up(court, &hand_over, &overlap);
    }
    if let Some((hand_over, learned)) = court.checks.over_after_wait() {
        return over_at_once(court, &hand_over, learned);
    }
    if let Some([first, again]) = court.checks.held_up_by_who_gave_up() {
        return held_up(court, &first, &again);
    }
    if let Some(overrun) = court.overrun() {
        return overrun;
    }
    let mut verdict = match Waits::of(court) {
        Ok(waits) => acquit(court, &waits),
        Err(because) => Verdict::inconclusive(
            format!("Nothing broke, and nothing was shown: {because}."),
            Lack::Waits,
            "a process that gives up in time, and others that are served.",
        ),
    };
    verdict.notes.extend(late_answers(court));
    verdict
}

/// Returns what is worth knowing about answers that came after the time that was given for them. How long an answer takes depends on the
/// machine as well, so this decides nothing.
fn late_answers(court: &Court<'_>) -> Vec<String> {
    let waits = court.facts.waits.iter().filter(|wait| wait.wait_ms > 0);
    let late = waits.filter_map(|wait| {
        let (answered, _) = wait.answer?;
        let took_ns = answered.at_ns.saturating_sub(wait.asked.at_ns);
        (took_ns > with_slack(nanoseconds(wait.wait_ms))).then(|| {
            format!(
                "{} was to wait {} ms, and its answer took {} ms",
                wait.who,
                milliseconds(wait),
                ms(took_ns)
            )
        })
    });
    late.collect()
}

fn milliseconds(wait: &Wait) -> String {
    count(i64::try_from(wait.wait_ms).unwrap_or(i64::MAX))
}

/// Returns the verdict on a run in which somebody got the lock while a process had it that had waited for long.
fn used_up(court: &Court<'_>, hand_over: &HandOver<'_>, overlap: &Overlap<'_>) -> Verdict {
    let Overlap { first, second, .. } = overlap;
    let waited = ms(hand_over.waited_ns());
    let had = ms(overlap.from_ns.saturating_sub(first.granted.at_ns));
    let since = ms(overlap.from_ns.saturating_sub(hand_over.release.at_ns));
    let released = format!("{}'s release is sent", hand_over.from.who);
    let mut proof = vec![evidence(
        hand_over.release,
        &hand_over.from.who,
        "release",
        released,
    )];
    proof.extend(overlap_evidence(Some(overlap)));
    let mut verdict = Verdict {
        evidence: proof,
        why: Some(format!(
            "{} cannot have had the lock before {}'s release, and {} got the lock {since} ms after that, on a lease of {} ms: \
             the lease had begun while {} waited.",
            first.who,
            hand_over.from.who,
            second.who,
            ms(court.ttl_ns()),
            first.who
        )),
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "{} waited {waited} ms for the lock and had it for {had} ms: then {} got it, too.",
                first.who, second.who
            ),
        )
    };
    verdict.belief.text = Some(two_holders(overlap));
    verdict
}

/// Returns the verdict on a run in which a process that had waited for long was granted a lease of which it says that it is over.
fn over_at_once(court: &Court<'_>, hand_over: &HandOver<'_>, learned: Mark) -> Verdict {
    let HandOver {
        from, release, to, ..
    } = hand_over;
    let who = &to.who;
    let had = ms(learned.at_ns.saturating_sub(to.granted.at_ns));
    let since = ms(learned.at_ns.saturating_sub(release.at_ns));
    let released = format!("{}'s release is sent", from.who);
    let granted = format!("{who} is granted {}", to.key);
    Verdict {
        evidence: vec![
            evidence(*release, &from.who, "release", released),
            evidence(to.granted, who, "granted", granted),
            evidence(
                learned,
                who,
                "lost",
                format!("{who} says that its lock is lost"),
            ),
        ],
        why: Some(format!(
            "{who} cannot have had the lock before {}'s release, {since} ms earlier, on a lease of {} ms: it counts its lease from an earlier \
             time, such as the start of its wait, so that a long wait uses it up.",
            from.who,
            ms(court.ttl_ns()),
        )),
        ..Verdict::bare(
            Outcome::Broken,
            format!(
                "{who} waited {} ms for the lock, and {had} ms after it got it, it says that its lock is lost.",
                ms(hand_over.waited_ns())
            ),
        )
    }
}

/// Returns the verdict on a run in which what a process that gave up has left behind keeps the lock from others.
fn held_up(court: &Court<'_>, first: &HandOver<'_>, again: &HandOver<'_>) -> Verdict {
    let all = court.checks.hand_overs().into_iter();
    let usual = all.filter(|one| one.gave_up.is_none());
    let usual_ns = usual.map(|one| one.took_ns()).max().unwrap_or_default();
    let who = first.gave_up.map_or("B", |wait| &wait.who);
    let next = &first.to.who;
    let mut proof = Vec::new();
    for one in [first, again] {
        let refused = one.gave_up.and_then(|wait| Some((wait, wait.refused()?)));
        proof.extend(refused.map(|(wait, mark)| {
            let sentence = format!("{} gives up after {} ms", wait.who, milliseconds(wait));
            evidence(mark, &wait.who, "refused", sentence)
        }));
        let sentence = format!(
            "{} is granted the lock {} ms after {}'s release",
            one.to.who,
            ms(one.took_ns()),
            one.from.who
        );
        proof.push(evidence(one.to.granted, &one.to.who, "granted", sentence));
    }
    Verdict {
        evidence: proof,
        why: Some(format!(
            "Nobody had the lock for {} ms and {} ms although {next} waited. It came within {} ms when nobody had given up: \
             something of {who} was left.",
            ms(first.took_ns()),
            ms(again.took_ns()),
            ms(usual_ns)
        )),
        ..Verdict::bare(
            Outcome::Broken,
            format!("{who} gave up, and {next} had to wait for it all the same."),
        )
    }
}

/// What was shown.
struct Waits<'a> {
    gave_up: Vec<HandOver<'a>>,
    usual: HandOver<'a>,
    /// The long wait.
    long: HandOver<'a>,
    /// How long its holder certainly had the lock when somebody was still refused.
    kept_ns: u64,
}

impl<'a> Waits<'a> {
    fn of(court: &Court<'a>) -> Result<Self, &'static str> {
        let all = court.checks.hand_overs();
        let long_ns = court.ttl_ns() / 2;
        let is_long = |one: &&HandOver<'_>| one.gave_up.is_none() && one.waited_ns() > long_ns;
        let is_usual = |one: &&HandOver<'_>| one.gave_up.is_none() && !is_long(one);
        let in_time = |wait: &Wait| {
            let took_ns = |mark: u64| mark.saturating_sub(wait.asked.at_ns);
            let bound_ns = with_slack(nanoseconds(wait.wait_ms));
            let refused = wait.refused();
            refused.is_some_and(|mark| took_ns(mark.at_ns) <= bound_ns)
        };
        let gave_up: Vec<HandOver<'a>> = all
            .iter()
            .filter(|one| one.gave_up.is_some_and(in_time))
            .copied()
            .collect();
        if gave_up.len() < GAVE_UP_MIN {
            return Err("B did not give up in time while A had the lock and C waited");
        }
        let usual = all.iter().find(is_usual).copied();
        let usual = usual.ok_or("the lock was never handed over without somebody giving up")?;
        let long = all.iter().rev().find(is_long).copied();
        let long = long.ok_or("nobody waited for long and was served")?;
        let kept_ns = kept(court, long.to).ok_or("nobody was refused after the long wait")?;
        Ok(Self {
            gave_up,
            usual,
            long,
            kept_ns,
        })
    }
}

/// Returns how long after its grant another process was still refused this lock, which was held.
fn kept(court: &Court<'_>, hold: &Hold) -> Option<u64> {
    let waits = court.facts.waits.iter();
    let others = waits.filter(|wait| wait.who != hold.who && wait.asked > hold.granted);
    let refused = others.filter_map(|wait| wait.refused());
    let last = refused
        .filter(|mark| mark.at_ns < hold.unquestioned_until_ns())
        .max()?;
    Some(last.at_ns.saturating_sub(hold.granted.at_ns))
}

fn acquit(court: &Court<'_>, waits: &Waits<'_>) -> Verdict {
    let took: Vec<String> = waits.gave_up.iter().map(|one| ms(one.took_ns())).collect();
    let long = waits.long.to;
    Verdict {
        measured: vec![format!(
            "from release to grant: {} ms after B had given up, {} ms otherwise",
            took.join(" and "),
            ms(waits.usual.took_ns())
        )],
        witness: vec![
            format!(
                "B gave up {} times in time while A had the lock, and C was served after that",
                waits.gave_up.len()
            ),
            format!(
                "{} waited {} ms on leases of {} ms, and {} ms after its grant others were still refused",
                long.who,
                ms(waits.long.waited_ns()),
                ms(court.ttl_ns()),
                ms(waits.kept_ns)
            ),
        ],
        limits: Some("waits that time out; a waiter that dies is in waiters".into()),
        ..Verdict::bare(
            Outcome::Held,
            "Whoever gave up left nothing behind, and a grant after a long wait was a whole lease.",
        )
    }
}
