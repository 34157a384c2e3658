//! Tests the verdicts on sales with handwritten histories.

use super::*;
use crate::history::tests::header;
use crate::protocol::Claims;
use crate::sale::Sale;
use crate::sale::by_hand::SaleBuilder;
use crate::verdict::Evidence;

fn judged(story: SaleBuilder, promise: Promise) -> Verdict {
    let facts = story.facts();
    judge(
        &header(facts.initial, facts.attempts.len(), promise),
        &facts,
    )
}

fn shown(verdict: &Verdict) -> Vec<String> {
    let line = |e: &Evidence| format!("#{} {}: {}", e.event, e.sentence, e.shows);
    verdict.evidence.iter().map(line).collect()
}

#[test]
fn an_oversell_is_proven_by_the_order_too_many_and_the_final_stock() {
    let verdict = judged(
        SaleBuilder::with_stock(1, 3)
            .sold(2, 1)
            .sold(0, 1)
            .sold(1, 1)
            .left(0),
        Promise::Nothing,
    );
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        verdict.because,
        "3 orders for a stock of 1. The store says 0 are left, the orders say −2."
    );
    assert_eq!(
        shown(&verdict),
        [
            "#5 proc_2 buys a unit: order 1: the stock is used up",
            "#6 proc_0 buys a unit: order 2: one more than there was",
            "#8 the lab reads the stock: 0: 1 − 3 = −2: two updates lost",
        ]
    );
}

#[test]
fn a_lost_update_is_proven_by_two_orders_for_the_same_unit() {
    let verdict = judged(
        SaleBuilder::with_stock(3, 3)
            .sold(0, 3)
            .sold(1, 2)
            .sold(2, 3)
            .left(1),
        Promise::Exclusion,
    );
    assert_eq!(verdict.outcome, Outcome::Broken);
    assert_eq!(
        shown(&verdict),
        [
            "#5 proc_0 buys a unit: it read 3, wrote 2",
            "#7 proc_2 buys a unit: it read 3, wrote 2: the same unit",
            "#8 the lab reads the stock: 1: 3 − 3 = 0: one update lost",
        ]
    );
}

#[test]
fn selling_from_nothing_is_proven_by_the_first_order() {
    let verdict = judged(
        SaleBuilder::with_stock(0, 1).sold(0, 0).left(-1),
        Promise::Exclusion,
    );
    assert_eq!(verdict.because, "1 order for a stock of 0, and −1 left.");
    assert_eq!(
        shown(&verdict)[0],
        "#3 proc_0 buys a unit: order 1: there was nothing to sell"
    );
    assert_eq!(
        shown(&verdict)[1],
        "#4 the lab reads the stock: −1: 0 − 1 = −1: the stock is below zero"
    );
}

#[test]
fn who_failed_is_counted_where_nothing_broke() {
    let story = SaleBuilder::with_stock(2, 3)
        .busy(0)
        .failed(1, true)
        .sold(2, 2);
    let verdict = judged(story.left(1), Promise::Exclusion);
    assert_eq!(verdict.outcome, Outcome::Held);
    assert_eq!(
        verdict.because,
        "1 order for a stock of 2, and 1 left: orders and stock agree. 1 failed with an error."
    );
}

#[test]
fn holding_needs_somebody_who_met_the_lock() {
    let held = judged(
        SaleBuilder::with_stock(1, 3)
            .busy(0)
            .busy(1)
            .sold(2, 1)
            .left(0),
        Promise::Exclusion,
    );
    assert_eq!(held.outcome, Outcome::Held);
    assert_eq!(
        held.because,
        "1 order for a stock of 1, and 0 left: orders and stock agree."
    );
    assert_eq!(
        held.witness,
        ["2 of 3 found the lock taken while proc_2 held it: the race did take place"]
    );
    let several = judged(
        SaleBuilder::with_stock(1, 2).sold(0, 1).no_stock(1).left(0),
        Promise::Exclusion,
    );
    assert_eq!(
        several.witness,
        ["1 of 2 found the lock taken: the race did take place"]
    );
    let alone = judged(
        SaleBuilder::with_stock(1, 1).sold(0, 1).left(0),
        Promise::Exclusion,
    );
    assert_eq!(alone.outcome, Outcome::Inconclusive);
    assert_eq!(alone.missing.unwrap().what.name(), "contention");
}

#[test]
fn without_a_lock_holding_needs_somebody_who_met_another_buyer() {
    let held = judged(
        SaleBuilder::with_stock(1, 2).sold(0, 1).no_stock(1).left(0),
        Promise::Exactness,
    );
    assert_eq!(
        (held.outcome, held.witness),
        (
            Outcome::Held,
            vec!["1 of 2 met another buyer at work: the race did take place".to_owned()]
        )
    );
    let alone = judged(
        SaleBuilder::with_stock(1, 1).sold(0, 1).left(0),
        Promise::Exactness,
    );
    assert_eq!(alone.outcome, Outcome::Inconclusive);
    assert_eq!(alone.missing.unwrap().what.name(), "contention");
}

#[test]
fn what_shows_nothing_is_inconclusive() {
    for (story, claim, what) in [
        (
            SaleBuilder::with_stock(1, 1).sold(0, 1).left(0),
            Promise::Nothing,
            "race",
        ),
        (
            SaleBuilder::with_stock(1, 2).busy(0).busy(1).left(1),
            Promise::Exclusion,
            "order",
        ),
        (
            SaleBuilder::with_stock(0, 0).left(0),
            Promise::Exclusion,
            "order",
        ),
        (
            SaleBuilder::with_stock(1, 2).sold(0, 1).busy(1),
            Promise::Exclusion,
            "final_stock",
        ),
        (
            SaleBuilder::with_stock(1, 2)
                .sold(0, 1)
                .failed(1, false)
                .left(0),
            Promise::Exclusion,
            "answers",
        ),
    ] {
        let verdict = judged(story, claim);
        assert_eq!(verdict.outcome, Outcome::Inconclusive, "{what}");
        assert_eq!(verdict.missing.unwrap().what.name(), what);
    }
}

#[test]
fn a_lost_answer_widens_what_is_said() {
    let verdict = judged(
        SaleBuilder::with_stock(1, 2)
            .sold(0, 1)
            .failed(1, false)
            .left(0),
        Promise::Exclusion,
    );
    assert_eq!(
        verdict.because,
        "1 answer was lost: 1 to 2 orders for a stock of 1."
    );
}

/// Judges a sale of an external lock.
fn of_external(story: SaleBuilder, claims: Claims) -> Verdict {
    with_work(story, claims, Sale::DELAY_US)
}

/// The same, with work of this length between reading and writing the stock.
fn with_work(story: SaleBuilder, claims: Claims, delay_us: u64) -> Verdict {
    let facts = story.facts();
    let mut header = header(facts.initial, facts.attempts.len(), Promise::Exclusion);
    header.strategy = "python3 my_lock.py".into();
    header.claims = Some(claims);
    header.delay_us = delay_us;
    judge(&header, &facts)
}

#[test]
fn an_external_lock_that_alone_says_it_was_contended_shows_nothing() {
    // `no_stock` says that it was contended.
    let story = SaleBuilder::with_stock(1, 2).sold(0, 1).no_stock(1).left(0);
    let verdict = of_external(story, Claims::PLAIN);
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(
        verdict.because,
        "Nothing broke, and nothing was tested: only the lock itself says that it was taken."
    );
    assert_eq!(verdict.missing.unwrap().what.name(), "contention");
}

#[test]
fn an_external_lock_is_acquitted_by_contention_that_the_lab_saw() {
    let refused = SaleBuilder::with_stock(1, 3)
        .busy(0)
        .busy(1)
        .sold(2, 1)
        .left(0);
    let verdict = of_external(refused, Claims::PLAIN);
    assert_eq!(verdict.outcome, Outcome::Held);
    assert_eq!(
        verdict.witness,
        [
            "the lab saw 2 of 3 refused while another bought, and 0 kept waiting: the race did take place"
        ]
    );
    let in_turn = || {
        let story = SaleBuilder::with_stock(12, 12);
        let story = (0..12_u64).fold(story, |story, op| story.sold(op, 12 - op as i64));
        story.left(0)
    };
    assert_eq!(of_external(in_turn(), Claims::PLAIN).outcome, Outcome::Held);
    let brief = with_work(in_turn(), Claims::PLAIN, 1);
    assert_eq!(brief.missing.unwrap().what.name(), "contention");
}

const FENCED: Claims = Claims {
    fencing: true,
    ..Claims::PLAIN
};

fn bought_under(fences: [&str; 2]) -> SaleBuilder {
    SaleBuilder::with_stock(2, 3)
        .busy(2)
        .sold_under(0, 2, fences[0])
        .sold_under(1, 1, fences[1])
        .left(0)
}

#[test]
fn a_fence_that_two_buyers_had_breaks_the_promise() {
    for fences in [["7", "7"], ["7", "7.0"]] {
        let verdict = of_external(bought_under(fences), FENCED);
        assert_eq!(verdict.outcome, Outcome::Broken);
        assert!(
            verdict
                .because
                .starts_with("Fences do not grow: proc_0 and proc_1 both bought with fence 7"),
            "{}",
            verdict.because
        );
        assert_eq!(verdict.evidence.len(), 2);
        assert!(verdict.violates("fence_issued"));
        let why = verdict.why.unwrap();
        assert!(
            why.starts_with("The resource knows the latest holder"),
            "{why}"
        );
    }
    let odd = of_external(bought_under(["7", "x"]), FENCED);
    assert_eq!(
        odd.because,
        "Fences were promised, and proc_1 bought with 'x', which is no number."
    );
}

#[test]
fn nobody_is_accused_of_fences_that_grow_or_were_not_promised() {
    // Both were asked before either was answered: their order is unknown.
    for (fences, claims) in [
        (["7", "8"], FENCED),
        (["8", "7"], FENCED),
        (["7", "7"], Claims::PLAIN),
    ] {
        let verdict = of_external(bought_under(fences), claims);
        assert_eq!(verdict.outcome, Outcome::Held, "{fences:?}");
    }
}

#[test]
fn a_lease_that_ended_while_the_lab_stood_still_accuses_nobody() {
    let oversold = |for_ms: f64, promise: Promise, claims: Claims| {
        let story = SaleBuilder::with_stock(1, 2)
            .sold(0, 1)
            .stalled(for_ms)
            .sold(1, 1);
        let facts = story.left(0).facts();
        let header = Header {
            ttl_ms: 10_000,
            strategy: "theirs".into(),
            claims: Some(claims),
            ..header(1, 2, promise)
        };
        judge(&header, &facts)
    };
    let verdict = oversold(5_000.0, Promise::Exclusion, Claims::PLAIN);
    assert_eq!(
        verdict.outcome,
        Outcome::Inconclusive,
        "{}",
        verdict.because
    );
    assert_eq!(
        verdict.because,
        "2 orders for a stock of 1. The store says 0 are left, the orders say −1. But the lab itself stalled for \
         5,000.0 ms, and a lease of 10,000 ms may have ended meanwhile."
    );
    assert_eq!(verdict.missing.unwrap().what.name(), "calm");
    let outcome = |for_ms, promise, claims| oversold(for_ms, promise, claims).outcome;
    let plain = Claims::PLAIN;
    assert_eq!(outcome(4_999.0, Promise::Exclusion, plain), Outcome::Broken);
    assert_eq!(outcome(60_000.0, Promise::Nothing, plain), Outcome::Broken);
    let fencing = Claims {
        fencing: true,
        ..Claims::PLAIN
    };
    let untimed = Claims {
        untimed: true,
        ..Claims::PLAIN
    };
    for claims in [fencing, untimed] {
        assert_eq!(
            outcome(60_000.0, Promise::Exclusion, claims),
            Outcome::Broken
        );
    }
}

#[test]
fn several_short_stalls_may_take_the_rest_of_a_lease_together() {
    let oversold = |stalls: usize, ttl_ms: u64| {
        let mut story = SaleBuilder::with_stock(1, 2).sold(0, 1);
        for _ in 0..stalls {
            story = story.stalled(0.6);
        }
        let header = Header {
            ttl_ms,
            strategy: "theirs".into(),
            claims: Some(Claims::PLAIN),
            ..header(1, 2, Promise::Exclusion)
        };
        judge(&header, &story.sold(1, 1).left(0).facts())
    };
    let stalled = |verdict: Verdict| {
        verdict
            .because
            .contains("the lab itself stalled for 1.2 ms")
    };
    assert!(stalled(oversold(3, 2)));
    assert!(!stalled(oversold(1, 2)));
    assert_eq!(oversold(3, 500).outcome, Outcome::Broken);
    // The lab does not notice stalls that are shorter than what such a lease can spare.
    let brief = oversold(0, 499);
    assert_eq!(brief.outcome, Outcome::Inconclusive, "{}", brief.because);
    assert!(
        brief.because.ends_with(
            "But a lease of 499 ms may have ended while the machine stalled for less than the lab notices."
        ),
        "{}",
        brief.because
    );
}

#[test]
fn nothing_is_proven_while_the_machine_is_suspended() {
    let oversold = SaleBuilder::with_stock(1, 2).sold(0, 1).sold(1, 1).left(0);
    let header = header(1, 2, Promise::Exclusion);
    let outcome = |story: &SaleBuilder| judge(&header, &story.facts()).outcome;
    assert_eq!(outcome(&oversold), Outcome::Broken);
    let verdict = judge(&header, &oversold.slept(60_000.0).facts());
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    assert_eq!(verdict.missing.unwrap().what.name(), "awake");
}
