//! Tests that arbitrary invalid histories are judged and drawn without a panic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Cursor;

use fencepost::random::{Random, SeededRandom};
use fencepost_trial::holds::Scenario;
use fencepost_trial::protocol::Claims;
use fencepost_trial::report::html::Page;
use fencepost_trial::saved::{Rejudged, Saved};
use fencepost_trial::{retry, sale};
use serde_json::{Value, json};

const CASES: u64 = 6_000;

/// Numbers at which arithmetic may overflow.
const EDGES: [u64; 7] = [0, 1, 2, 1_000_000, 1 << 53, i64::MAX as u64, u64::MAX];

fn pick<'a, T>(random: &SeededRandom, from: &'a [T]) -> &'a T {
    &from[(random.next_u64() % from.len() as u64) as usize]
}

fn coin(random: &SeededRandom) -> bool {
    random.next_u64().is_multiple_of(2)
}

/// Returns every scenario that has a judge, and one that has none.
fn scenarios() -> Vec<&'static str> {
    let others = [sale::SCENARIO, retry::SCENARIO, "nonsense"];
    Scenario::ALL
        .map(Scenario::name)
        .into_iter()
        .chain(others)
        .collect()
}

fn claims(random: &SeededRandom) -> Claims {
    Claims {
        fencing: coin(random),
        keep_alive: coin(random),
        fair: coin(random),
        untimed: coin(random),
        recovery_ms: coin(random).then(|| *pick(random, &EDGES)),
        tells_loss_ms: coin(random).then(|| *pick(random, &EDGES)),
        survives: coin(random),
        fences_writes_only: coin(random),
        reentrant: coin(random),
        expires_after_work: coin(random),
        checks_owner: coin(random),
        blind_release: coin(random),
        looks_before_release: coin(random),
        looks_before_wait: coin(random),
        session: coin(random),
        ends_with_server: coin(random),
    }
}

fn events() -> Vec<Value> {
    let (a, b) = ("A", "B");
    vec![
        json!({"who": a, "event": "acquire", "op": 1, "key": "product_A", "wait_ms": 0}),
        json!({"who": a, "event": "acquired", "op": 1, "key": "product_A", "hold": 1, "fence": "1.0"}),
        json!({"who": b, "event": "acquire", "op": 2, "key": "product_A", "wait_ms": 1000}),
        json!({"who": b, "event": "reached", "op": 2, "step": 1, "of": 2, "what": "looked"}),
        json!({"event": "server", "server": "replica", "change": "cut_off"}),
        json!({"who": a, "event": "register", "op": 3, "hold": 1, "serial": 1, "action": "read", "value": 0}),
        json!({"who": a, "event": "lease_over", "key": "product_A", "hold": 1}),
        json!({"event": "server", "server": "primary", "change": "killed"}),
        json!({"event": "server", "server": "replica", "change": "promoted"}),
        json!({"event": "server", "server": "primary", "change": "restarted_empty"}),
        json!({"who": a, "event": "fault", "fault": "stopped"}),
        json!({"who": b, "event": "acquired", "op": 2, "key": "product_A", "hold": 1, "fence": "2.0"}),
        json!({"who": b, "event": "register", "op": 4, "hold": 1, "serial": 2, "action": "write", "value": 1}),
        json!({"who": a, "event": "fault", "fault": "continued"}),
        json!({"who": a, "event": "register", "op": 5, "hold": 1, "serial": 3, "action": "write", "value": 1}),
        json!({"who": a, "event": "step", "op": 10, "hold": 1, "action": "read"}),
        json!({"who": a, "event": "declined", "op": 10, "hold": 1}),
        json!({"who": a, "event": "lost", "hold": 1}),
        json!({"who": a, "event": "release", "op": 6, "key": "product_A", "hold": 1}),
        json!({"who": a, "event": "released", "op": 6, "key": "product_A", "hold": 1, "outcome": "released"}),
        json!({"who": b, "event": "released", "op": 11, "key": "product_A", "hold": 9, "outcome": "already_lost"}),
        json!({"who": a, "event": "fault", "fault": "killed"}),
        json!({"who": "C", "event": "acquire", "op": 7, "key": "product_A", "wait_ms": 0}),
        json!({"who": "C", "event": "refused", "op": 7, "key": "product_A"}),
        json!({"who": "C", "event": "failed", "op": 12, "definite": false, "message": "no answer"}),
        json!({"event": "stalled", "for_ms": 1_200.5}),
        json!({"event": "stalled", "for_ms": 9e99}),
        json!({"event": "stalled", "for_ms": -1.0}),
        json!({"event": "slept", "for_ms": 9e99}),
        json!({"event": "slept", "for_ms": -1.0}),
        json!({"event": "store_read", "key": "product_A", "taken": true}),
        json!({"event": "store_read", "key": "product_A", "taken": true, "ttl_left_ms": -1.0, "server": "replica"}),
        round(json!({"pauses": "fixed", "pause_ms": 100})),
        json!({"event": "stock_set", "units": 0}),
        json!({"who": a, "event": "purchase", "op": 8, "quantity": 1}),
        json!({"who": a, "event": "purchased", "op": 8, "before": 1, "outcome": "sold"}),
        json!({"who": b, "event": "purchase", "op": 9, "quantity": 1}),
        json!({"who": b, "event": "purchased", "op": 9, "before": 1, "outcome": "sold"}),
        json!({"event": "stock_read", "units": -1}),
        round(json!({"pauses": "line"})),
        json!({"event": "stock_set", "units": 2}),
        json!({"who": a, "event": "purchase", "op": 13, "quantity": 1}),
        json!({"who": a, "event": "purchased", "op": 13, "outcome": "busy", "contended": true,
            "effort": {"retries": 3, "lock_ops": 4, "held_ms_ago": [5.0, 9e99]}}),
        json!({"who": b, "event": "purchase", "op": 14, "quantity": 1}),
        json!({"who": b, "event": "failed", "op": 14, "definite": true, "message": "refused"}),
        json!({"event": "stock_read", "units": 2}),
    ]
}

/// Returns the beginning of a round with this way of waiting.
fn round(mut pauses: Value) -> Value {
    pauses["event"] = json!("round");
    for field in ["max_retries", "budget_ms", "seed"] {
        pauses[field] = json!(3);
    }
    pauses
}

/// Returns complete events in random order, some left out, with some numbers replaced by edge cases.
fn history(random: &SeededRandom) -> String {
    let header = json!({
        "schema": "fencepost/history/1", "version": "9.9.9", "recorded": "",
        "strategy": *pick(random, &["fenced", "late-watch", "unheard-of"]),
        "scenario": pick(random, &scenarios()), "claim": *pick(random, &["nothing", "exclusion", "exactness"]),
        "store": *pick(random, &["sqlite", "redlock?restart_delay=3s", "unheard-of"]), "seed": 1,
        "stock": *pick(random, &[0, 1, i64::MAX, i64::MIN]), "concurrency": 2, "delay_us": 0, "wait_ms": 0,
        "ttl_ms": *pick(random, &EDGES),
        "holds": {"work_ms": *pick(random, &EDGES), "claims": claims(random)},
    });
    let mut events = events();
    for _ in 0..random.next_u64() % 9 {
        let (one, other) = (
            random.next_u64() as usize % events.len(),
            random.next_u64() as usize % events.len(),
        );
        events.swap(one, other);
        events.remove(one);
    }
    let mut text = format!("{header}\n");
    for (index, event) in events.iter_mut().enumerate() {
        event["n"] = json!(index + 1);
        event["at_ns"] = match random.next_u64() % 4 {
            0 => json!(*pick(random, &EDGES)),
            _ => json!((index as u64 + 1) * 300_000_000),
        };
        for field in ["units", "value", "before"] {
            if event.get(field).is_some() && random.next_u64().is_multiple_of(4) {
                event[field] = json!(*pick(random, &[i64::MIN, i64::MAX]));
            }
        }
        text.push_str(&format!("{event}\n"));
    }
    text
}

#[test]
fn no_history_is_too_odd_to_be_judged_and_drawn() {
    let random = SeededRandom::new(7041);
    for case in 0..CASES {
        let text = history(&random);
        let saved =
            Saved::read(Cursor::new(&text)).unwrap_or_else(|error| panic!("{case}: {error}"));
        let judged = std::panic::catch_unwind(|| {
            let judged = Rejudged::of(saved);
            let page = Page::of_saved(&judged);
            (page.data().len(), page.trace().is_object())
        });
        assert!(judged.is_ok(), "case {case}:\n{text}");
    }
}
