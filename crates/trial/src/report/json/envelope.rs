//! The JSON report of `gauntlet --envelope`.

use serde_json::{Value, json};

use super::ms;
use crate::gauntlet::Gauntlet;
use crate::gauntlet::envelope::{Probe, Search};

/// Returns the report of an envelope as one JSON document: the edge of each scenario, with every run behind it.
pub fn report(gauntlet: &Gauntlet, searches: &[Search], exit_code: u8) -> Value {
    json!({
        "schema": "fencepost/envelope/1",
        "version": env!("CARGO_PKG_VERSION"),
        "lock": gauntlet.strategy.name,
        "claims": gauntlet.strategy.claims,
        "kind": gauntlet.kind,
        "store": gauntlet.store.name(),
        "ttl_ms": gauntlet.lease_ms(),
        "seed": gauntlet.seed,
        "reproduce": format!("{} --envelope", gauntlet.command()),
        "exit_code": exit_code,
        "edges": searches.iter().map(edge).collect::<Vec<_>>(),
    })
}

fn edge(search: &Search) -> Value {
    json!({
        "scenario": search.scenario.name(),
        "held_ms": search.longest_held().and_then(lasted_ms),
        "broke_ms": search.shortest_broken().and_then(lasted_ms),
        "runs": search.probes.len(),
        "showed_nothing": search.unclear(),
        "in_words": search.in_words(),
        "attempts": search.probes.iter().map(probe).collect::<Vec<_>>(),
    })
}

fn lasted_ms(probe: &Probe) -> Option<f64> {
    probe.lasted_ns.map(ms)
}

fn probe(probe: &Probe) -> Value {
    json!({
        "asked_ms": probe.asked_ms,
        "lasted_ms": lasted_ms(probe),
        "seen": probe.seen,
    })
}
