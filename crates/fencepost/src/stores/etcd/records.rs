//! The records of this store: one key each, outside of the lines of all locks, replaced by a transaction that compares the revision.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp, WatchOptions};

use super::Etcd;
use super::hub::{ANSWER_TIMEOUT, Failed, Hub};
use super::keys::{record_key, records_of};
use super::waiting::watch;
use crate::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot};
use crate::claim::LockName;
use crate::clock::{BootClock, BoxFuture, Clock};
use crate::error::{Effect, Error, Operation, Result};

/// How often those who wait for a change ask, because nothing else tells that a server has gone silent.
const SLOW_POLL: Duration = Duration::from_secs(5);
/// The pause of those who wait for a change after a failure, which the next read returns.
const FAILURE_PAUSE: Duration = Duration::from_millis(250);
/// How many names one step of a scan covers.
const STEP: i64 = 1000;

impl Records for Etcd {
    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(read(&self.hub, key))
    }

    fn replace<'a>(
        &'a self,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
        _keep_for: Duration,
    ) -> BoxFuture<'a, Result<Replaced>> {
        Box::pin(replace(&self.hub, key, seen, value))
    }

    fn changed<'a>(&'a self, key: &'a RecordKey, seen: &'a Snapshot) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if changed(&self.hub, key, seen.version).await.is_err() {
                BootClock.sleep_until(BootClock.now() + FAILURE_PAUSE).await;
            }
        })
    }

    fn names<'a>(&'a self, kind: RecordKind) -> BoxFuture<'a, Result<Vec<LockName>>> {
        Box::pin(names(&self.hub, kind))
    }
}

/// Reads the record, as the majority knows it.
async fn read(hub: &Hub, key: &RecordKey) -> Result<Snapshot> {
    let seen = Snapshot::absent(BootClock.now());
    let key = &record_key(&hub.prefix, key);
    let asked = hub.ask(
        Operation::ReadRecord,
        ANSWER_TIMEOUT,
        |mut client| async move { client.get(key.clone(), None).await },
    );
    let answer = asked.await.map_err(read_failed)?;
    Ok(match answer.kvs().first() {
        Some(found) => seen.with_value(found.value(), version_of(found.mod_revision())),
        None => seen,
    })
}

/// Reading changes nothing.
fn read_failed(failed: Failed) -> Error {
    let error = failed.into_error(Operation::ReadRecord);
    error.with_effect(Effect::None)
}

/// Revisions are positive.
fn version_of(revision: i64) -> u128 {
    u128::from(revision.unsigned_abs())
}

/// Replaces the record. Does not send the transaction again if it may have taken effect: the second answer would be that somebody else was
/// faster.
async fn replace(hub: &Hub, key: &RecordKey, seen: &Snapshot, value: &[u8]) -> Result<Replaced> {
    let key = record_key(&hub.prefix, key);
    // The revision of an absent key is zero. Nobody has seen any other number that is none.
    let Ok(revision) = i64::try_from(seen.version) else {
        return Ok(Replaced::Outdated);
    };
    let unchanged = Compare::mod_revision(key.clone(), CompareOp::Equal, revision);
    let put = TxnOp::put(key, value, None);
    let transaction = &Txn::new().when([unchanged]).and_then([put]);
    let mut servers_left = hub.servers();
    loop {
        let asked = hub.ask_once(Operation::ReplaceRecord, |mut client| async move {
            client.txn(transaction.clone()).await
        });
        match asked.await {
            Ok(answer) if answer.succeeded() => return Ok(Replaced::Yes),
            Ok(_) => return Ok(Replaced::Outdated),
            // The next attempt goes to another server, or over a new connection.
            Err(error)
                if error.is_transient() && error.effect() == Effect::None && servers_left > 0 =>
            {
                servers_left -= 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Completes when the record may have changed.
///
/// It watches from now on, and reads once more after the watch has begun. Watching from the revision that the caller has seen would need
/// no second read. But etcd serves such a watch only every 100 ms if anybody has written since then.
async fn changed(hub: &Arc<Hub>, key: &RecordKey, seen: u128) -> Result<()> {
    let connection = hub.connection(Operation::ReadRecord).await?;
    let key = record_key(&hub.prefix, key);
    let all = WatchOptions::new();
    let mut events = watch(hub, &connection, &key, all, Operation::ReadRecord).await?;
    while version(hub, &key).await? == seen {
        let slow_poll = BootClock.sleep_until(BootClock.now() + SLOW_POLL);
        tokio::select! {
            news = events.message() => {
                if !matches!(news, Ok(Some(_))) {
                    hub.give_up(&connection);
                }
                return Ok(());
            }
            () = connection.until_given_up() => return Ok(()),
            () = slow_poll => {}
        }
    }
    Ok(())
}

async fn version(hub: &Hub, key: &[u8]) -> Result<u128> {
    let asked = hub.ask(
        Operation::ReadRecord,
        ANSWER_TIMEOUT,
        |mut client| async move {
            let options = GetOptions::new().with_keys_only();
            client.get(key, Some(options)).await
        },
    );
    let answer = asked.await.map_err(read_failed)?;
    let found = answer.kvs().first();
    Ok(found.map_or(0, |found| version_of(found.mod_revision())))
}

async fn names(hub: &Hub, kind: RecordKind) -> Result<Vec<LockName>> {
    let root = records_of(&hub.prefix, kind);
    let mut names = Vec::new();
    let mut from = root.clone();
    // The root ends with a slash, and the next character is a zero.
    let end = &[&root[..root.len() - 1], b"0"].concat();
    loop {
        let start = &from;
        let asked = hub.ask(
            Operation::ReadRecord,
            ANSWER_TIMEOUT,
            |mut client| async move {
                let options = GetOptions::new().with_range(end.clone());
                let options = options.with_keys_only().with_limit(STEP);
                client.get(start.clone(), Some(options)).await
            },
        );
        let answer = asked.await.map_err(read_failed)?;
        let found = answer.kvs().iter();
        names.extend(found.filter_map(|kv| name_of(&root, kv.key())));
        let Some(last) = answer.kvs().last().filter(|_| answer.more()) else {
            return Ok(names);
        };
        from = [last.key(), &[0]].concat();
    }
}

fn name_of(root: &[u8], key: &[u8]) -> Option<LockName> {
    let name = std::str::from_utf8(key.strip_prefix(root)?).ok()?;
    LockName::new(name).ok()
}
