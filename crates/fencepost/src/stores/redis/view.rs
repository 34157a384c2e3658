//! Inspects and lists locks in Redis without changing them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;

use super::failure;
use super::hub::Hub;
use super::keys::{line_of, name_of_fence, wait_of};
use super::scripts::{INSPECT, ReadValue, is_epoch};
use super::session::Session;
use crate::backend::{Holder, Listed, Record, Waiter};
use crate::claim::OwnerId;
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Operation, Result};

/// How many keys one step of a scan covers.
pub(crate) const STEP: usize = 1000;

pub(super) async fn inspect(hub: &Arc<Hub>, name: &str) -> Result<Option<Record>> {
    let session = hub.session(Operation::Inspect).await?;
    look(&session, name).await
}

pub(crate) async fn look(session: &Arc<Session>, name: &str) -> Result<Option<Record>> {
    Ok(look_closely(session, name).await?.map(|(record, _)| record))
}

/// Returns the record together with the value of the lock's key, which distinguishes holders that are not ours.
pub(crate) async fn look_closely(
    session: &Arc<Session>,
    name: &str,
) -> Result<Option<(Record, Option<String>)>> {
    let mut call = INSPECT.call(3);
    call.arg(name).arg(line_of(name)).arg(wait_of(name));
    let answer = session.call(Operation::Inspect, &INSPECT, &call).await?;
    let read = read(&answer, BootClock.now());
    let record =
        read.ok_or_else(|| failure::unexpected(Operation::Inspect, &format!("{answer:?}")))?;
    let value = answer.item(1).and_then(|value| value.text());
    Ok(record.map(|record| (record, value.map(str::to_owned))))
}

/// Parses the answer. The outer `None` means that the answer makes no sense.
fn read(answer: &Value, now: Moment) -> Option<Option<Record>> {
    let server_now = u64::try_from(answer.item(0)?.integer()?).ok()?;
    let left = answer.item(2)?.integer()?;
    let is_string = answer.item(3)?.text()? == "string";
    let waiting = answer.item(4)?.items()?;
    let waiting = waiting.iter().map(waiter).collect::<Option<Vec<_>>>()?;
    let holder = (is_string && left != -2).then(|| {
        let value = answer.item(1).and_then(|value| value.text());
        let ttl_left = u64::try_from(left).ok().map(Duration::from_millis);
        let ours = value.and_then(|value| ours(value, server_now, now));
        Holder {
            ttl_left,
            ..ours.unwrap_or_else(plain)
        }
    });
    Some((holder.is_some() || !waiting.is_empty()).then(|| Record::new(holder, waiting)))
}

fn waiter(value: &Value) -> Option<Waiter> {
    let waited = u64::try_from(value.item(1)?.integer()?).unwrap_or(0);
    let label = value.item(0)?.text()?;
    Some(Waiter::new(label, Duration::from_millis(waited)))
}

/// Parses "owner epoch ttl since label", with the marks that the scripts use. The start of the hold is by the clock of the server or of the
/// holder's machine.
fn ours(value: &str, server_now: u64, now: Moment) -> Option<Holder> {
    let (owner, rest) = value.split_once([' ', '+'])?;
    let owner: OwnerId = owner.parse().ok()?;
    let mut parts = rest.splitn(4, ' ');
    let epoch: u64 = parts.next()?.trim_start_matches('~').parse().ok()?;
    if !is_epoch(epoch) {
        return None;
    }
    let ttl: u64 = parts.next()?.parse().ok()?;
    let since: u64 = parts.next()?.parse().ok()?;
    let held = Duration::from_millis(server_now.saturating_sub(since));
    Some(Holder {
        owner: Some(owner),
        epoch: Some(epoch),
        since: Some(now.saturating_sub(held)),
        ttl: Some(Duration::from_millis(ttl)),
        ..Holder::new(parts.next()?)
    })
}

/// Returns the holder that is not a client of ours: its key shows only that the lock is taken.
fn plain() -> Holder {
    Holder::new("")
}

pub(super) async fn list(hub: &Arc<Hub>, pattern: Option<&str>) -> Result<Vec<Listed>> {
    let session = hub.session(Operation::Inspect).await?;
    let fences = format!("fp:{{*}}:fence:{}", pattern.unwrap_or("*"));
    let mut names: BTreeSet<String> = BTreeSet::new();
    // Fences of any layout, so that every name is found.
    for key in scan_for(&session, Operation::Inspect, &fences, None).await? {
        names.extend(name_of_fence(&key).map(str::to_owned));
    }
    if let Some(pattern) = pattern {
        let strings = scan(&session, Operation::Inspect, pattern).await?;
        let strings = strings.into_iter();
        names.extend(strings.filter(|key| !key.starts_with("fp:{")));
    }
    let mut listed = Vec::new();
    let names: Vec<String> = names.into_iter().collect();
    for some in names.chunks(STEP) {
        let records = join_all(some.iter().map(|name| look(&session, name))).await;
        for (name, record) in some.iter().zip(records) {
            listed.extend(record?.and_then(|record| lock_of(name, record)));
        }
    }
    Ok(listed)
}

/// Returns `None` for a string without an expiry that is not ours: it is some program's data, not a lock.
pub(crate) fn lock_of(name: &str, record: Record) -> Option<Listed> {
    let is_data = record.waiting.is_empty()
        && record
            .holder
            .as_ref()
            .is_some_and(|holder| holder.owner.is_none() && holder.ttl_left.is_none());
    (!is_data).then(|| Listed {
        name: name.to_owned(),
        record,
    })
}

/// Returns all string keys that match.
pub(crate) async fn scan(
    session: &Arc<Session>,
    operation: Operation,
    pattern: &str,
) -> Result<Vec<String>> {
    scan_for(session, operation, pattern, Some("string")).await
}

/// Returns all keys of this type that match. Scans in steps, so that the server serves other clients in between.
pub(crate) async fn scan_for(
    session: &Arc<Session>,
    operation: Operation,
    pattern: &str,
    kind: Option<&str>,
) -> Result<Vec<String>> {
    let mut keys = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let mut command = redis::cmd("SCAN");
        command
            .arg(&cursor)
            .arg("MATCH")
            .arg(pattern)
            .arg("COUNT")
            .arg(STEP);
        if let Some(kind) = kind {
            command.arg("TYPE").arg(kind);
        }
        let answer = session.send(&command).await;
        let answer = answer.map_err(|cause| failure::of_command(operation, cause))?;
        let (Some(next), Some(found)) = (
            answer.item(0).and_then(|next| next.text()),
            answer.item(1).and_then(|found| found.items()),
        ) else {
            return Err(failure::unexpected(operation, "not the answer to SCAN"));
        };
        // A key that is not text cannot be the name of a lock.
        keys.extend(found.iter().filter_map(|key| key.text().map(str::to_owned)));
        if next == "0" {
            return Ok(keys);
        }
        cursor = next.to_owned();
    }
}
