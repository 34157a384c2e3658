//! The records of this store: below the node of a record, a single child, whose name is the version and whose data are the content.
//!
//! A replacement is a transaction that deletes the child of the version that was seen and creates another one. The numbers that the server
//! itself counts would not do: they start again if somebody deletes a node and it is created again.

use std::time::Duration;

use futures_util::future::join;
use zookeeper_client::{CreateMode, CreateOptions, Error as Cause, MultiWriteError};

use super::Zookeeper;
use super::failure;
use super::hub::Hub;
use super::keys::{record_name, record_node, records_root};
use super::session::Session;
use crate::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot, StoreTime};
use crate::claim::LockName;
use crate::clock::{BootClock, BoxFuture, Clock};
use crate::error::{Operation, Result};
use crate::random::{Random, SystemRandom};

/// The longest content. A server refuses requests of more than a megabyte (`jute.maxbuffer`) by closing the connection.
const LONGEST: usize = 1_000_000;
/// How often the nodes of a record may vanish between two requests.
const VANISHING_MAX: u32 = 20;
/// The pause of those who wait for a change after a failure, which the next read returns.
const FAILURE_PAUSE: Duration = Duration::from_millis(250);
/// The leader's clock counts from 1970. It is the same clock for all clients, also after an election, as far as the machines agree.
const ERA: &str = "";

impl Records for Zookeeper {
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

async fn read(hub: &Hub, key: &RecordKey) -> Result<Snapshot> {
    const READ: Operation = Operation::ReadRecord;
    let session = hub.session(READ).await?;
    let seen = Snapshot::absent(BootClock.now());
    let node = record_node(&session.base, key);
    let seen = loop {
        match stored(&session, &node).await {
            Ok(Some((version, data))) => break seen.with_value(data, version),
            Ok(None) => break seen,
            // Somebody has replaced it in the meantime.
            Err(Cause::NoNode) => {}
            Err(cause) => session.retry_or_fail(READ, cause)?,
        }
    };
    Ok(match key.kind {
        // The time comes last: it must not be earlier than the one at which somebody wrote the record.
        RecordKind::Runs => seen.with_time(time(&session).await?),
        RecordKind::Shares | RecordKind::Leader => seen,
    })
}

/// Returns the version and the content, as the leader knows them, or `None` if there is no record.
async fn stored(
    session: &Session,
    node: &str,
) -> std::result::Result<Option<(u128, Vec<u8>)>, Cause> {
    // Otherwise a new session could see less than the one before it, from a follower that is behind.
    let synced = session.client.sync(node);
    let children = session.client.list_children(node);
    let (synced, children) = join(synced, children).await;
    synced?;
    let children = match children {
        Err(Cause::NoNode) => return Ok(None),
        children => children?,
    };
    let Some(version) = version_in(&children) else {
        return Ok(None);
    };
    let child = child_of(node, version);
    let (data, _) = session.client.get_data(&child).await?;
    Ok(Some((version, data)))
}

/// Returns the version of a record whose node has these children.
fn version_in(children: &[String]) -> Option<u128> {
    children.iter().find_map(|child| version_of(child))
}

fn version_of(child: &str) -> Option<u128> {
    let version = u128::from_str_radix(child, 16).ok()?;
    (version != 0 && name_of_version(version) == child).then_some(version)
}

fn name_of_version(version: u128) -> String {
    format!("{version:032x}")
}

fn child_of(node: &str, version: u128) -> String {
    format!("{node}/{}", name_of_version(version))
}

/// Returns the time of the leader, which stamps what is written.
async fn time(session: &Session) -> Result<StoreTime> {
    const READ: Operation = Operation::ReadRecord;
    let clock = format!("{}/clock", records_root(&session.base));
    let mut vanished = 0;
    loop {
        match session.client.set_data(&clock, b"", None).await {
            Ok(stat) => {
                let since_1970 = u64::try_from(stat.mtime).unwrap_or(0);
                return Ok(StoreTime {
                    now: Duration::from_millis(since_1970),
                    era: ERA.into(),
                });
            }
            Err(Cause::NoNode) if vanished < VANISHING_MAX => {
                vanished += 1;
                make(session, READ, &clock).await?;
            }
            Err(Cause::NoNode) => return Err(failure::no_folder(READ, &clock)),
            Err(cause) => session.retry_or_fail(READ, cause)?,
        }
    }
}

/// Creates a node that stays, and all missing ones above it. Those above the records are folders, as for locks.
async fn make(session: &Session, operation: Operation, node: &str) -> Result<()> {
    let options = persistent(session);
    let made = async {
        if !session.base.is_empty() {
            session.make_base().await?;
        }
        session.client.mkdir(node, &options).await
    };
    match made.await {
        Ok(()) => Ok(()),
        Err(cause) => session.retry_or_fail(operation, cause),
    }
}

fn persistent(session: &Session) -> CreateOptions<'_> {
    CreateMode::Persistent.with_acls(session.acls)
}

async fn replace(hub: &Hub, key: &RecordKey, seen: &Snapshot, value: &[u8]) -> Result<Replaced> {
    const REPLACE: Operation = Operation::ReplaceRecord;
    if value.len() > LONGEST {
        return Err(failure::record_too_long(value.len(), LONGEST));
    }
    let session = hub.session(REPLACE).await?;
    let node = record_node(&session.base, key);
    let mut vanished = 0;
    loop {
        let replaced = if seen.version == 0 {
            create(&session, &node, value).await
        } else {
            exchange(&session, &node, seen.version, value).await
        };
        match replaced {
            Ok(replaced) => return Ok(replaced),
            Err(Cause::NoNode) if vanished < VANISHING_MAX => {
                vanished += 1;
                let (above, _) = node.rsplit_once('/').unwrap_or_default();
                make(&session, REPLACE, above).await?;
            }
            Err(Cause::NoNode) => return Err(failure::no_folder(REPLACE, &node)),
            // An answer that was lost leaves it open whether somebody else was faster, so it is not asked again.
            Err(cause) => return Err(session.failed(REPLACE, cause)),
        }
    }
}

/// Replaces the child of this version by another one.
async fn exchange(
    session: &Session,
    node: &str,
    before: u128,
    value: &[u8],
) -> std::result::Result<Replaced, Cause> {
    let mut transaction = session.client.new_multi_writer();
    transaction.add_delete(&child_of(node, before), None)?;
    let after = child_of(node, new_version());
    transaction.add_create(&after, value, &persistent(session))?;
    match transaction.commit().await {
        Ok(_) => Ok(Replaced::Yes),
        Err(MultiWriteError::OperationFailed {
            index: 0,
            source: Cause::NoNode,
        }) => Ok(Replaced::Outdated),
        Err(error) => Err(error.into()),
    }
}

/// Creates the node of a record with its first child. Fails with `NoNode` if nodes above it are missing.
async fn create(
    session: &Session,
    node: &str,
    value: &[u8],
) -> std::result::Result<Replaced, Cause> {
    let mut transaction = session.client.new_multi_writer();
    add_record(&mut transaction, session, node, value)?;
    match transaction.commit().await {
        Ok(_) => return Ok(Replaced::Yes),
        Err(MultiWriteError::OperationFailed {
            index: 0,
            source: Cause::NodeExists,
        }) => {}
        Err(error) => return Err(error.into()),
    }
    // Somebody else has created it, or somebody has deleted its child by hand. A node with a child cannot be deleted.
    let mut transaction = session.client.new_multi_writer();
    transaction.add_delete(node, None)?;
    add_record(&mut transaction, session, node, value)?;
    match transaction.commit().await {
        Ok(_) => Ok(Replaced::Yes),
        Err(MultiWriteError::OperationFailed {
            index: 0,
            source: Cause::NotEmpty | Cause::NoNode,
        }) => Ok(Replaced::Outdated),
        Err(error) => Err(error.into()),
    }
}

fn add_record(
    transaction: &mut zookeeper_client::MultiWriter<'_>,
    session: &Session,
    node: &str,
    value: &[u8],
) -> std::result::Result<(), Cause> {
    let options = persistent(session);
    transaction.add_create(node, b"", &options)?;
    transaction.add_create(&child_of(node, new_version()), value, &options)
}

/// Returns a random version, so that none returns, not even after nodes were deleted by hand.
fn new_version() -> u128 {
    loop {
        let version = SystemRandom.next_u128();
        if version != 0 {
            return version;
        }
    }
}

/// Completes when the record may have changed.
async fn changed(hub: &Hub, key: &RecordKey, seen: u128) -> Result<()> {
    const READ: Operation = Operation::ReadRecord;
    let session = hub.session(READ).await?;
    let node = record_node(&session.base, key);
    loop {
        let watched = match session.client.list_and_watch_children(&node).await {
            Ok((children, watcher)) => {
                let version = version_in(&children).unwrap_or(0);
                (version == seen).then_some(watcher)
            }
            Err(Cause::NoNode) if seen == 0 => {
                match session.client.check_and_watch_stat(&node).await {
                    Ok((None, watcher)) => Some(watcher),
                    // Somebody has just created it.
                    Ok((Some(_), _)) => continue,
                    Err(cause) => return Err(session.failed(READ, cause)),
                }
            }
            Err(Cause::NoNode) => None,
            Err(cause) => return Err(session.failed(READ, cause)),
        };
        if let Some(watcher) = watched {
            session.changed(watcher).await;
        }
        return Ok(());
    }
}

async fn names(hub: &Hub, kind: RecordKind) -> Result<Vec<LockName>> {
    const READ: Operation = Operation::ReadRecord;
    let session = hub.session(READ).await?;
    let folder = format!("{}/{}", records_root(&session.base), kind.as_str());
    loop {
        match session.client.list_children(&folder).await {
            Ok(nodes) => return Ok(nodes.iter().filter_map(|node| record_name(node)).collect()),
            Err(Cause::NoNode) => return Ok(Vec::new()),
            Err(cause) => session.retry_or_fail(READ, cause)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_we_name_a_version_is_one() {
        let name = name_of_version(0xab);
        assert_eq!(version_of(&name), Some(0xab));
        for other in [
            "",
            "ab",
            "x",
            &name.to_uppercase(),
            &name_of_version(0),
            &format!("+{}", &name[1..]),
        ] {
            assert_eq!(version_of(other), None, "{other}");
        }
    }
}
