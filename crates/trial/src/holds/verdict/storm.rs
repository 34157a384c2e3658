//! Several processes took turns at several locks in a storm of faults: did the lock keep what every lock promises, and what this one claims?
//!
//! What a lock does not claim is not judged. A plain lease may be overrun by a pause, and what its holder does afterwards accuses nobody.

use std::collections::BTreeSet;

use super::cause::Cause;
use super::overlap::{overlap_evidence, two_holders};
use super::{Court, fences, overwritten};
use crate::history::{Fault, FaultKind, FaultKinds};
use crate::holds::check::Overlap;
use crate::holds::facts::{Hold, Mark, Wait};
use crate::text::numbers::{in_words, plural};
use crate::verdict::{Lack, Outcome, Verdict};

/// How many rounds a storm must have at least to show anything.
const ROUNDS_MIN: usize = 10;

pub(super) fn judge(court: &Court<'_>) -> Verdict {
    if let Some(broken) = fences::judge(court) {
        return broken;
    }
    if court.claims.fencing && court.is_damaged() {
        let mut broken = overwritten::broken(court, &court.guilty_overlaps());
        broken.next.clear();
        return broken;
    }
    if let Some(overlap) = court.checks.overlaps_not_kept().first() {
        return not_kept(court, overlap);
    }
    let weather = Weather::of(court);
    match weather.lacks() {
        Some((because, what, advice)) => Verdict::inconclusive(
            format!("Nothing broke, and nothing was shown: {because}."),
            what,
            advice,
        ),
        None => acquit(court, &weather),
    }
}

/// Returns the verdict on a run in which a lock that its holder should have kept was given to another process.
fn not_kept(court: &Court<'_>, overlap: &Overlap<'_>) -> Verdict {
    let cause = Cause::of(court, overlap);
    let mut verdict = Verdict {
        evidence: overlap_evidence(Some(overlap)).into_iter().collect(),
        why: cause.why(),
        ..Verdict::bare(Outcome::Broken, format!("{}.", cause.headline()))
    };
    verdict.belief.text = Some(two_holders(overlap));
    verdict
}

/// What happened in a storm, in figures.
struct Weather {
    rounds: usize,
    /// How many requests found the lock taken by somebody else.
    contended: usize,
    kills: Hits,
    pauses: Hits,
    cuts: Hits,
    delays: Hits,
    /// How often a server was stopped, or killed and started again.
    outages: Hits,
    /// Clocks that were set, those of processes that asked for the time afterwards, and those of holders among them.
    clocks: Hits,
    faults: FaultKinds,
    /// A lock that somebody held, and that nobody took when the last fault was over.
    not_taken_again: Option<String>,
}

/// How often a kind of faults happened.
#[derive(Debug, Clone, Copy, Default)]
struct Hits {
    all: usize,
    /// Those that lasted longer than a lease, if that matters.
    long: usize,
    /// Those of them that hit a holder.
    of_holders: usize,
}

impl Hits {
    /// Counts faults, each with its time, whether it was long, and the process that it hit; `None` for all processes.
    fn of<'a>(
        court: &Court<'_>,
        faults: impl Iterator<Item = (u64, bool, Option<&'a str>)>,
    ) -> Self {
        faults.fold(Self::default(), |hits, (at_ns, is_long, who)| Self {
            all: hits.all + 1,
            long: hits.long + usize::from(is_long),
            of_holders: hits.of_holders + usize::from(is_long && held_at(court, who, at_ns)),
        })
    }
}

/// Returns whether this process, or anybody, held a lock then.
fn held_at(court: &Court<'_>, who: Option<&str>, at_ns: u64) -> bool {
    court.facts.holds.iter().any(|hold| {
        let is_own = who.is_none_or(|who| hold.who == who);
        is_own && hold.granted.at_ns < at_ns && at_ns < hold.unquestioned_until_ns()
    })
}

impl Weather {
    fn of(court: &Court<'_>) -> Self {
        let facts = court.facts;
        let is_beyond =
            |from_ns: u64, until_ns: u64| until_ns.saturating_sub(from_ns) > court.ttl_ns();
        let faults_that = |is: fn(Fault) -> bool| {
            let all = facts.faults.iter();
            all.filter(move |seen| is(seen.fault))
        };
        let died_holding = |mark| facts.holds.iter().any(|hold| hold.killed == Some(mark));
        let kills = faults_that(|fault| fault == Fault::Killed);
        let pauses = court.checks.pauses();
        let cuts = court.checks.cuts();
        let delays = faults_that(|fault| fault == Fault::Distant);
        let outages = facts.servers.iter();
        let outages = outages.filter(|changed| changed.change.begins_outage());
        let clocks = faults_that(|fault| matches!(fault, Fault::ClockAhead | Fault::ClockBehind));
        let rounds = facts.holds.iter().filter(|hold| hold.released.is_some());
        // Whoever could not reach the store cannot know who has the lock.
        let found_taken = |wait: &&Wait| {
            wait.refused().is_some_and(|refused| {
                let (from_ns, until_ns) = (wait.asked.at_ns, refused.at_ns);
                !court.checks.is_out_of_reach(&wait.who, from_ns, until_ns)
            })
        };
        let refused = facts.waits.iter().filter(found_taken);
        let settings = court.header.holds.and_then(|holds| holds.storm);
        Self {
            rounds: rounds.count(),
            contended: refused.count() + usize::from(court.checks.met_taken().is_some()),
            kills: Hits {
                all: kills.clone().count(),
                long: 0,
                of_holders: kills.filter(|seen| died_holding(seen.mark)).count(),
            },
            pauses: Hits::of(
                court,
                pauses.map(|(who, from, until)| (from, is_beyond(from, until), Some(who))),
            ),
            cuts: Hits::of(
                court,
                cuts.map(|(who, from, until)| (from, is_beyond(from, until), Some(who))),
            ),
            delays: Hits::of(
                court,
                delays.map(|seen| (seen.mark.at_ns, true, Some(seen.who.as_str()))),
            ),
            outages: Hits::of(
                court,
                outages.map(|changed| (changed.mark.at_ns, true, None)),
            ),
            clocks: Hits::of(
                court,
                clocks.map(|seen| {
                    let who = seen.who.as_str();
                    (seen.mark.at_ns, was_read(court, who, seen.mark), Some(who))
                }),
            ),
            faults: settings.map_or(FaultKinds::of_processes(), |storm| storm.faults),
            not_taken_again: not_taken_again(court),
        }
    }

    /// Returns what is missing for an acquittal: the reason, a word for it, and what would be needed.
    fn lacks(&self) -> Option<(String, Lack, &'static str)> {
        if self.rounds < ROUNDS_MIN {
            let because = match self.rounds {
                0 => "no round was finished".to_owned(),
                rounds => format!(
                    "only {} finished",
                    in_words(rounds as i64, "round was", "rounds were")
                ),
            };
            return Some((because, Lack::Rounds, "more rounds: a longer --for."));
        }
        if self.contended == 0 {
            let because = "nobody ever found a lock taken".to_owned();
            return Some((
                because,
                Lack::Contention,
                "processes that meet: fewer --names.",
            ));
        }
        if let Some(kind) = self.never_seen() {
            let because = format!("no {} took effect", kind.one());
            return Some((because, Lack::Fault, "more faults: a longer --for."));
        }
        if let Some(because) = self.spared_every_holder() {
            return Some((because, Lack::Fault, "more faults: a longer --for."));
        }
        let key = self.not_taken_again.as_ref()?;
        let because = format!("nobody took {key} when the storm was over");
        Some((because, Lack::Aftermath, "a last round for every lock."))
    }

    /// Returns that no fault of this storm that matters hit a holder, if so. A delay or an outage alone rarely ends a hold, so they count
    /// only in a storm that has nothing stronger.
    fn spared_every_holder(&self) -> Option<String> {
        let of_this_storm =
            |kinds: &[(FaultKind, Hits, &'static str)]| -> Vec<(Hits, &'static str)> {
                let kinds = kinds.iter().filter(|(kind, ..)| self.faults.has(*kind));
                kinds.map(|(_, hits, none)| (*hits, *none)).collect()
            };
        let strong = of_this_storm(&[
            (FaultKind::Kill, self.kills, "no kill"),
            (FaultKind::Pause, self.pauses, "no pause beyond the lease"),
            (FaultKind::Cut, self.cuts, "no cut beyond the lease"),
            (FaultKind::Clock, self.clocks, "no clock jump that was read"),
        ]);
        let counting = if strong.is_empty() {
            of_this_storm(&[
                (FaultKind::Delay, self.delays, "no delay"),
                (FaultKind::Server, self.outages, "no outage of a server"),
            ])
        } else {
            strong
        };
        let is_spared = counting.iter().all(|(hits, _)| hits.of_holders == 0);
        let none: Vec<&str> = counting.iter().map(|(_, none)| *none).collect();
        is_spared.then(|| format!("{} hit a holder", none.join(" and ")))
    }

    /// Returns a kind of faults that the storm should have had, and of which the lab saw none. A program that does not ask for the time
    /// is no reason to try it again, and the limits say so.
    fn never_seen(&self) -> Option<FaultKind> {
        let seen = [
            (FaultKind::Cut, self.cuts),
            (FaultKind::Delay, self.delays),
            (FaultKind::Server, self.outages),
        ];
        let mut never = seen.into_iter().filter(|(_, hits)| hits.all == 0);
        never.find_map(|(kind, _)| self.faults.has(kind).then_some(kind))
    }

    /// Returns words such as "412 rounds; 9 kills, 3 of them of a holder; 14 pauses, 8 of them beyond the lease, 5 of these of a holder".
    fn in_words(&self) -> String {
        format!(
            "{}; {}, {} of a holder; {}, {} beyond the lease, {} of these of a holder",
            plural(self.rounds, "round", "rounds"),
            plural(self.kills.all, "kill", "kills"),
            self.kills.of_holders,
            plural(self.pauses.all, "pause", "pauses"),
            self.pauses.long,
            self.pauses.of_holders,
        )
    }

    /// Returns the same about the network, the servers and the clocks; `None` if the storm left them alone.
    fn others_in_words(&self) -> Option<String> {
        let mut words = Vec::new();
        if self.faults.has(FaultKind::Cut) {
            words.push(format!(
                "{}, {} beyond the lease, {} of these of a holder",
                plural(self.cuts.all, "cut", "cuts"),
                self.cuts.long,
                self.cuts.of_holders
            ));
        }
        let simple = [
            (
                FaultKind::Delay,
                self.delays,
                ["delay", "delays"],
                "of a holder",
            ),
            (
                FaultKind::Server,
                self.outages,
                ["outage of a server", "outages of a server"],
                "while a lock was held",
            ),
        ];
        for (kind, hits, [one, more], of) in simple {
            if self.faults.has(kind) {
                words.push(format!(
                    "{}, {} {of}",
                    plural(hits.all, one, more),
                    hits.of_holders
                ));
            }
        }
        if self.faults.has(FaultKind::Clock) {
            words.push(format!(
                "{}, {} seen by its process, {} of these by a holder",
                plural(self.clocks.all, "clock jump", "clock jumps"),
                self.clocks.long,
                self.clocks.of_holders
            ));
        }
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// Returns whether this process asked for the time between this jump of its clock and the next change of it.
fn was_read(court: &Court<'_>, who: &str, jumped: Mark) -> bool {
    let later = court.facts.faults.iter();
    let later = later.filter(|seen| seen.mark > jumped && seen.who == who);
    let mut changes = later.filter(|seen| {
        matches!(
            seen.fault,
            Fault::ClockRead | Fault::ClockRight | Fault::ClockAhead | Fault::ClockBehind
        )
    });
    changes
        .next()
        .is_some_and(|seen| seen.fault == Fault::ClockRead)
}

fn not_taken_again(court: &Court<'_>) -> Option<String> {
    let (holds, faults) = (&court.facts.holds, &court.facts.faults);
    // That a process has asked for the time is no fault, and may be noticed late.
    let faults = faults.iter().filter(|seen| seen.fault != Fault::ClockRead);
    let servers = court.facts.servers.iter().map(|changed| changed.mark);
    let last_fault = faults.map(|seen| seen.mark).chain(servers).max();
    let is_after = |hold: &&Hold| Some(hold.asked) > last_fault;
    let again: BTreeSet<&str> = holds
        .iter()
        .filter(is_after)
        .map(|hold| &*hold.key)
        .collect();
    let keys: BTreeSet<&str> = holds.iter().map(|hold| &*hold.key).collect();
    keys.difference(&again).next().map(|key| (*key).to_owned())
}

fn limits(court: &Court<'_>, weather: &Weather) -> String {
    let of_lock = if court.claims.fencing {
        "random instants: another seed tries others. Every resource must check the fence, on reads too"
    } else {
        "random instants: another seed tries others. What a holder does after its lease is not judged without fences"
    };
    if weather.clocks.all > 0 && weather.clocks.long == 0 {
        return format!(
            "{of_lock}. Clocks were not tried: no process asked the C library for the time"
        );
    }
    of_lock.into()
}

fn acquit(court: &Court<'_>, weather: &Weather) -> Verdict {
    let overlaps = court.checks.overlaps();
    let witness = [Some(weather.in_words()), weather.others_in_words()];
    let within = if court.claims.belongs_to_session() {
        "while its session lasted"
    } else {
        "within its lease"
    };
    let mut verdict = Verdict {
        witness: witness.into_iter().flatten().collect(),
        limits: Some(limits(court, weather)),
        ..Verdict::bare(
            Outcome::Held,
            format!(
                "Every lock had one holder {within}, and could be taken when the storm was over."
            ),
        )
    };
    verdict.belief.text = overlaps.first().map(|first| {
        let times = plural(overlaps.len(), "time", "times");
        let harmless = if court.claims.fencing {
            "harmless, because the resource asked for the fence"
        } else if court.claims.untimed && court.claims.belongs_to_session() {
            "after a fault that may have ended the session, or only once, which may be the machine"
        } else if court.claims.keep_alive {
            "after its process could not renew the lease, or only once, which may be the machine"
        } else if court.claims.belongs_to_session() {
            "beyond a TTL of the request, where this lock promises nothing of its session"
        } else {
            "after the end of a lease, which this lock does not cover"
        };
        format!(
            "two holders at once {times}, first {} and {}: {harmless}",
            first.first.who, first.second.who
        )
    });
    verdict
}
