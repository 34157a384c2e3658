//! The conclusions that the figures of one comparison support: the order of the rounds, significant ratios, and the highest
//! idle share.

use super::{Round, budget_in_words};
use crate::protocol::Pauses;
use crate::text::numbers::decimal;

/// Smaller ratios are not mentioned, because two runs of the same round differ by as much.
const WORTH_TELLING: f64 = 1.2;
/// Smaller idle shares are not mentioned.
const IDLE_WORTH_TELLING: f64 = 0.1;

/// Describes the order of the rounds in which every process was served. Returns `None` if there are fewer than two such rounds.
pub(super) fn fastest(rounds: &[Round]) -> Option<String> {
    let mut served: Vec<&Round> = rounds.iter().filter(|round| all_served(round)).collect();
    served.sort_by_key(|round| round.figures.duration_ns);
    let [fastest, next, ..] = served[..] else {
        return None;
    };
    let (name, other) = (name(fastest), name(next));
    Some(match ratio(next, fastest) {
        Some(ratio) if ratio >= WORTH_TELLING => {
            format!("{name} was first, {} × as fast as the next", decimal(ratio))
        }
        _ => format!("{name} and {other} came in about level"),
    })
}

/// Returns all other conclusions.
pub(super) fn others(rounds: &[Round]) -> Vec<String> {
    let mut others = jitter(rounds);
    others.extend(idlest(rounds));
    others.extend(rounds.iter().filter_map(cut_short));
    others
}

/// Returns whether every process that wanted the lock had it. Durations are comparable only then.
fn all_served(round: &Round) -> bool {
    let figures = &round.figures;
    figures.gave_up == 0
        && round.facts.failed() == 0
        && round.facts.unsold() == 0
        && figures.duration_ns > 0
}

/// Compares jitter with the schedules without it, whatever the result.
fn jitter(rounds: &[Round]) -> Vec<String> {
    let find = |is_wanted: fn(Pauses) -> bool| {
        let mut served = rounds.iter().filter(|round| all_served(round));
        served.find(|round| is_wanted(round.retry.pauses))
    };
    let Some(jitter) = find(|pauses| matches!(pauses, Pauses::FullJitter { .. })) else {
        return Vec::new();
    };
    let fixed = find(|pauses| matches!(pauses, Pauses::Fixed { .. }));
    let exponential = find(|pauses| matches!(pauses, Pauses::Exponential { .. }));
    let others: Vec<&Round> = [fixed, exponential].into_iter().flatten().collect();
    let mut wins = Vec::new();
    let mut losses = Vec::new();
    for other in others {
        match (ratio(other, jitter), ratio(jitter, other)) {
            (Some(faster), _) if faster >= WORTH_TELLING => wins.push((name(other), faster)),
            (_, Some(slower)) if slower >= WORTH_TELLING => losses.push(format!(
                "{} against jitter: {} × as fast",
                name(other),
                decimal(slower)
            )),
            _ => {}
        }
    }
    let wins = wins.iter().enumerate().map(|(index, (other, ratio))| {
        let ratio = decimal(*ratio);
        match index {
            0 => format!("jitter against {other}: {ratio} × as fast"),
            _ => format!("against {other}: {ratio} ×"),
        }
    });
    let wins = wins.collect::<Vec<_>>().join("; ");
    let mut sentences: Vec<String> = (!wins.is_empty()).then_some(wins).into_iter().collect();
    sentences.extend(losses);
    sentences
}

fn idlest(rounds: &[Round]) -> Option<String> {
    let shown = |round: &Round| decimal(round.figures.idle * 100.0);
    let idlest = rounds
        .iter()
        .max_by(|a, b| a.figures.idle.total_cmp(&b.figures.idle))?;
    let alone = rounds
        .iter()
        .filter(|round| shown(round) == shown(idlest))
        .count()
        == 1;
    if !alone || idlest.figures.idle < IDLE_WORTH_TELLING {
        return None;
    }
    let asleep = match idlest.retry.pauses {
        Pauses::Line => "",
        _ => ": all its buyers were asleep",
    };
    Some(format!(
        "{} left the lock free {} % of the time{asleep}",
        name(idlest),
        shown(idlest)
    ))
}

/// Says that a way of waiting takes longer than its figures show.
fn cut_short(round: &Round) -> Option<String> {
    let asleep = round.out_of_time();
    (asleep > 0).then(|| {
        format!(
            "{} takes longer than that: {} of {} had not had the lock after {}",
            name(round),
            asleep,
            round.facts.attempts.len(),
            budget_in_words(round.retry.budget_ms)
        )
    })
}

fn name(round: &Round) -> &'static str {
    round.retry.pauses.in_a_sentence()
}

/// Returns how many times as long `slow` took as `fast`.
fn ratio(slow: &Round, fast: &Round) -> Option<f64> {
    let (slow, fast) = (slow.figures.duration_ns, fast.figures.duration_ns);
    (fast > 0).then(|| slow as f64 / fast as f64)
}
