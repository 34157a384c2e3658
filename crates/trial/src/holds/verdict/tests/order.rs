//! Verdicts on processes that wait one after the other, in `order`.

use super::*;
use crate::protocol::Claims;

const FAIR: Claims = Claims {
    fair: true,
    ..Claims::PLAIN
};

/// A round that begins at this time: A has the lock, and three processes ask for it, this far apart. They are served in this order.
fn round(history: HistoryBuilder, at: f64, gap: f64, served: [&str; 3]) -> HistoryBuilder {
    let hold = history.events().len() as u64;
    let mut history = history
        .granted("A", KEY, at, at + 1.0, hold)
        .reads("A", at + 2.0, hold);
    let mut asked = Vec::new();
    for (place, who) in ["B", "C", "D"].into_iter().enumerate() {
        let from = at + 10.0 + gap * place as f64;
        history = history.tries(who, from).asks(who, KEY, from + 5.0, 18_000);
        asked.push((who, history.events().len() as u64));
    }
    let release = at + 3.0 * gap + 100.0;
    history = history.releases("A", release, hold, RELEASED);
    for (place, who) in served.into_iter().enumerate() {
        let at = release + 10.0 + 10.0 * place as f64;
        let (_, op) = asked.iter().find(|(name, _)| *name == who).unwrap();
        history =
            history
                .grants(who, KEY, *op, at, hold, None)
                .releases(who, at + 3.0, hold, RELEASED);
    }
    history
}

fn rounds(gap: f64, served: [[&str; 3]; 3]) -> HistoryBuilder {
    let begun = HistoryBuilder::of(Scenario::Order)
        .ttl(6_000)
        .promising(FAIR);
    let each = served.into_iter().enumerate();
    each.fold(begun, |history, (number, served)| {
        round(history, 3_000.0 * number as f64, gap, served)
    })
}

const IN_ORDER: [&str; 3] = ["B", "C", "D"];
const D_FIRST: [&str; 3] = ["D", "B", "C"];

#[test]
fn whoever_asked_first_is_served_first() {
    let verdict = rounds(400.0, [IN_ORDER; 3]).judged();
    held(&verdict);
    assert_eq!(
        verdict.witness,
        [
            "three times, three processes waited for A, and each had asked 400.0 ms or more after the one before it"
        ]
    );
}

#[test]
fn a_lock_that_serves_a_later_one_first_breaks_its_claim_when_it_happens_twice() {
    let verdict = rounds(400.0, [D_FIRST, IN_ORDER, D_FIRST]).judged();
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "Waiters were not served in the order in which they had asked, in two rounds of 3, and the lock claims to be fair."
    );
    assert_eq!(
        verdict.why.as_deref().unwrap(),
        "C had asked 400.0 ms before D, and both waited for A."
    );
    assert_eq!(shown(&verdict).len(), 2);
    let once = rounds(400.0, [IN_ORDER, IN_ORDER, D_FIRST]).judged();
    assert_eq!(missing(&once), "calm");
}

#[test]
fn whoever_asked_soon_after_another_or_was_slow_or_met_a_stall_shows_nothing() {
    assert_eq!(missing(&rounds(200.0, [D_FIRST; 3]).judged()), "line");
    let stalled = rounds(400.0, [D_FIRST; 3])
        .stalls(500.0, 700.0)
        .stalls(3_500.0, 3_700.0);
    assert_eq!(missing(&stalled.judged()), "line");
    let unclaimed = rounds(400.0, [D_FIRST; 3]).promising(Claims::PLAIN);
    assert_eq!(missing(&unclaimed.judged()), "claim");
}
