//! Tests that a trace has the expected format, and that its spans are those of the history.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "fixtures/mod.rs"]
mod fixtures;

use serde_json::Value;

fn traced(name: &str) -> Vec<Value> {
    let fixture = fixtures::load(name);
    let text = fixtures::page(std::slice::from_ref(&fixture))
        .trace()
        .to_string();
    let trace: Value = serde_json::from_str(&text).unwrap();
    trace["traceEvents"].as_array().unwrap().clone()
}

/// Formats spans as `track: name [from, to] how it ended`, in milliseconds.
fn spans(events: &[Value]) -> Vec<String> {
    let track = |event: &Value| {
        let name = events
            .iter()
            .find(|e| e["name"] == "thread_name" && e["tid"] == event["tid"]);
        name.unwrap()["args"]["name"].as_str().unwrap().to_owned()
    };
    let mut spans: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    spans.sort_by(|a, b| a["ts"].as_f64().partial_cmp(&b["ts"].as_f64()).unwrap());
    let line = |event: &&Value| {
        let (from, long) = (
            event["ts"].as_f64().unwrap() / 1e3,
            event["dur"].as_f64().unwrap() / 1e3,
        );
        let (name, ended) = (
            event["name"].as_str().unwrap(),
            event["args"]["ended"].as_str().unwrap(),
        );
        format!(
            "{}: {name} [{from:.1}, {:.1}] {ended}",
            track(event),
            from + long
        )
    };
    spans.iter().map(line).collect()
}

fn instants(events: &[Value]) -> Vec<String> {
    let instants = events.iter().filter(|event| event["ph"] == "i");
    instants
        .map(|event| {
            format!(
                "{:.1} {}",
                event["ts"].as_f64().unwrap() / 1e3,
                event["name"].as_str().unwrap()
            )
        })
        .collect()
}

#[test]
fn the_spans_of_a_crash_are_those_of_its_history() {
    let events = traced("safe.crash");
    assert_eq!(
        spans(&events),
        [
            "A: product_A: waits for product_A [0.4, 11.9] granted",
            "A: product_A: holds product_A [11.9, 312.4] killed",
            "B: product_A: waits for product_A [312.5, 312.9] refused",
            "B: product_A: waits for product_A [313.0, 2014.6] granted",
            "B: product_A: holds product_A [2014.6, 2014.9] release sent",
        ]
    );
    assert!(instants(&events).contains(&"312.4 SIGKILL".to_owned()));
}

#[test]
fn a_pause_is_a_span_and_what_happens_to_the_number_is_an_instant() {
    let events = traced("watchdog.pause");
    assert!(spans(&events).contains(&"A: stopped [508.4, 3008.4] continued".to_owned()));
    let instants = instants(&events);
    for expected in [
        "8.6 op 1: reads 0",
        "2411.2 lease over by now",
        "2514.6 op 3: writes 1",
        "3009.4 declined",
    ] {
        assert!(
            instants.iter().any(|instant| instant == expected),
            "{expected}: {instants:#?}"
        );
    }
}

#[test]
fn spans_of_one_track_never_cross() {
    for name in fixtures::FIXTURES {
        let events = traced(name);
        let spans: Vec<(u64, f64, f64)> = events
            .iter()
            .filter(|event| event["ph"] == "X")
            .map(|event| {
                let from = event["ts"].as_f64().unwrap();
                (
                    event["tid"].as_u64().unwrap(),
                    from,
                    from + event["dur"].as_f64().unwrap(),
                )
            })
            .collect();
        for a in &spans {
            for b in spans.iter().filter(|b| b.0 == a.0) {
                let crosses = a.1 < b.1 && b.1 < a.2 && a.2 < b.2;
                assert!(!crosses, "{name}: {a:?} {b:?}");
            }
        }
    }
}
