//! Watches the keys of locks that are held, so that their holders learn of a loss before the next renewal.
//!
//! If a lease is revoked or somebody deletes a key, the store notifies all clients that watch the key. We then ring the [`LossBell`], and
//! also when the connection breaks. The renewal that follows finds out what really happened to the lock.
//!
//! All keys are watched over one stream. If a server or a proxy limits the streams of a connection, a stream per key would take the place
//! of other requests, including renewals.
//!
//! [`LossBell`]: crate::backend::LossBell

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use etcd_client::{EventType, WatchResponse, WatchStream};

use super::hub::{ANSWER_TIMEOUT, Connection, Hub};
use super::keys::Keys;
use super::loss_watch::{REWATCH_PAUSE, TaskEnd, WatchList};
use crate::claim::{Claim, Grant, OwnerId};
use crate::clock::{BootClock, Clock, Moment, within};
use crate::error::Operation;

/// How many watch requests may be unanswered at the same time: as many as certainly fit into the buffers on the way.
const ASKED_AT_ONCE: usize = 64;

/// Starts to watch a lock that was just granted, if it was.
pub(super) fn watch_over(hub: &Arc<Hub>, claim: &Claim, grant: Option<&Grant>) {
    let Some(grant) = grant else { return };
    // Epochs are below 2^47, so the cast is safe.
    let since = grant.epoch.cast_signed();
    let key = Keys::of(&hub.prefix, claim).own;
    if let Some(end) = hub.loss_watch.begin(claim.owner, key, since) {
        let keeping = keep(Arc::downgrade(hub), end);
        hub.loss_watch
            .set_task(tokio::spawn(keeping).abort_handle());
    }
}

/// Runs until nothing is held, or the hub is gone.
async fn keep(hub: Weak<Hub>, mut end: TaskEnd) {
    let list = &*end.list.clone();
    while list.until_due().await {
        let Some(held) = hub.upgrade() else { return };
        let connection = held.connection(Operation::Renew).await;
        drop(held);
        let is_broken = match connection {
            Ok(connection) => Stream::run(&hub, list, &connection).await,
            Err(_) => true,
        };
        let Some(hub) = hub.upgrade() else { return };
        // Nobody knows what happened to the locks while they were not watched.
        let watched = list.start_anew();
        if !watched.is_empty() {
            hub.loss_bell.ring(&watched);
        }
        drop(hub);
        if is_broken {
            BootClock.sleep_until(BootClock.now() + REWATCH_PAUSE).await;
        }
    }
    end.has_ended = true;
}

/// The stream of events over one connection.
struct Stream<'a> {
    hub: &'a Weak<Hub>,
    list: &'a WatchList,
    events: WatchStream,
    /// The owners whose watches were requested, in the order in which the server answers.
    asked: VecDeque<OwnerId>,
    watched: HashMap<i64, OwnerId>,
}

impl<'a> Stream<'a> {
    /// Watches until the stream ends. Returns whether the stream itself ended, and not because the connection was given up.
    async fn run(hub: &'a Weak<Hub>, list: &'a WatchList, connection: &Arc<Connection>) -> bool {
        let Some((owner, key, options)) = list.take_due(1).pop() else {
            return false;
        };
        let mut client = connection.client.clone();
        let begun = client.watch(key, Some(options));
        // A renewal finds out whether the connection works. A connection over which we cannot watch may still work.
        let begun = within(&BootClock, BootClock.now() + ANSWER_TIMEOUT, begun).await;
        let Some(Ok(events)) = begun else {
            return true;
        };
        let mut stream = Self {
            hub,
            list,
            events,
            asked: VecDeque::from([owner]),
            watched: HashMap::new(),
        };
        tokio::select! {
            () = stream.until_over() => !list.is_empty(),
            () = connection.until_given_up() => false,
        }
    }

    async fn until_over(&mut self) {
        while !self.list.is_empty() && self.send().await.is_ok() {
            let next = self.next_due();
            tokio::select! {
                message = self.events.message() => match message {
                    Ok(Some(news)) => self.hear(&news),
                    Ok(None) | Err(_) => return,
                },
                () = self.list.news() => {}
                () = BootClock.sleep_until(next) => {}
            }
        }
    }

    fn next_due(&self) -> Moment {
        if self.asked.len() < ASKED_AT_ONCE {
            self.list.next_due()
        } else {
            // The next answer makes room.
            Moment::FAR
        }
    }

    /// Requests the watches that are due, and cancels those that are not needed any more.
    async fn send(&mut self) -> Result<(), etcd_client::Error> {
        let room = ASKED_AT_ONCE.saturating_sub(self.asked.len());
        for (owner, key, options) in self.list.take_due(room) {
            self.asked.push_back(owner);
            self.events.watch(key, Some(options)).await?;
        }
        for id in self.list.take_to_cancel() {
            if self.watched.remove(&id).is_some() {
                self.events.cancel(id).await?;
            }
        }
        Ok(())
    }

    fn hear(&mut self, news: &WatchResponse) {
        let id = news.watch_id();
        if news.created()
            && let Some(owner) = self.asked.pop_front()
        {
            self.begin(id, owner);
        }
        let mut kinds = news.events().iter().map(etcd_client::Event::event_type);
        if kinds.any(|kind| kind == EventType::Delete) {
            self.deleted(id);
        }
        if news.canceled() {
            self.cancelled(id);
        }
    }

    fn begin(&mut self, id: i64, owner: OwnerId) {
        self.watched.insert(id, owner);
        if self.list.watch_has_begun(id, owner) {
            self.ring(owner);
        }
    }

    fn deleted(&mut self, id: i64) {
        if let Some(owner) = self.forget(id) {
            self.list.key_is_gone(owner);
            self.ring(owner);
        }
    }

    /// Handles a watch that the server has cancelled, usually because it started at a revision that was compacted away.
    fn cancelled(&mut self, id: i64) {
        if let Some(owner) = self.forget(id) {
            self.list.watch_was_compacted(owner);
        }
    }

    /// Removes a watch, and returns the owner of its lock if that lock is still held.
    fn forget(&mut self, id: i64) -> Option<OwnerId> {
        let owner = self.watched.remove(&id)?;
        self.list.is_watched_by(id, owner).then_some(owner)
    }

    fn ring(&self, owner: OwnerId) {
        if let Some(hub) = self.hub.upgrade() {
            hub.loss_bell.ring(&[owner]);
        }
    }
}
