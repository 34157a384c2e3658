//! Tests that arbitrary invalid histories are judged without a panic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Cursor;

use fencepost::random::{Random, SeededRandom};
use fencepost_trial::sale::facts::Facts;
use fencepost_trial::saved::Saved;
use fencepost_trial::{holds, sale};
use serde_json::{Value, json};

const CASES: u64 = 3_000;

/// Numbers at which arithmetic may overflow.
const EDGES: [u64; 7] = [0, 1, 2, 1_000_000, 1 << 53, i64::MAX as u64, u64::MAX];

fn pick<'a, T>(random: &SeededRandom, from: &'a [T]) -> &'a T {
    &from[(random.next_u64() % from.len() as u64) as usize]
}

fn events() -> Vec<Value> {
    let (a, b) = ("A", "B");
    vec![
        json!({"who": a, "event": "acquire", "op": 1, "key": "product_A", "wait_ms": 0}),
        json!({"who": a, "event": "acquired", "op": 1, "key": "product_A", "hold": 1, "fence": "1.0"}),
        json!({"who": b, "event": "acquire", "op": 2, "key": "product_A", "wait_ms": 1000}),
        json!({"who": a, "event": "register", "op": 3, "hold": 1, "serial": 1, "action": "read", "value": 0}),
        json!({"who": a, "event": "lease_over", "key": "product_A", "hold": 1}),
        json!({"who": a, "event": "fault", "fault": "stopped"}),
        json!({"who": b, "event": "acquired", "op": 2, "key": "product_A", "hold": 1, "fence": "2.0"}),
        json!({"who": b, "event": "register", "op": 4, "hold": 1, "serial": 2, "action": "write", "value": 1}),
        json!({"who": a, "event": "fault", "fault": "continued"}),
        json!({"who": a, "event": "register", "op": 5, "hold": 1, "serial": 3, "action": "write", "value": 1}),
        json!({"who": a, "event": "release", "op": 6, "key": "product_A", "hold": 1}),
        json!({"who": a, "event": "released", "op": 6, "key": "product_A", "hold": 1, "outcome": "released"}),
        json!({"who": a, "event": "fault", "fault": "killed"}),
        json!({"who": "C", "event": "acquire", "op": 7, "key": "product_A", "wait_ms": 0}),
        json!({"who": "C", "event": "refused", "op": 7, "key": "product_A"}),
        json!({"event": "store_read", "key": "product_A", "taken": true}),
        json!({"event": "stock_set", "units": 0}),
        json!({"who": a, "event": "purchase", "op": 8, "quantity": 1}),
        json!({"who": a, "event": "purchased", "op": 8, "before": 1, "outcome": "sold"}),
        json!({"who": b, "event": "purchase", "op": 9, "quantity": 1}),
        json!({"who": b, "event": "purchased", "op": 9, "before": 1, "outcome": "sold"}),
        json!({"event": "stock_read", "units": -1}),
    ]
}

/// Returns complete events in random order, some left out, with some numbers replaced by edge cases.
fn history(random: &SeededRandom) -> String {
    let scenarios = [
        "crash",
        "ttl-edge",
        "deadlock",
        "deadlock-sorted",
        "stale-release",
        "short-stock",
        "oversell",
        "nonsense",
    ];
    let header = json!({
        "schema": "fencepost/history/1", "version": "9.9.9", "recorded": "", "strategy": "fenced",
        "scenario": pick(random, &scenarios), "claim": "exclusion", "store": "sqlite", "seed": 1,
        "stock": *pick(random, &[0, 1, i64::MAX, i64::MIN]), "concurrency": 2, "delay_us": 0, "wait_ms": 0,
        "ttl_ms": *pick(random, &EDGES),
        "holds": {"work_ms": 1, "claims": {
            "fencing": random.next_u64().is_multiple_of(2), "keep_alive": random.next_u64().is_multiple_of(2),
            "recovery_ms": *pick(random, &EDGES)}},
    });
    let mut events = events();
    for _ in 0..random.next_u64() % 6 {
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
fn no_history_is_too_odd_to_be_judged() {
    let random = SeededRandom::new(7041);
    for case in 0..CASES {
        let text = history(&random);
        let saved =
            Saved::read(Cursor::new(&text)).unwrap_or_else(|error| panic!("{case}: {error}"));
        let (header, events) = (&saved.history.header, &saved.history.events);
        let judged = std::panic::catch_unwind(|| {
            let of_holds = holds::verdict::judge(header, &holds::facts::Facts::of(events));
            let of_sale = sale::verdict::judge(header, &Facts::of(events));
            [of_holds, of_sale].map(|verdict| verdict.because)
        });
        assert!(judged.is_ok(), "case {case}:\n{text}");
    }
}
