//! Watching over locks that are held, so that their holders hear of a loss before the next renewal.
//!
//! A lease that was revoked, or a key that somebody deleted, is told by the store to whoever watches the key. The [`LossBell`] is rung then, and
//! when the connection breaks; what has really become of the lock is found out by the renewal that follows.
//!
//! [`LossBell`]: crate::backend::LossBell

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::hub::Hub;
use super::keys::Keys;
use super::line::Other;
use super::watch::{is_there, until_deleted, watch};
use crate::claim::{Claim, Grant, OwnerId};
use crate::clock::{BootClock, Clock};
use crate::error::{Operation, Result};
use crate::lease::lock;

/// A lock that is held for less is not watched: it would cost more than it is worth.
const AT_LEAST: Duration = Duration::from_secs(1);
/// After a failure to watch.
const PAUSE: Duration = Duration::from_secs(1);

/// The tasks that watch, by whose lock.
#[derive(Default)]
pub(super) struct Vigils(Mutex<HashMap<OwnerId, Vigil>>);

struct Vigil {
    /// The revision that created the key.
    since: i64,
    task: AbortHandle,
}

impl Vigils {
    /// The lock is given back, or lost.
    pub(super) fn end(&self, owner: OwnerId) {
        if let Some(vigil) = lock(&self.0).remove(&owner) {
            vigil.task.abort();
        }
    }
}

impl Drop for Vigils {
    fn drop(&mut self) {
        for vigil in lock(&self.0).values() {
            vigil.task.abort();
        }
    }
}

impl Hub {
    /// Watches over a lock that was just granted, if it was.
    pub(super) fn watch_over(self: &Arc<Self>, claim: &Claim, grant: Option<&Grant>) {
        let Some(grant) = grant else { return };
        let held = Other {
            // Epochs are below 2^47.
            since: grant.epoch.cast_signed(),
            key: Keys::of(&self.prefix, claim).own,
        };
        let mut vigils = lock(&self.vigils.0);
        let known = vigils.get(&claim.owner);
        // A task ends when the key has gone, or with the runtime it was started in.
        if known.is_some_and(|vigil| vigil.since == held.since && !vigil.task.is_finished()) {
            return;
        }
        let since = held.since;
        let task = tokio::spawn(keep(Arc::downgrade(self), claim.owner, held)).abort_handle();
        if let Some(old) = vigils.insert(claim.owner, Vigil { since, task }) {
            old.task.abort();
        }
    }
}

/// Runs until the key has gone.
async fn keep(hub: Weak<Hub>, owner: OwnerId, held: Other) {
    let mut pause = AT_LEAST;
    loop {
        BootClock.sleep_until(BootClock.now() + pause).await;
        let is_gone = until_gone(&hub, &held).await;
        let Some(hub) = hub.upgrade() else { return };
        match is_gone {
            Ok(true) => return hub.bell.ring(&[owner]),
            // The connection broke: what became of the lock meanwhile is not known.
            Ok(false) => {
                hub.bell.ring(&[owner]);
                pause = Duration::ZERO;
            }
            Err(_) => pause = PAUSE,
        }
    }
}

/// Completes with true when the key has gone, with false when the connection broke.
async fn until_gone(hub: &Weak<Hub>, held: &Other) -> Result<bool> {
    let (link, mut events) = {
        let Some(hub) = hub.upgrade() else {
            return Ok(true);
        };
        let link = hub.link(Operation::Renew).await?;
        let events = watch(&hub, &link, &held.key).await?;
        if !is_there(&hub, held).await? {
            return Ok(true);
        }
        (link, events)
    };
    tokio::select! {
        biased;
        is_gone = until_deleted(&mut events) => {
            if !is_gone && let Some(hub) = hub.upgrade() {
                hub.give_up(&link);
            }
            Ok(is_gone)
        }
        () = link.until_given_up() => Ok(false),
    }
}
