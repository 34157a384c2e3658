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
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use etcd_client::{EventType, WatchFilterType, WatchOptions, WatchResponse, WatchStream};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::hub::{ANSWER_TIMEOUT, Connection, Hub};
use super::keys::Keys;
use crate::claim::{Claim, Grant, OwnerId};
use crate::clock::{BootClock, Clock, Moment, within};
use crate::error::Operation;
use crate::mutex::lock;

/// A lock that is held for less than this is not watched, because watching would cost more than it is worth.
const AT_LEAST: Duration = Duration::from_secs(1);
/// The pause after a failure to watch.
const PAUSE: Duration = Duration::from_secs(1);
/// How many watch requests may be unanswered at the same time: as many as certainly fit into the buffers on the way.
const ASKED_AT_ONCE: usize = 64;

/// The locks that are watched, and the task that watches them.
#[derive(Default)]
pub(super) struct LossWatch {
    list: Arc<WatchList>,
    task: Mutex<Option<AbortHandle>>,
}

#[derive(Default)]
struct WatchList {
    state: Mutex<WatchListState>,
    news: Notify,
}

#[derive(Default)]
struct WatchListState {
    held: HashMap<OwnerId, WatchedHold>,
    /// The watches of locks that were released.
    to_cancel: Vec<i64>,
    /// Whether the task runs. It ends when nothing is held any more, or with its runtime.
    is_kept: bool,
}

/// A lock that is held.
struct WatchedHold {
    key: Vec<u8>,
    /// The revision that created the key.
    since: i64,
    /// When to start watching it, if it is not watched yet.
    due: Moment,
    watch: Watch,
    /// Whether the server has compacted away what happened since the key was created.
    is_compacted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watch {
    None,
    AskedFor,
    Begun(i64),
}

impl LossWatch {
    /// Records that the lock was released or lost.
    pub(super) fn end(&self, owner: OwnerId) {
        let mut state = lock(&self.list.state);
        let Some(held) = state.held.remove(&owner) else {
            return;
        };
        if let Watch::Begun(id) = held.watch {
            state.to_cancel.push(id);
        }
        if state.held.is_empty() || !state.to_cancel.is_empty() {
            self.list.news.notify_one();
        }
    }
}

impl Drop for LossWatch {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

impl Hub {
    /// Starts to watch a lock that was just granted, if it was.
    pub(super) fn watch_over(self: &Arc<Self>, claim: &Claim, grant: Option<&Grant>) {
        let Some(grant) = grant else { return };
        // Epochs are below 2^47, so the cast is safe.
        let since = grant.epoch.cast_signed();
        let list = &self.loss_watch.list;
        let mut state = lock(&list.state);
        let known = state.held.get(&claim.owner);
        if known.is_none_or(|held| held.since != since) {
            if let Some(Watch::Begun(id)) = known.map(|held| held.watch) {
                state.to_cancel.push(id);
            }
            let held = WatchedHold {
                key: Keys::of(&self.prefix, claim).own,
                since,
                due: BootClock.now() + AT_LEAST,
                watch: Watch::None,
                is_compacted: false,
            };
            state.held.insert(claim.owner, held);
            list.news.notify_one();
        }
        if std::mem::replace(&mut state.is_kept, true) {
            return;
        }
        drop(state);
        let keeping = keep(
            Arc::downgrade(self),
            TaskEnd {
                list: list.clone(),
                has_ended: false,
            },
        );
        *lock(&self.loss_watch.task) = Some(tokio::spawn(keeping).abort_handle());
    }
}

/// Notices when the runtime drops the task.
struct TaskEnd {
    list: Arc<WatchList>,
    /// Whether the task has reported its end itself; there may be another task by now.
    has_ended: bool,
}

impl Drop for TaskEnd {
    fn drop(&mut self) {
        if !self.has_ended {
            let mut state = lock(&self.list.state);
            state.is_kept = false;
            state.start_anew();
        }
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
        let watched = lock(&list.state).start_anew();
        if !watched.is_empty() {
            hub.loss_bell.ring(&watched);
        }
        drop(hub);
        if is_broken {
            BootClock.sleep_until(BootClock.now() + PAUSE).await;
        }
    }
    end.has_ended = true;
}

impl WatchList {
    /// Completes when there is a lock to watch. Returns `false` if nothing is held and the task has to end.
    async fn until_due(&self) -> bool {
        loop {
            if self.end_if_idle() {
                return false;
            }
            let next = self.next_due();
            if next <= BootClock.now() {
                return true;
            }
            tokio::select! {
                () = BootClock.sleep_until(next) => {}
                () = self.news.notified() => {}
            }
        }
    }

    /// Ends the task if nothing is held, and returns whether it did. The next grant then starts another task.
    fn end_if_idle(&self) -> bool {
        let mut state = lock(&self.state);
        if state.held.is_empty() {
            state.is_kept = false;
        }
        state.held.is_empty()
    }

    fn is_empty(&self) -> bool {
        lock(&self.state).held.is_empty()
    }

    /// Returns when the next lock has to be watched.
    fn next_due(&self) -> Moment {
        let state = lock(&self.state);
        let waiting = state.held.values().filter(|held| held.watch == Watch::None);
        waiting.map(|held| held.due).min().unwrap_or(Moment::FAR)
    }

    /// Returns at most this many locks that have to be watched now, with the options for each request.
    fn take_due(&self, most: usize) -> Vec<(OwnerId, Vec<u8>, WatchOptions)> {
        let now = BootClock.now();
        let mut state = lock(&self.state);
        let waiting = state.held.iter_mut();
        let due = waiting.filter(|(_, held)| held.watch == Watch::None && held.due <= now);
        let taken = due.take(most).map(|(owner, held)| {
            held.watch = Watch::AskedFor;
            let options = WatchOptions::new().with_filters([WatchFilterType::NoPut]);
            let options = if held.is_compacted {
                options
            } else {
                // Include what happened before the watch began.
                options.with_start_revision(held.since + 1)
            };
            (*owner, held.key.clone(), options)
        });
        taken.collect()
    }
}

impl WatchListState {
    /// Resets the state after the stream and all its watches have ended. Returns the owners whose locks it watched.
    fn start_anew(&mut self) -> Vec<OwnerId> {
        self.to_cancel.clear();
        let mut watched = Vec::new();
        for (owner, held) in &mut self.held {
            if let Watch::Begun(_) = held.watch {
                watched.push(*owner);
            }
            held.watch = Watch::None;
        }
        watched
    }
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
                () = self.list.news.notified() => {}
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
        let to_cancel = std::mem::take(&mut lock(&self.list.state).to_cancel);
        for id in to_cancel {
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
        let mut state = lock(&self.list.state);
        self.watched.insert(id, owner);
        match state.held.get_mut(&owner) {
            Some(held) if held.watch == Watch::AskedFor => {
                held.watch = Watch::Begun(id);
                let is_compacted = held.is_compacted;
                drop(state);
                if is_compacted {
                    self.ring(owner);
                }
            }
            // The lock was released in the meantime.
            _ => state.to_cancel.push(id),
        }
    }

    fn deleted(&mut self, id: i64) {
        if let Some(owner) = self.forget(id) {
            lock(&self.list.state).held.remove(&owner);
            self.ring(owner);
        }
    }

    /// Handles a watch that the server has cancelled, usually because it started at a revision that was compacted away.
    fn cancelled(&mut self, id: i64) {
        let Some(owner) = self.forget(id) else { return };
        if let Some(held) = lock(&self.list.state).held.get_mut(&owner) {
            held.is_compacted = true;
            held.watch = Watch::None;
            held.due = BootClock.now() + PAUSE;
        }
    }

    /// Removes a watch, and returns the owner of its lock if that lock is still held.
    fn forget(&mut self, id: i64) -> Option<OwnerId> {
        let owner = self.watched.remove(&id)?;
        let state = lock(&self.list.state);
        let held = state.held.get(&owner)?;
        (held.watch == Watch::Begun(id)).then_some(owner)
    }

    fn ring(&self, owner: OwnerId) {
        if let Some(hub) = self.hub.upgrade() {
            hub.loss_bell.ring(&[owner]);
        }
    }
}
