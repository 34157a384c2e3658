//! The locks as JSON: the unit in the key, nothing human.

use fencepost::{Holder, Listed, Moment, Record};
use serde_json::{Value, json};

use crate::wording::{fence, host_and_process};

/// When records were read, and whether they tell who waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) at: Moment,
    pub(super) has_line: bool,
}

/// `line`: taken by this library, with a line of waiters. `plain`: by another program.
pub(super) fn kind(record: &Record) -> &'static str {
    match &record.holder {
        Some(holder) if holder.owner.is_none() => "plain",
        _ => "line",
    }
}

pub(super) fn list(store: &str, pattern: Option<&str>, locks: &[Listed], seen: Seen) -> Value {
    let locks: Vec<Value> = locks
        .iter()
        .map(|listed| lock(&listed.name, &listed.record, seen))
        .collect();
    json!({
        "schema": "fencepost/locks/1",
        "version": env!("CARGO_PKG_VERSION"),
        "store": store,
        "pattern": pattern,
        "locks": locks,
    })
}

/// `null` in the place of the lock: nobody holds it and nobody waits.
pub(super) fn show(store: &str, name: &str, record: Option<&Record>, seen: Seen) -> Value {
    json!({
        "schema": "fencepost/lock/1",
        "version": env!("CARGO_PKG_VERSION"),
        "store": store,
        "name": name,
        "lock": record.map(|record| lock(name, record, seen)),
    })
}

/// `null` in the place of those who wait: the store does not know them.
pub(super) fn lock(name: &str, record: &Record, seen: Seen) -> Value {
    let waiting: Vec<Value> = record
        .waiting
        .iter()
        .map(|waiter| json!({ "label": &*waiter.label, "waited_ms": ms(waiter.waited) }))
        .collect();
    json!({
        "name": name,
        "kind": kind(record),
        "holder": record.holder.as_ref().map(|holder| person(holder, seen.at)),
        "waiting": seen.has_line.then_some(waiting),
    })
}

fn person(holder: &Holder, now: Moment) -> Value {
    let (host, process) = host_and_process(&holder.label).unzip();
    json!({
        "label": &*holder.label,
        "host": host,
        "process": process,
        "held_for_ms": holder.since.map(|since| ms(now.since(since))),
        "ttl_left_ms": holder.ttl_left.map(ms),
        "ttl_ms": holder.ttl.map(ms),
        "fence": holder.epoch.map(fence),
    })
}

/// Milliseconds with one decimal.
fn ms(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}
