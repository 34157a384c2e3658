//! The leaders of elections in ZooKeeper. The value of a candidate is the data of its node, where Curator and kazoo look for it.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_client::{Error as Cause, Stat};

use super::failure;
use super::hub::Hub;
use super::keys::{Contender, Form};
use super::note::Note;
use super::owners::OwnNode;
use super::session::Session;
use crate::backend::leaders::{LeaderEntry, Proclamation, Standing};
use crate::claim::{Claim, LockName};
use crate::clock::{BootClock, Clock, within};
use crate::error::{Operation, Result};

/// For how long a change is waited for before the observer looks anyway.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// The pause before another look if the servers cannot be asked.
const PAUSE: Duration = Duration::from_secs(1);

/// Replaces the data of the leader's node. Only the session that created the node can do that.
///
/// Not in Curator's layout: a `LeaderLatch` that is next in line watches the data of our node, and ignores every event but a deletion. A watch
/// tells one event only, so it would never learn that we have resigned.
pub(super) async fn proclaim(
    hub: &Hub,
    claim: &Claim,
    epoch: u64,
    value: &str,
) -> Result<Proclamation> {
    let operation = Operation::ReplaceRecord;
    let session = hub.session(operation).await?;
    if session.candidates == Form::Latch {
        return Err(failure::a_latch_keeps_its_value());
    }
    let Some(owner) = session.owner(claim.owner) else {
        return Ok(Proclamation::NotLeading);
    };
    let node = owner.held_node().map(|(node, _)| node);
    let Some(node) = node.filter(|node| node.epoch == epoch) else {
        return Ok(Proclamation::NotLeading);
    };
    let path = format!("{}/{}", owner.folder, node.name);
    loop {
        let written = session.client.set_data(&path, value.as_bytes(), None);
        match written.await {
            Ok(_) => return Ok(Proclamation::Made),
            Err(Cause::NoNode) => {
                owner.set_known(OwnNode::Nothing);
                return Ok(Proclamation::NotLeading);
            }
            Err(cause) => session.retry_or_fail(operation, cause)?,
        }
    }
}

pub(super) async fn leader(hub: &Hub, name: &LockName) -> Result<Standing> {
    let session = hub.session(Operation::ReadRecord).await?;
    let folder = session.folder(name);
    loop {
        match look(&session, &folder).await {
            Ok(Some(standing)) => return Ok(standing),
            // The first one left while we looked.
            Ok(None) => {}
            Err(cause) => session.retry_or_fail(Operation::ReadRecord, cause)?,
        }
    }
}

/// Returns `None` if the line has to be read again.
async fn look(session: &Session, folder: &str) -> std::result::Result<Option<Standing>, Cause> {
    let line = session.line(folder).await?;
    let Some(first) = line.first() else {
        return Ok(Some(Standing::default()));
    };
    let path = format!("{folder}/{}", first.node);
    match session.client.get_data(&path).await {
        Ok((data, stat)) => {
            let leader = leader_of(session, first, &data, &stat);
            Ok(Some(Standing::new(leader, version(&stat))))
        }
        Err(Cause::NoNode) => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Returns the leader, unless the first in line is no candidate of an election of this layout.
fn leader_of(
    session: &Session,
    first: &Contender,
    data: &[u8],
    stat: &Stat,
) -> Option<LeaderEntry> {
    let is_candidate = first.form == session.candidates && Note::read(data).is_none();
    let epoch = u64::try_from(stat.czxid).ok().filter(|_| is_candidate)?;
    let value: Arc<str> = String::from_utf8_lossy(data).into();
    Some(LeaderEntry::new(epoch, value))
}

/// The last write to the node of the leader. It is different for every leader and for every value.
fn version(stat: &Stat) -> u128 {
    u64::try_from(stat.mzxid).unwrap_or(0).into()
}

/// Waits for the next change of the leader's node or, if nobody leads, of the folder.
pub(super) async fn changed(hub: &Hub, name: &LockName, seen: &Standing) {
    let until = BootClock.now() + LOOK_EVERY;
    within(&BootClock, until, async {
        let session = match hub.session(Operation::ReadRecord).await {
            Ok(session) => session,
            Err(_) => return pause().await,
        };
        if watch(&session, &session.folder(name), seen).await.is_err() {
            pause().await;
        }
    })
    .await;
}

async fn watch(session: &Session, folder: &str, seen: &Standing) -> std::result::Result<(), Cause> {
    let line = session.line(folder).await?;
    let watcher = match line.first() {
        Some(first) => {
            let path = format!("{folder}/{}", first.node);
            match session.client.get_and_watch_data(&path).await {
                Ok((_, stat, watcher)) if version(&stat) == seen.version => watcher,
                Ok(_) | Err(Cause::NoNode) => return Ok(()),
                Err(cause) => return Err(cause),
            }
        }
        None if seen.version != 0 => return Ok(()),
        None => match session.client.list_and_watch_children(folder).await {
            Ok((children, watcher)) if children.is_empty() => watcher,
            Ok(_) => return Ok(()),
            // There is not even a folder.
            Err(Cause::NoNode) => match session.client.check_and_watch_stat(folder).await? {
                (None, watcher) => watcher,
                (Some(_), _) => return Ok(()),
            },
            Err(cause) => return Err(cause),
        },
    };
    session.changed(watcher).await;
    Ok(())
}

async fn pause() {
    BootClock.sleep_until(BootClock.now() + PAUSE).await;
}
