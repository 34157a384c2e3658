//! Inspects and lists locks in etcd without changing them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use etcd_client::{GetOptions, KeyValue};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::hub::{ANSWER_TIMEOUT, Hub};
use super::keys::{Value, is_of_line, line_of, root_of};
use crate::backend::{Holder, Listed, Record, Waiter, name_matches};
use crate::clock::{BootClock, Clock};
use crate::error::{Operation, Result};
use crate::stores::kit::foreign::foreign_label;

/// How many keys one step of a scan covers.
const STEP: i64 = 1000;
/// How many locks are inspected at the same time.
const READ_AT_ONCE: usize = 32;

pub(super) async fn inspect(hub: &Hub, name: &str) -> Result<Option<Record>> {
    let line = &line_of(&hub.prefix, name);
    let asked = hub.ask(
        Operation::Inspect,
        ANSWER_TIMEOUT,
        |mut client| async move {
            let whole_line = GetOptions::new().with_prefix();
            client.get(line.clone(), Some(whole_line)).await
        },
    );
    let failed = |failed: super::hub::Failed| failed.into_error(Operation::Inspect);
    let mut found = asked.await.map_err(failed)?.take_kvs();
    found.retain(|kv| is_of_line(line, kv.key()));
    found.sort_by_key(KeyValue::create_revision);
    let Some((first, others)) = found.split_first() else {
        return Ok(None);
    };
    let ttl_left = match first.lease() {
        0 => None,
        lease => match ttl_left(hub, lease).await? {
            Some(left) => Some(left),
            // The lease ended while we looked.
            None => Some(Duration::ZERO),
        },
    };
    let waiting = others.iter().map(waiter).collect();
    Ok(Some(Record::new(Some(holder(first, ttl_left)), waiting)))
}

/// Returns `None` if the lease does not exist.
async fn ttl_left(hub: &Hub, lease: i64) -> Result<Option<Duration>> {
    let asked = hub.ask(
        Operation::Inspect,
        ANSWER_TIMEOUT,
        |mut client| async move { client.lease_time_to_live(lease, None).await },
    );
    let answer = asked.await;
    let answer = answer.map_err(|failed| failed.into_error(Operation::Inspect))?;
    Ok(u64::try_from(answer.ttl()).ok().map(Duration::from_secs))
}

fn holder(kv: &KeyValue, ttl_left: Option<Duration>) -> Holder {
    let Some(value) = Value::read(kv.value()) else {
        return Holder {
            ttl_left,
            ..Holder::new(foreign_label(kv.value()))
        };
    };
    let since = (!value.had_to_wait).then(|| BootClock.now().saturating_sub(age(&value)));
    Holder {
        owner: Some(value.owner),
        epoch: Some(kv.create_revision().cast_unsigned()),
        since,
        ttl: Some(value.ttl),
        ttl_left,
        ..Holder::new(value.label)
    }
}

fn waiter(kv: &KeyValue) -> Waiter {
    match Value::read(kv.value()) {
        Some(value) => Waiter::new(value.label.as_str(), age(&value)),
        None => Waiter::new("", Duration::ZERO),
    }
}

/// Returns how long ago that was, as far as the clocks of the machines agree.
fn age(value: &Value) -> Duration {
    let age = SystemTime::now().duration_since(value.since);
    age.unwrap_or_default()
}

pub(super) async fn list(hub: &Arc<Hub>, pattern: Option<&str>) -> Result<Vec<Listed>> {
    let names = names(hub).await?.into_iter();
    let wanted = names.filter(|name| pattern.is_none_or(|pattern| name_matches(pattern, name)));
    let look = async |name: String| -> Result<Option<Listed>> {
        let record = inspect(hub, &name).await?;
        Ok(record.map(|record| Listed { name, record }))
    };
    let found: Vec<Option<Listed>> = stream::iter(wanted.map(look))
        .buffered(READ_AT_ONCE)
        .try_collect()
        .await?;
    let is_wanted = |lock: &Listed| pattern.is_some() || is_ours(&lock.record);
    Ok(found.into_iter().flatten().filter(is_wanted).collect())
}

/// Returns whether an owner of this library holds or wants the lock.
fn is_ours(record: &Record) -> bool {
    let holder = record.holder.as_ref();
    holder.is_some_and(|holder| holder.owner.is_some())
        || record
            .waiting
            .iter()
            .any(|waiter| !waiter.label.is_empty() || !waiter.waited.is_zero())
}

/// Returns the names of all keys that look like those of a lock: they end with a hexadecimal number and have a lease.
async fn names(hub: &Hub) -> Result<BTreeSet<String>> {
    let root = root_of(&hub.prefix);
    let mut names = BTreeSet::new();
    // The first key after those of the last step; a single zero byte is the smallest possible key.
    let mut from = if root.is_empty() {
        vec![0]
    } else {
        root.clone()
    };
    let end = end_of(&root);
    loop {
        let (start, end) = (&from, &end);
        let asked = hub.ask(
            Operation::Inspect,
            ANSWER_TIMEOUT,
            |mut client| async move {
                let options = GetOptions::new().with_range(end.clone());
                let options = options.with_keys_only().with_limit(STEP);
                client.get(start.clone(), Some(options)).await
            },
        );
        let answer = asked.await;
        let answer = answer.map_err(|failed| failed.into_error(Operation::Inspect))?;
        let found = answer.kvs().iter().filter(|kv| kv.lease() != 0);
        names.extend(found.filter_map(|kv| name_of(&root, kv.key())));
        let Some(last) = answer.kvs().last().filter(|_| answer.more()) else {
            return Ok(names);
        };
        from = [last.key(), &[0]].concat();
    }
}

/// Returns the first key after all that begin with `root`; a zero byte means that there is no end.
fn end_of(root: &[u8]) -> Vec<u8> {
    match root.split_last() {
        // The root ends with a slash.
        Some((slash, before)) => [before, &[slash + 1]].concat(),
        None => vec![0],
    }
}

fn name_of(root: &[u8], key: &[u8]) -> Option<String> {
    let rest = std::str::from_utf8(key.strip_prefix(root)?).ok()?;
    let (name, number) = rest.rsplit_once('/')?;
    let is_number = i64::from_str_radix(number, 16).is_ok();
    (is_number && !name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_stands_between_the_prefix_and_the_number() {
        assert_eq!(name_of(b"", b"a/12ab").as_deref(), Some("a"));
        assert_eq!(name_of(b"p/", b"p/a/b/12ab").as_deref(), Some("a/b"));
        for key in ["a", "a/", "a/xyz", "/12ab", "a/123456789012345678"] {
            assert_eq!(name_of(b"", key.as_bytes()), None, "{key}");
        }
        assert_eq!(end_of(b"p/"), b"p0");
    }
}
