//! The verdict on a comparison: that of its worst round, with the conclusions from the figures.

use super::{Round, budget_in_words, conclusions};
use crate::history::Header;
use crate::sale::facts::Answer;
use crate::text::numbers::{count, plural, word};
use crate::verdict::{Checked, Finding, Lack, Missing, Outcome, Verdict};

/// Judges a comparison: combines the verdicts on all rounds. Inconclusive if there are none.
pub fn judge(header: &Header, rounds: &[Round]) -> Verdict {
    // The first of the worst rounds.
    let worst = rounds
        .iter()
        .min_by_key(|round| round.verdict.outcome.rank());
    let Some(worst) = worst else {
        return Verdict::bare(Outcome::Inconclusive, "No round was begun.");
    };
    let verdict = &worst.verdict;
    let mut combined = Verdict {
        evidence: verdict.evidence.clone(),
        missing: verdict.missing.as_ref().map(missing),
        damage: verdict.damage.clone(),
        why: verdict.why.clone(),
        checks: checks(rounds),
        notes: rounds.iter().flat_map(notes).collect(),
        ..Verdict::bare(verdict.outcome, because(header, rounds, worst))
    };
    if verdict.outcome == Outcome::Held {
        let limits = "one run each; run it again before you trust a small difference";
        combined.witness = vec![witness(rounds)];
        combined.limits = Some(limits.into());
        combined.found = found(header, rounds);
    }
    combined
}

/// Returns the order of the rounds, unless the verdict already says it, and the other conclusions.
fn found(header: &Header, rounds: &[Round]) -> Vec<String> {
    let told_above = sold_too_few(header, rounds).is_empty();
    let first = conclusions::fastest(rounds).filter(|_| !told_above);
    first
        .into_iter()
        .chain(conclusions::others(rounds))
        .collect()
}

fn because(header: &Header, rounds: &[Round], worst: &Round) -> String {
    if worst.verdict.outcome != Outcome::Held {
        let name = worst.retry.pauses.in_a_sentence();
        return format!("With {name}: {}", worst.verdict.because);
    }
    let could = count(could_sell(header));
    let short = sold_too_few(header, rounds);
    if short.is_empty() {
        let all = word(rounds.len() as i64);
        let first = conclusions::fastest(rounds)
            .map_or_else(String::new, |first| format!(" In this run {first}."));
        return format!("All {all} sold {could} of {could}.{first}");
    }
    let sold = short.iter().map(|round| {
        let (name, sold) = (round.retry.pauses.in_a_sentence(), round.figures.successes);
        format!("{name} {} of {could}", count(sold as i64))
    });
    let sold = sold.collect::<Vec<_>>().join(", ");
    format!("Orders and stock agree every time. Sold too few: {sold}.")
}

fn sold_too_few<'a>(header: &Header, rounds: &'a [Round]) -> Vec<&'a Round> {
    let could = could_sell(header);
    let short = rounds
        .iter()
        .filter(|round| (round.figures.successes as i64) < could);
    short.collect()
}

/// Returns how many units are sold if every process that can be served is served.
fn could_sell(header: &Header) -> i64 {
    header.stock.min(header.concurrency as i64).max(0)
}

fn witness(rounds: &[Round]) -> String {
    let met: Vec<usize> = rounds.iter().map(|round| round.facts.contended()).collect();
    let (least, most) = (met.iter().min().copied(), met.iter().max().copied());
    let met = match (least.unwrap_or(0), most.unwrap_or(0)) {
        (least, most) if least == most => count(most as i64),
        (least, most) => format!("{} to {}", count(least as i64), count(most as i64)),
    };
    let all = rounds
        .first()
        .map_or(0, |round| round.facts.attempts.len() as i64);
    format!(
        "{met} of {} processes found the lock taken at first try, under every schedule",
        count(all)
    )
}

/// Rephrases what is missing with the flags of this command.
fn missing(missing: &Missing) -> Missing {
    let advice = match missing.what {
        Lack::Order => {
            "an order. Something to sell (--stock), or more patience (--max-retries, --budget)."
        }
        _ => missing.advice,
    };
    Missing {
        what: missing.what,
        advice,
    }
}

/// Returns every check with its worst finding.
fn checks(rounds: &[Round]) -> Vec<Checked> {
    let rank = |checked: &Checked| match checked.finding {
        Finding::NotApplicable => 0,
        Finding::Held => 1,
        Finding::Undecided => 2,
        Finding::Violated => 3,
    };
    let mut worst: Vec<Checked> = Vec::new();
    for checked in rounds.iter().flat_map(|round| &round.verdict.checks) {
        match worst.iter_mut().find(|known| known.name == checked.name) {
            None => worst.push(checked.clone()),
            Some(known) if rank(known) < rank(checked) => *known = checked.clone(),
            Some(_) => {}
        }
    }
    worst
}

fn notes(round: &Round) -> Vec<String> {
    let mut notes = Vec::new();
    let name = round.retry.pauses.in_a_sentence();
    let (out_of_retries, out_of_time) = (round.out_of_retries(), round.out_of_time());
    if out_of_retries > 0 {
        let retries = plural(round.retry.max_retries as usize, "retry", "retries");
        notes.push(format!(
            "{name}: {} gave up after {retries}",
            plural(out_of_retries, "process", "processes")
        ));
    }
    if out_of_time > 0 {
        notes.push(format!(
            "{name}: {} gave up when the budget of {} was used up",
            plural(out_of_time, "process", "processes"),
            budget_in_words(round.retry.budget_ms)
        ));
    }
    let error = round
        .facts
        .attempts
        .iter()
        .find_map(|attempt| match &attempt.answer {
            Answer::Failed(message) => Some(message),
            Answer::Said(_) | Answer::Unknown(_) => None,
        });
    if let Some(message) = error {
        let failed = plural(round.facts.failed(), "attempt", "attempts");
        notes.push(format!("{name}: {failed} failed with an error: {message}"));
    }
    notes
}
