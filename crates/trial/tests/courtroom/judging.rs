//! Judges a case: what a trial of a wrong lock or a misbehaving subject must end with, and whether it did.

use fencepost_trial::matrix::REPETITIONS;
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::verdict::{Outcome, Verdict};
use libtest_mimic::Failed;

use crate::part::{BUFFERED, Part};
use crate::session::Ordeal;
use crate::{rates, runs};

use Due::{Conviction, NoAlarm, NoTrial, Report};

/// The required outcome.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Due {
    /// This verdict, with evidence.
    Conviction(Outcome),
    /// No verdict about the lock, and these words about the process.
    Report(&'static [&'static str]),
    /// No trial at all, and these words.
    NoTrial(&'static [&'static str]),
    /// Any outcome other than an accusation.
    NoAlarm,
}

pub(crate) const BROKEN: Due = Conviction(Outcome::Broken);
pub(crate) const STUCK: Due = Conviction(Outcome::Stuck);

/// Tries the lock as often as there is time for, and compares each outcome with the required one.
pub(crate) fn judge(part: Part, ordeal: Ordeal, due: Due) -> Result<(), Failed> {
    // Each of these takes as long as the lab's timeout.
    let runs = if is_silent(part) { 1 } else { runs() };
    let _servers = ordeal.start_servers();
    let wrong: Vec<String> = (0..runs)
        .filter_map(|seed| {
            let tried = tried(part, ordeal, due, seed);
            let wrong = complaint(&tried, due);
            match due {
                Conviction(_) => rates::CONVICTIONS.count(wrong.is_none()),
                NoAlarm => rates::FALSE_ALARMS.count(wrong.is_some()),
                Report(_) | NoTrial(_) => {}
            }
            wrong
        })
        .collect();
    match due {
        Conviction(_) => rates::CONVICTED.count(wrong.is_empty()),
        Report(_) | NoTrial(_) => rates::REPORTED.count(wrong.is_empty()),
        NoAlarm => {}
    }
    match wrong.first() {
        None => Ok(()),
        Some(first) => Err(format!("{} of {runs} runs: {first}", wrong.len()).into()),
    }
}

/// Tries the lock. As in the gauntlet, a run that should convict it and shows nothing is repeated: the machine is busy, or a server had
/// copied the lock before it died.
fn tried(part: Part, ordeal: Ordeal, due: Due, seed: u64) -> Result<Verdict, NoVerdict> {
    let once = || ordeal.try_subject(part, seed, is_silent(part));
    let mut tried = once();
    for _ in 0..REPETITIONS {
        match (&tried, due) {
            (Ok(verdict), Conviction(_)) if verdict.outcome == Outcome::Inconclusive => {
                tried = once();
            }
            _ => break,
        }
    }
    tried
}

/// Returns whether it never answers.
fn is_silent(part: Part) -> bool {
    part == Part::External(BUFFERED)
}

/// Returns what is wrong with the outcome.
fn complaint(tried: &Result<Verdict, NoVerdict>, due: Due) -> Option<String> {
    let is_right = match (tried, due) {
        (Ok(verdict), Conviction(outcome)) => {
            verdict.outcome == outcome && !verdict.evidence.is_empty()
        }
        (Ok(verdict), NoAlarm) => is_harmless(verdict),
        (Ok(verdict), Report(words)) => {
            verdict.outcome == Outcome::Inconclusive && says(&verdict.notes.join("\n"), words)
        }
        (Err(no_verdict @ NoVerdict::NotReady { last_words, .. }), NoTrial(words)) => {
            says(&format!("{no_verdict}\n{}", last_words.join("\n")), words)
        }
        _ => false,
    };
    (!is_right).then(|| format!("{due:?} expected, got {tried:#?}"))
}

pub(crate) fn is_harmless(verdict: &Verdict) -> bool {
    matches!(verdict.outcome, Outcome::Held | Outcome::Inconclusive)
}

fn says(text: &str, words: &[&str]) -> bool {
    words.iter().all(|words| text.contains(words))
}
