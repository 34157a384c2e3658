//! Tests of `gauntlet --envelope`: the edge is found where the lease ends, and every run behind it is told.

use serde_json::Value;

use crate::run;
use crate::schema::{assert_valid, schema};

fn edge(arguments: &str) -> Value {
    let ran = run(&format!("gauntlet --envelope --json {arguments}"));
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_valid(&schema("report.json"), "envelope", &document);
    let edges = document["edges"].as_array().unwrap();
    assert_eq!(edges.len(), 1, "{document:#}");
    edges[0].clone()
}

#[test]
fn a_plain_lease_breaks_about_where_it_ends() {
    for scenario in ["pause", "ttl-edge"] {
        let edge = edge(&format!("--lock=safe --ttl 800 --scenario {scenario}"));
        let (held, broke) = (&edge["held_ms"], &edge["broke_ms"]);
        let (held, broke) = (held.as_f64().unwrap(), broke.as_f64().unwrap());
        assert!(held < broke, "{edge:#}");
        // A busy machine makes a fault longer than it was asked to be, and a lease never ends early.
        assert!((600.0..1200.0).contains(&broke), "{edge:#}");
        let attempts = edge["attempts"].as_array().unwrap();
        assert!(attempts.len() >= 5, "{edge:#}");
        assert_eq!(edge["runs"], attempts.len());
    }
}

#[test]
fn a_lock_that_stops_itself_holds_as_long_as_was_tried() {
    let edge = edge("--lock=watchdog --ttl 500 --scenario pause");
    assert_eq!(edge["broke_ms"], Value::Null, "{edge:#}");
    let told = edge["in_words"].as_str().unwrap();
    assert!(told.contains("the longest that was tried"), "{told}");
}

#[test]
fn a_scenario_without_a_length_has_no_edge() {
    let ran = run("gauntlet --envelope --scenario crash");
    assert_eq!(ran.code, 64, "{}", ran.stdout);
    let told = "error: no scenario with a length can be tried here";
    assert!(ran.stderr.starts_with(told), "{}", ran.stderr);
}

#[test]
fn the_edge_is_told_in_a_sentence_that_claims_no_more_than_was_seen() {
    let ran = run("gauntlet --envelope --lock=safe --ttl 500 --scenario pause --seed 7");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    for words in [
        "envelope   how long a fault may last before the lock breaks\n",
        "held up to a pause of ",
        " ms, broke at ",
        "this is what was seen",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
}
