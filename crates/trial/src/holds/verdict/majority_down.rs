//! Judges `majority-down`: two of three servers were dead for longer than a lease while A held the lock, and came back with their data. Did
//! anybody get the lock without a majority, and could the lock be taken when the majority was back?

use super::Court;
use super::outage::{
    Afterwards, afterwards, named, not_contended, not_overtaken, not_witnessed, two_holders,
    what_became,
};
use crate::holds::check::Outage;
use crate::holds::facts::{Hold, Mark, Wait, WaitEnd};
use crate::text::numbers::ms;
use crate::verdict::{Lack, Outcome, Verdict};

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    if let Some(broken) = two_holders(court) {
        return broken;
    }
    if let Some(overrun) = court.overrun().filter(|_| court.is_damaged()) {
        return overrun;
    }
    let Some((outage, hold)) = court.long_outage() else {
        return not_witnessed();
    };
    let asked = court.asked_during(outage);
    if !court.was_contended_before(outage, hold) || asked.is_empty() {
        return not_contended();
    }
    if let Some(granted) = granted_during(court, outage, hold) {
        return Verdict::inconclusive(
            format!(
                "{} got the lock while two of three servers were dead, and nobody else got it within its lease.",
                granted.who
            ),
            Lack::Contention,
            "a majority that comes back in time to let somebody else in. Run it again.",
        );
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
            acquit(court, outage, hold, &asked, again)
        }
    }
}

/// Returns a hold of A's lock that was granted when two servers were certainly dead.
fn granted_during<'a>(court: &'a Court<'_>, outage: &Outage<'_>, hold: &Hold) -> Option<&'a Hold> {
    let mut holds = court.facts.holds.iter();
    holds.find(|other| {
        let is_during = outage.contains(other.asked) && other.granted < outage.until;
        other.key == hold.key && is_during
    })
}

/// Returns words such as "B was told of an error after 3.1 ms".
fn answered(wait: &Wait) -> String {
    let took = |mark: Mark| ms(mark.at_ns.saturating_sub(wait.asked.at_ns));
    let who = &wait.who;
    match wait.answer {
        Some((mark, WaitEnd::Refused)) => format!("{who} was refused after {} ms", took(mark)),
        Some((mark, WaitEnd::Unknown)) => {
            format!("{who} was told of an error after {} ms", took(mark))
        }
        Some((mark, WaitEnd::Granted)) => {
            format!(
                "{who} got the lock {} ms later, when they were back",
                took(mark)
            )
        }
        None => format!("{who} got no answer"),
    }
}

fn acquit(
    court: &Court<'_>,
    outage: &Outage<'_>,
    hold: &Hold,
    asked: &[&Wait],
    again: String,
) -> Verdict {
    let answers: Vec<String> = asked.iter().map(|wait| answered(wait)).collect();
    Verdict {
        witness: vec![
            format!(
                "{} were dead for {} ms, longer than A's lease; B had been refused before",
                named(outage),
                ms(outage.lasted_ns())
            ),
            format!("meanwhile: {}", answers.join("; ")),
            format!("then {}; {again}", what_became(court, outage, hold)),
        ],
        limits: Some("nobody can take or renew a lock while there is no majority".into()),
        ..Verdict::bare(
            Outcome::Held,
            "Nobody got the lock without a majority, and the lock could be taken when the majority was back.",
        )
    }
}
