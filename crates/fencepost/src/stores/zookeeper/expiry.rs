//! The expiry task of a session: it removes the nodes of leases that nobody renews, for as long as the session lives.
//!
//! A node lives as long as its session. Without this task, a lease would outlast its TTL, and the node of a dropped request would block
//! those behind it for ever.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::line::remove_all;
use super::loss_watch;
use super::owners::{OwnNode, Owner};
use super::session::Session;
use crate::backend::outage::Outage;
use crate::claim::OwnerId;
use crate::clock::{BootClock, Clock, Moment};

/// Runs until the session is over or nobody uses it.
pub(super) async fn run(session: Arc<Session>) {
    let served = ServedSession(session);
    let session = &served.0;
    let mut state = session.client.state_watcher();
    // The removals run concurrently, so that a node that the server does not remove delays no others.
    let mut ending = FuturesUnordered::new();
    let mut watching = FuturesUnordered::new();
    while !session.is_down() {
        let now = BootClock.now();
        let due = session.owners().into_iter();
        ending.extend(
            due.filter(|owner| owner.begin_removal_if_due(now))
                .map(|owner| end(session, owner)),
        );
        let unwatched = session.owners().into_iter();
        let unwatched = unwatched.filter(|owner| owner.take_watch_due(now));
        watching.extend(unwatched.map(|owner| loss_watch::keep(session, owner)));
        if session.folders.idle_at() <= now {
            remove_idle_folders(session, now).await;
            continue;
        }
        let next = next_look(session);
        session.next_look.store(next.as_nanos(), Ordering::SeqCst);
        // A request may have come between the check and the line above, without ringing.
        if next_look(session) < next {
            continue;
        }
        tokio::select! {
            Some(()) = ending.next() => {}
            Some(()) = watching.next() => {}
            () = session.wake.notified() => {}
            _ = state.changed() => {}
            () = BootClock.sleep_until(next) => {}
        }
    }
}

fn next_look(session: &Session) -> Moment {
    let owners = session.owners().into_iter();
    let dues = owners.map(|owner| owner.ends_at().min(owner.watched_from()));
    dues.min()
        .unwrap_or(Moment::FAR)
        .min(session.folders.idle_at())
}

/// Deletes idle folders. A folder that others use is left to them.
async fn remove_idle_folders(session: &Session, now: Moment) {
    for folder in session.folders.take_idle(now) {
        if let Err(cause) = session.client.delete(&folder, None).await {
            tracing::trace!(folder, %cause, "not removed");
        }
    }
}

/// Removes the node of an owner, however long that takes. If the session ends first, the server removes the node.
async fn end(session: &Session, owner: Arc<Owner>) {
    if owner.known() != OwnNode::Nothing {
        tracing::debug!(folder = owner.folder, owner = %owner.id, "removing a node that nobody renews");
        let mut outage = Outage::default();
        while let Err(error) = remove_all(session, &owner).await {
            if session.is_down() {
                break;
            }
            tracing::debug!(%error, "not removed yet");
            outage.pause().await;
        }
    }
    session.forget(&owner);
}

/// Marks the session as unusable when the expiry task ends, including when its runtime ends, because no lease would end in it any more.
struct ServedSession(Arc<Session>);

impl Drop for ServedSession {
    fn drop(&mut self) {
        let session = &self.0;
        session.dismiss();
        let owners = session.owners();
        let held = owners.iter().filter(|owner| owner.is_held());
        let held: Vec<OwnerId> = held.map(|owner| owner.id).collect();
        owners.iter().for_each(|owner| owner.set_gone());
        // Without the session there are no nodes. Owners should not have to wait for the next renewal to learn that.
        session.loss_bell.ring(&held);
    }
}
