//! Inspects and lists the locks in the tables without changing them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;

use super::failure;
use super::hub::Hub;
use super::keys::{ours, row_of};
use crate::backend::{Holder, Listed, Record, Waiter, name_matches};
use crate::claim::LockName;
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Operation, Result};

pub(super) async fn inspect(hub: &Arc<Hub>, name: &LockName) -> Result<Option<Record>> {
    let session = hub.session(Operation::Inspect).await?;
    let inspect = &session.statements.inspect;
    let rows = session
        .ask(Operation::Inspect, inspect, &[&row_of(name)])
        .await?;
    // The row of another program has no other name than this one.
    Ok(records(&rows)?.into_values().next())
}

pub(super) async fn list(hub: &Arc<Hub>, pattern: Option<&str>) -> Result<Vec<Listed>> {
    let session = hub.session(Operation::Inspect).await?;
    let rows = session
        .ask(Operation::Inspect, &session.statements.list, &[])
        .await?;
    let is_meant = |listed: &Listed| match pattern {
        Some(pattern) => name_matches(pattern, &listed.name),
        None => is_ours(&listed.record),
    };
    let listed = records(&rows)?.into_iter();
    Ok(listed
        .map(|(name, record)| Listed { name, record })
        .filter(is_meant)
        .collect())
}

fn is_ours(record: &Record) -> bool {
    let holder = record.holder.as_ref();
    !record.waiting.is_empty() || holder.is_some_and(|holder| holder.owner.is_some())
}

fn records(rows: &[Row]) -> Result<BTreeMap<String, Record>> {
    let now = BootClock.now();
    let mut records: BTreeMap<String, Record> = BTreeMap::new();
    for row in rows {
        let Some((name, seen)) = read(row, now) else {
            return Err(failure::unexpected(Operation::Inspect, "other columns"));
        };
        let nobody = || Record::new(None, Vec::new());
        let record = records.entry(name).or_insert_with(nobody);
        match seen {
            Client::Holder(holder) => record.holder = Some(holder),
            Client::Waiter(waiter) => record.waiting.push(waiter),
        }
    }
    Ok(records)
}

enum Client {
    Holder(Holder),
    Waiter(Waiter),
}

fn read(row: &Row, now: Moment) -> Option<(String, Client)> {
    let text = |at: usize| row.try_get::<_, Option<String>>(at).ok();
    let number = |at: usize| row.try_get::<_, Option<i64>>(at).ok();
    let duration = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
    let name = text(0)??;
    let time = duration(number(3)??);
    if let Some(label) = text(2)? {
        let waiter = Waiter::new(label, time);
        return Some((name, Client::Waiter(waiter)));
    }
    let locked_by = text(1)??;
    let ours = ours(&locked_by);
    let ttl = ours.as_ref().and_then(|ours| ours.ttl);
    let label = ours.as_ref().map_or(locked_by.as_str(), |ours| ours.label);
    let epoch = number(5)?.and_then(|epoch| u64::try_from(epoch).ok());
    let holder = Holder {
        owner: ours.as_ref().map(|ours| ours.owner),
        epoch,
        since: number(4)?.map(|held| now.saturating_sub(duration(held))),
        // A lease is rounded up to milliseconds; show at most what was requested.
        ttl_left: Some(ttl.map_or(time, |ttl| time.min(ttl))),
        ttl,
        ..Holder::new(label)
    };
    Some((name, Client::Holder(holder)))
}
