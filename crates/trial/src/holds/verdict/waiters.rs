//! Several processes waited, the holder was killed, and so was whoever took over: were the others served, one at a time?

use super::Court;
use crate::history::Fault;
use crate::holds::facts::{Hold, Mark, Wait};
use crate::text::numbers::ms;
use crate::verdict::{Lack, Outcome, Verdict};

/// How many processes must wait when the holder dies, at least.
const WAITERS_MIN: usize = 2;

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    if let Some(verdict) = court.broken_within_lease().or_else(|| court.overrun()) {
        return verdict;
    }
    match ServedWaiters::of(court) {
        Ok(line) => acquit(&line),
        Err(because) => Verdict::inconclusive(
            format!("Nothing broke, and nothing was shown: {because}."),
            Lack::Waiters,
            "a holder that dies while others wait, and everybody served after that.",
        ),
    }
}

/// What happened to the processes that waited.
struct ServedWaiters<'a> {
    /// The deaths of the holder and of whoever took over.
    deaths: [Mark; 2],
    /// How many waited at each of them.
    waited: [usize; 2],
    /// Whoever took over and was killed.
    successor: &'a Hold,
    /// The others, in the order in which they were served.
    served: Vec<&'a Hold>,
}

impl<'a> ServedWaiters<'a> {
    fn of(court: &Court<'a>) -> Result<Self, String> {
        let facts = court.facts;
        let killed = facts.faults.iter();
        let killed = killed.filter(|seen| seen.fault == Fault::Killed);
        let held_by = |death: Mark| facts.holds.iter().find(|hold| hold.killed == Some(death));
        let waits_at = |who: &str, death: Mark| {
            let mut waiting = waiting_at(court, death);
            waiting.any(|wait| wait.who == *who)
        };
        let mut waiters = killed.clone();
        if !waiters.any(|dead| held_by(dead.mark).is_none() && waits_at(&dead.who, dead.mark)) {
            return Err("nobody was killed while it waited".into());
        }
        let mut holders = killed.filter_map(|dead| Some((held_by(dead.mark)?, dead.mark)));
        let (_, first) = holders.next().ok_or("no holder was killed")?;
        let (successor, second) = holders.next().ok_or("nobody took over and was killed")?;
        let waited = [first, second].map(|death| waiting_at(court, death).count());
        if waited[0] < WAITERS_MIN || waited[1] == 0 {
            return Err("too few processes waited when the holder died".into());
        }
        if !facts.waits.iter().any(|wait| wait.asked > second) {
            return Err("nobody joined when the lock changed hands".into());
        }
        let is_dead = |wait: &&Wait| facts.fault_of(&wait.who, Fault::Killed).is_some();
        let mut alive = facts.waits.iter().filter(|wait| !is_dead(wait));
        if let Some(wait) = alive.find(|wait| wait.granted().is_none()) {
            return Err(format!("{} was not served", wait.who));
        }
        let served = facts.holds.iter().filter(|hold| hold.granted > second);
        Ok(Self {
            deaths: [first, second],
            waited,
            successor,
            served: served.collect(),
        })
    }
}

/// Returns the requests that were not answered yet at that time, of processes that lived until then.
fn waiting_at<'a>(court: &Court<'a>, at: Mark) -> impl Iterator<Item = &'a Wait> {
    let facts = court.facts;
    facts.waits.iter().filter(move |wait| {
        let died = facts.fault_of(&wait.who, Fault::Killed);
        let is_open = wait.answer.is_none_or(|(answered, _)| answered > at);
        wait.asked < at && is_open && died.is_none_or(|died| died >= at)
    })
}

fn acquit(line: &ServedWaiters<'_>) -> Verdict {
    let [first, second] = line.deaths;
    let next = line.served.first().map_or(0, |hold| hold.granted.at_ns);
    let took = |from: Mark, until_ns: u64| ms(until_ns.saturating_sub(from.at_ns));
    let successor = &line.successor.who;
    let served = [&[line.successor], line.served.as_slice()].concat();
    let mut asked = served.clone();
    asked.sort_by_key(|hold| hold.asked);
    let names = |holds: Vec<&Hold>| {
        let names: Vec<&str> = holds.iter().map(|hold| hold.who.as_str()).collect();
        names.join(", ")
    };
    Verdict {
        measured: vec![
            format!(
                "{successor} took over {} ms after the first kill, and the next process {} ms after the second",
                took(first, line.successor.granted.at_ns),
                took(second, next)
            ),
            format!(
                "served in the order {}; asked in the order {}",
                names(served),
                names(asked)
            ),
        ],
        witness: vec![format!(
            "one that waited died of signal 9, then the holder while {} waited, then {successor} while {} waited; somebody joined after that",
            line.waited[0], line.waited[1]
        )],
        limits: Some(
            "three deaths at three moments. The order of service is shown, not judged".into(),
        ),
        ..Verdict::bare(
            Outcome::Held,
            "Everybody who waited was served, one at a time, although two holders died, and one that waited.",
        )
    }
}
