//! The JSON documents of `fencepost locks`. Keys name the unit of their value.

use fencepost::backend::{Holder, Listed, Record};
use fencepost::clock::Moment;
use serde_json::{Value, json};

use crate::wording::{fence, host_and_process};

/// When records were read, and whether they contain the waiters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) at: Moment,
    pub(super) has_line: bool,
}

/// Returns the kind of a lock: `line` if this library took it, with a queue of waiters; `plain` if another program did.
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

/// Returns the document of one lock; `lock` is `null` if nobody holds it or waits for it.
pub(super) fn show(store: &str, name: &str, record: Option<&Record>, seen: Seen) -> Value {
    json!({
        "schema": "fencepost/lock/1",
        "version": env!("CARGO_PKG_VERSION"),
        "store": store,
        "name": name,
        "lock": record.map(|record| lock(name, record, seen)),
    })
}

/// Returns the document's entry for one lock; `waiting` is `null` if the store does not know the waiters.
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
        "held_for_ms": holder.since.map(|since| ms(now.saturating_duration_since(since))),
        "ttl_left_ms": holder.ttl_left.map(ms),
        "ttl_ms": holder.ttl.map(ms),
        "fence": holder.epoch.map(fence),
    })
}

/// Returns a duration in milliseconds, with one decimal place.
fn ms(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}
