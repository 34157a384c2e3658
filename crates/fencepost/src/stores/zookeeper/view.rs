//! Inspects and lists locks in ZooKeeper without changing them.

use std::time::Duration;

use futures_util::future::join_all;
use zookeeper_client::{Error as Cause, Stat};

use super::hub::Hub;
use super::keys::{Contender, name_of, owner_of};
use super::note::Note;
use super::session::Session;
use crate::backend::{Holder, Listed, Record, Waiter, name_matches};
use crate::claim::LockName;
use crate::clock::{BootClock, Clock, unix_millis};
use crate::error::{Operation, Result};
use crate::stores::kit::foreign::foreign_label;

/// How many requests are in progress at the same time.
const READ_AT_ONCE: usize = 128;
/// How often the line may change while it is read.
const LOOKS_MAX: u32 = 5;

/// A node with its data.
type NodeData = (String, Vec<u8>, Stat);

pub(super) async fn inspect(hub: &Hub, name: &LockName) -> Result<Option<Record>> {
    let session = hub.session(Operation::Inspect).await?;
    let (record, _) = look(&session, &session.folder(name)).await?;
    Ok(record)
}

/// Checks whether this user may read the locks at all.
pub(super) async fn probe(hub: &Hub) -> Result<()> {
    let session = hub.session(Operation::Open).await?;
    folders(&session, Operation::Open).await.map(|_| ())
}

pub(super) async fn list(hub: &Hub, pattern: Option<&str>) -> Result<Vec<Listed>> {
    let session = hub.session(Operation::Inspect).await?;
    let folders = folders(&session, Operation::Inspect).await?;
    let at_root = session.base.is_empty();
    let is_meant = |name: &str| pattern.is_none_or(|pattern| name_matches(pattern, name));
    let meant: Vec<(String, String)> = folders
        .into_iter()
        .map(|segment| (name_of(&segment, at_root), segment))
        .filter(|(name, _)| is_meant(name))
        .collect();
    let mut listed = Vec::new();
    for some in meant.chunks(READ_AT_ONCE) {
        let looks = some.iter().map(|(_, segment)| {
            let folder = format!("{}/{segment}", session.base);
            let session = &session;
            async move { look(session, &folder).await }
        });
        for ((name, _), looked) in some.iter().zip(join_all(looks).await) {
            let (record, has_ours) = looked?;
            // Without a pattern, only locks of this library are listed.
            let Some(record) = record.filter(|_| pattern.is_some() || has_ours) else {
                continue;
            };
            let name = name.clone();
            listed.push(Listed { name, record });
        }
    }
    Ok(listed)
}

/// Returns the nodes below the base: one folder for each lock.
async fn folders(session: &Session, operation: Operation) -> Result<Vec<String>> {
    let base = if session.base.is_empty() {
        "/"
    } else {
        &*session.base
    };
    loop {
        match session.client.list_children(base).await {
            Ok(children) => return Ok(children),
            Err(Cause::NoNode) => return Ok(Vec::new()),
            Err(cause) => session.retry_or_fail(operation, cause)?,
        }
    }
}

/// Returns who holds the lock and who waits, and whether one of them is ours.
async fn look(session: &Session, folder: &str) -> Result<(Option<Record>, bool)> {
    let mut seen = Vec::new();
    for _ in 0..LOOKS_MAX {
        let is_whole = loop {
            match look_once(session, folder, &mut seen).await {
                Ok(is_whole) => break is_whole,
                Err(cause) => session.retry_or_fail(Operation::Inspect, cause)?,
            }
        };
        if is_whole {
            break;
        }
    }
    let has_ours = seen.iter().any(|one| note_of(one).is_some());
    let mut seen = seen.into_iter();
    let Some(first) = seen.next() else {
        return Ok((None, false));
    };
    let record = Record::new(Some(holder(&first)), seen.map(|one| waiter(&one)).collect());
    Ok((Some(record), has_ours))
}

/// Reads the line once. A contender that left in the meantime does not matter unless it was the first: then somebody else is first now, and
/// this returns `false`.
async fn look_once(
    session: &Session,
    folder: &str,
    seen: &mut Vec<NodeData>,
) -> std::result::Result<bool, Cause> {
    let line = session.line(folder).await?;
    *seen = look_at_all(session, folder, &line).await?;
    Ok(line.first().map(|one| &one.node) == seen.first().map(|one| &one.0))
}

async fn look_at_all(
    session: &Session,
    folder: &str,
    line: &[Contender],
) -> std::result::Result<Vec<NodeData>, Cause> {
    let mut all = Vec::with_capacity(line.len());
    for some in line.chunks(READ_AT_ONCE) {
        let looks = some.iter().map(|contender| {
            let data = session
                .client
                .get_data(&format!("{folder}/{}", contender.node));
            async move {
                match data.await {
                    Ok((data, stat)) => Ok(Some((contender.node.clone(), data, stat))),
                    Err(Cause::NoNode) => Ok(None),
                    Err(cause) => Err(cause),
                }
            }
        });
        for seen in join_all(looks).await {
            all.extend(seen?);
        }
    }
    Ok(all)
}

/// Returns the note of one of our nodes.
fn note_of((node, data, _): &NodeData) -> Option<Note> {
    Note::read(data).filter(|note| owner_of(node) == Some(note.owner))
}

fn holder(seen: &NodeData) -> Holder {
    let (_, data, stat) = seen;
    match note_of(seen) {
        Some(note) => Holder {
            owner: Some(note.owner),
            epoch: u64::try_from(stat.czxid).ok(),
            since: Some(BootClock.now().saturating_sub(ago(note.since_ms))),
            // Only the server knows when it last heard of the holder, and it does not report that.
            ttl_left: Some(note.ttl),
            ttl: Some(note.ttl),
            ..Holder::new(note.label)
        },
        None => Holder::new(foreign_label(data)),
    }
}

fn waiter(seen: &NodeData) -> Waiter {
    let (_, data, stat) = seen;
    let label = note_of(seen).map(|note| note.label);
    let label = label.as_deref().unwrap_or_else(|| foreign_label(data));
    Waiter::new(label, ago(u64::try_from(stat.ctime).unwrap_or(0)))
}

/// Returns how long ago that was by this machine's clock, or zero if this clock is behind the writer's clock.
fn ago(unix: u64) -> Duration {
    Duration::from_millis(unix_millis().saturating_sub(unix))
}
