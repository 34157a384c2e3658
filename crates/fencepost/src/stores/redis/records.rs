//! The records of this store: one string key each, replaced by a script, and watched with the server's announcements.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use redis::Value;

use super::Redis;
use super::failure;
use super::hub::Hub;
use super::keys::{beside, is_reserved, name_of};
use super::scripts::{READ_RECORD, REPLACE_RECORD, ReadValue, millis};
use super::session::Session;
use super::view::scan;
use super::waiting::POLL;
use crate::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot, StoreTime};
use crate::claim::LockName;
use crate::clock::{BootClock, BoxFuture, Clock, within};
use crate::error::{Operation, Result};
use crate::fence::epoch_of_time;
use crate::random::{Random, SystemRandom};
use crate::stores::kit::silence::ANSWER_TIMEOUT;

/// How often those who wait for a change ask, in case an announcement was lost.
const SLOW_POLL: Duration = Duration::from_millis(250);

/// The digits of a version, which a space separates from the data.
const VERSION_DIGITS: usize = 32;

/// The longest time for which a record is kept: the server refuses expiries that its clock cannot express.
const KEEP_AT_MOST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The server's clock counts from 1970. It is the same clock for all clients, also after a failover, as far as its machines agree.
const ERA: &str = "";

impl Records for Redis {
    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(read(&self.hub, key))
    }

    fn replace<'a>(
        &'a self,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
        keep_for: Duration,
    ) -> BoxFuture<'a, Result<Replaced>> {
        Box::pin(replace(&self.hub, key, seen, value, keep_for))
    }

    fn changed<'a>(&'a self, key: &'a RecordKey, seen: &'a Snapshot) -> BoxFuture<'a, ()> {
        Box::pin(changed(&self.hub, key, seen.version))
    }

    fn names<'a>(&'a self, kind: RecordKind) -> BoxFuture<'a, Result<Vec<LockName>>> {
        Box::pin(names(&self.hub, kind))
    }

    /// Redis confirms before it writes to the disk, and before its replicas know.
    fn may_forget_runs(&self) -> bool {
        true
    }
}

fn refuse_reserved(key: &RecordKey, operation: Operation) -> Result<()> {
    if is_reserved(key.name.as_str()) {
        return Err(failure::reserved(operation));
    }
    Ok(())
}

fn key_of(key: &RecordKey) -> String {
    beside(key.name.as_str(), key.kind.as_str())
}

async fn read(hub: &Arc<Hub>, key: &RecordKey) -> Result<Snapshot> {
    const READ: Operation = Operation::ReadRecord;
    refuse_reserved(key, READ)?;
    let session = hub.session(READ).await?;
    let seen = Snapshot::absent(BootClock.now());
    let mut call = READ_RECORD.call(1);
    call.arg(key_of(key));
    let answer = session.call(READ, &READ_RECORD, &call).await?;
    let unexpected = || failure::unexpected(READ, "not a record with the time");
    let since_1970 = time_of(&answer).ok_or_else(unexpected)?;
    let time = StoreTime {
        now: since_1970,
        era: ERA.into(),
    };
    // As for locks: an epoch is past the time at which it was asked for, so that no later one is lower although the record was lost.
    let floor = epoch_of_time(SystemTime::UNIX_EPOCH + since_1970) + 1;
    let seen = seen.with_time(time).with_epoch_floor(floor);
    match answer.item(2) {
        Some(Value::Nil) => Ok(seen),
        Some(Value::BulkString(stored)) => {
            let (version, data) =
                split(stored).ok_or_else(|| failure::not_a_record(&key_of(key)))?;
            Ok(seen.with_value(data, version))
        }
        _ => Err(unexpected()),
    }
}

fn time_of(answer: &Value) -> Option<Duration> {
    let number = |at: usize| u64::try_from(answer.item(at)?.integer()?).ok();
    let (seconds, micros) = (number(0)?, u32::try_from(number(1)?).ok()?);
    Some(Duration::new(seconds, micros.checked_mul(1000)?))
}

/// Splits "version data".
fn split(stored: &[u8]) -> Option<(u128, &[u8])> {
    let (version, data) = stored.split_at_checked(VERSION_DIGITS)?;
    Some((version_of(version)?, data.strip_prefix(b" ")?))
}

fn version_of(digits: &[u8]) -> Option<u128> {
    let version = u128::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (version != 0).then_some(version)
}

async fn replace(
    hub: &Arc<Hub>,
    key: &RecordKey,
    seen: &Snapshot,
    value: &[u8],
    keep_for: Duration,
) -> Result<Replaced> {
    const REPLACE: Operation = Operation::ReplaceRecord;
    refuse_reserved(key, REPLACE)?;
    let session = hub.session(REPLACE).await?;
    // This may be another server, or the same one without its data. It may have the record that was seen although others have replaced that
    // since, and granted what is unknown here.
    if seen.asked_at < session.connected_at {
        return Ok(Replaced::Outdated);
    }
    let before = match seen.version {
        0 => String::new(),
        version => digits(version),
    };
    let mut stored = digits(new_version()).into_bytes();
    stored.push(b' ');
    stored.extend_from_slice(value);
    let keep_ms = millis(keep_for.min(KEEP_AT_MOST)).max(hub.settings.keep_fences_ms);
    let mut call = REPLACE_RECORD.call(1);
    call.arg(key_of(key)).arg(before).arg(stored).arg(keep_ms);
    let answer = session.call(REPLACE, &REPLACE_RECORD, &call).await?;
    match answer.integer() {
        Some(1) => Ok(Replaced::Yes),
        Some(0) => Ok(Replaced::Outdated),
        _ => Err(failure::unexpected(REPLACE, &format!("{answer:?}"))),
    }
}

fn digits(version: u128) -> String {
    format!("{version:0VERSION_DIGITS$x}")
}

/// Returns a random version, so that none returns, not even after the key was deleted.
fn new_version() -> u128 {
    loop {
        let version = SystemRandom.next_u128();
        if version != 0 {
            return version;
        }
    }
}

/// Waits for the server to announce a change of the key, and asks from time to time, too.
async fn changed(hub: &Arc<Hub>, key: &RecordKey, seen: u128) {
    if is_reserved(key.name.as_str()) {
        return BootClock.sleep_until(BootClock.now() + SLOW_POLL).await;
    }
    let key = key_of(key);
    let listener = hub.record_bells.listen(&key);
    loop {
        let mut rung = std::pin::pin!(listener.bell.notified());
        rung.as_mut().enable();
        let Ok(session) = hub.session(Operation::ReadRecord).await else {
            // The next read returns the error, or waits for the connection.
            return BootClock.sleep_until(BootClock.now() + SLOW_POLL).await;
        };
        let until = BootClock.now() + ANSWER_TIMEOUT;
        match within(&BootClock, until, watch_version(&session, &key)).await {
            Some(Some(version)) if version == seen => {}
            Some(Some(_)) => return,
            Some(None) | None => return BootClock.sleep_until(BootClock.now() + POLL).await,
        }
        let pause = if session.watched.is_impossible() {
            POLL
        } else {
            SLOW_POLL
        };
        tokio::select! {
            () = rung => return,
            () = BootClock.sleep_until(BootClock.now() + pause) => {}
        }
    }
}

/// Returns the version of the record, zero if there is none, and asks the server to announce the next change, if possible. Returns `None` if
/// the version is unknown.
async fn watch_version(session: &Session, key: &str) -> Option<u128> {
    let mut get = redis::cmd("GETRANGE");
    get.arg(key).arg(0).arg(VERSION_DIGITS - 1);
    let watched = session.watch_reads([get.clone()]).await;
    let version = match watched.and_then(|mut values| values.pop()) {
        Some(version) => version,
        None => session.send(&get).await.ok()?,
    };
    match &version {
        Value::BulkString(digits) if digits.is_empty() => Some(0),
        Value::BulkString(digits) => version_of(digits),
        _ => None,
    }
}

async fn names(hub: &Arc<Hub>, kind: RecordKind) -> Result<Vec<LockName>> {
    let session = hub.session(Operation::ReadRecord).await?;
    let pattern = format!("fp:{{*}}:{}:*", kind.as_str());
    let keys = scan(&session, Operation::ReadRecord, &pattern).await?;
    let names = keys.iter().filter_map(|key| name_of(key, kind.as_str()));
    // A scan may return a key twice.
    let mut names: Vec<LockName> = names.filter_map(|name| LockName::new(name).ok()).collect();
    names.sort();
    names.dedup();
    Ok(names)
}
