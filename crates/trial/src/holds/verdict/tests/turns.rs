//! Turns at one lock: what an acquittal needs, and what convicts.

use super::*;
use crate::holds::turns::{LIVES, PROCESSES, TURNS};
use crate::protocol::Claims;

const RELEASED: ReleaseResult = ReleaseResult::Released;
const FENCED: Claims = Claims {
    fencing: true,
    ..Claims::PLAIN
};

/// Every process takes its turns in each of its lives, with these fences. Each waits for the one before it.
fn turns(claims: Claims, lives: usize, fence: impl Fn(usize) -> String) -> HistoryBuilder {
    let mut history = HistoryBuilder::of(Scenario::Turns).promising(claims);
    let names = ["A", "B", "C", "D"];
    let mut number = 0;
    for life in 1..=lives {
        for turn in 0..TURNS {
            for name in names {
                let who = crate::holds::storm::name_of(name, life as u64);
                let at = number as f64 * 10.0;
                let (op, hold) = (history.events().len() as u64 + 1, turn as u64 + 1);
                let fence = fence(number + 1);
                history = history
                    .asks(&who, KEY, at - 5.0, 10_000)
                    .grants(&who, KEY, op, at + 1.0, hold, Some(&fence))
                    .releases(&who, at + 8.0, hold, RELEASED);
                number += 1;
            }
        }
    }
    history
}

#[test]
fn turns_in_several_lives_acquit() {
    let verdict = turns(FENCED, LIVES, |number| number.to_string()).judged();
    assert_eq!(verdict.outcome, Outcome::Held, "{verdict:#?}");
    assert_eq!(
        verdict.witness,
        [
            "300 turns of 4 processes in 12 lives, fences 1 to 300; somebody waited, and nobody was left behind"
        ]
    );
    assert_eq!(PROCESSES * LIVES * TURNS, 300);
}

#[test]
fn too_few_turns_or_lives_show_nothing() {
    let verdict = turns(FENCED, 1, |number| number.to_string()).judged();
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(
        verdict.because,
        "Nothing broke, and nothing was shown: there were only 100 turns."
    );
}

#[test]
fn fences_that_wrap_or_begin_anew_convict_a_lock_that_claims_them() {
    let wrapped = |number: usize| (number % 256).to_string();
    let verdict = turns(FENCED, LIVES, wrapped).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "Fences do not grow: D.3 was granted product_A with fence 0, after A with fence 1."
    );
    let anew = |number: usize| (1 + (number - 1) % 100).to_string();
    let verdict = turns(FENCED, LIVES, anew).judged();
    assert_eq!(
        verdict.because,
        "Fences do not grow: A.2 was granted product_A with fence 1, after A with fence 1."
    );
    let plain = turns(Claims::PLAIN, LIVES, anew).judged();
    assert_eq!(plain.outcome, Outcome::Held, "{plain:#?}");
}

#[test]
fn whoever_was_refused_was_left_behind() {
    let all = turns(FENCED, LIVES, |number| number.to_string());
    let op = all.events().len() as u64 + 1;
    let unanswered = all.asks("A.3", KEY, 3_010.0, 10_000);
    let refused = unanswered.clone().refuses("A.3", op, 3_020.0);
    for history in [unanswered, refused] {
        let verdict = history.judged();
        assert_eq!(verdict.outcome, Outcome::Inconclusive, "{verdict:#?}");
        assert_eq!(
            verdict.because,
            "Nothing broke, and nothing was shown: A.3 asked for a turn, and did not get it."
        );
    }
}
