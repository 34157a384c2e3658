//! The JSON documents of `fencepost locks`. Keys name the unit of their value.

use fencepost::backend::Part;
use fencepost::backend::{Holder, Record};
use fencepost::clock::Moment;
use serde_json::{Value, json};

use super::entry::Entry;
use crate::wording::{fence, host_and_process};

/// When records were read, and whether they contain the waiters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) at: Moment,
    pub(super) has_line: bool,
}

pub(super) fn list(store: &str, pattern: Option<&str>, entries: &[Entry], seen: Seen) -> Value {
    let locks: Vec<Value> = entries.iter().map(|one| entry(one, seen)).collect();
    json!({
        "schema": "fencepost/locks/1",
        "version": env!("CARGO_PKG_VERSION"),
        "store": store,
        "pattern": pattern,
        "locks": locks,
    })
}

/// Returns the document of one name; `lock` and `shares` (a semaphore or read-write lock) are `null` if nobody holds them or waits for them.
pub(super) fn show(
    store: &str,
    name: &str,
    [lock, shares]: [Option<&Entry>; 2],
    seen: Seen,
) -> Value {
    json!({
        "schema": "fencepost/lock/1",
        "version": env!("CARGO_PKG_VERSION"),
        "store": store,
        "name": name,
        "lock": lock.map(|one| entry(one, seen)),
        "shares": shares.map(|one| entry(one, seen)),
    })
}

/// Returns the document's entry for a lock.
pub(super) fn lock(name: &str, record: &Record, seen: Seen) -> Value {
    entry(&Entry::lock(name, record.clone()), seen)
}

/// Returns the document's entry for one name; `waiting` is `null` if the store does not know the waiters. `holder` is the first of `holders`.
fn entry(entry: &Entry, seen: Seen) -> Value {
    let record = &entry.record;
    let waiting = record.waiting.iter().map(|waiter| {
        let (part, permits) = part(waiter.part);
        json!({ "label": &*waiter.label, "waited_ms": ms(waiter.waited), "part": part, "permits": permits })
    });
    let waiting: Vec<Value> = waiting.collect();
    let holders: Vec<Value> = record
        .holders()
        .map(|holder| person(holder, seen.at))
        .collect();
    json!({
        "name": entry.name,
        "kind": entry.kind.key(),
        "permits": entry.permits(),
        "holder": holders.first(),
        "holders": holders,
        "waiting": seen.has_line.then_some(waiting),
    })
}

/// Returns what somebody holds or wants, and how many permits that is.
fn part(part: Part) -> (&'static str, Option<u32>) {
    match part {
        Part::Permits { count, .. } => ("permits", Some(count)),
        Part::Read | Part::ReadInPlaceOf(_) => ("read", None),
        Part::Write => ("write", None),
        _ => ("whole", None),
    }
}

fn person(holder: &Holder, now: Moment) -> Value {
    let (host, process) = host_and_process(&holder.label).unzip();
    let (part, permits) = part(holder.part);
    json!({
        "label": &*holder.label,
        "host": host,
        "process": process,
        "held_for_ms": holder.since.map(|since| ms(now.saturating_duration_since(since))),
        "ttl_left_ms": holder.ttl_left.map(ms),
        "ttl_ms": holder.ttl.map(ms),
        "fence": holder.epoch.map(fence),
        "part": part,
        "permits": permits,
        "slots": permits.map(|_| &holder.slots),
    })
}

/// Returns a duration in milliseconds, with one decimal place.
fn ms(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}
