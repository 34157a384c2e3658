//! The locks that are held, and how far the watch of each key is.
//!
//! `watch_stream` watches the keys, so that the holders learn of a loss before the next renewal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_client::{WatchFilterType, WatchOptions};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::claim::OwnerId;
use crate::clock::{BootClock, Clock, Moment};
use crate::mutex::lock;

/// A lock that is held for less than this is not watched, because watching would cost more than it is worth.
const UNWATCHED_FOR: Duration = Duration::from_secs(1);
/// The pause after a failure to watch.
pub(super) const REWATCH_PAUSE: Duration = Duration::from_secs(1);

/// The locks that are watched, and the task that watches them.
#[derive(Default)]
pub(super) struct LossWatch {
    list: Arc<WatchList>,
    task: Mutex<Option<AbortHandle>>,
}

#[derive(Default)]
pub(super) struct WatchList {
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
    /// Records that the lock with this key was granted; the revision `since` created the key. If no task watches the list, returns what
    /// the caller has to give to a new one.
    pub(super) fn begin(&self, owner: OwnerId, key: Vec<u8>, since: i64) -> Option<TaskEnd> {
        let mut state = lock(&self.list.state);
        let known = state.held.get(&owner);
        if known.is_none_or(|held| held.since != since) {
            if let Some(Watch::Begun(id)) = known.map(|held| held.watch) {
                state.to_cancel.push(id);
            }
            let held = WatchedHold {
                key,
                since,
                due: BootClock.now() + UNWATCHED_FOR,
                watch: Watch::None,
                is_compacted: false,
            };
            state.held.insert(owner, held);
            self.list.news.notify_one();
        }
        let is_kept = std::mem::replace(&mut state.is_kept, true);
        drop(state);
        (!is_kept).then(|| TaskEnd {
            list: self.list.clone(),
            has_ended: false,
        })
    }

    /// Sets the task that ends with this watch at the latest.
    pub(super) fn set_task(&self, task: AbortHandle) {
        *lock(&self.task) = Some(task);
    }

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

/// Belongs to the task that watches, and notices when the runtime drops the task.
pub(super) struct TaskEnd {
    pub(super) list: Arc<WatchList>,
    /// Whether the task has reported its end itself; there may be another task by now.
    pub(super) has_ended: bool,
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

impl WatchList {
    /// Completes when there is a lock to watch. Returns `false` if nothing is held and the task has to end.
    pub(super) async fn until_due(&self) -> bool {
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
                () = self.news() => {}
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

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.state).held.is_empty()
    }

    /// Completes when there is a new lock, a watch to cancel, or nothing left to watch.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    /// Returns when the next lock has to be watched.
    pub(super) fn next_due(&self) -> Moment {
        let state = lock(&self.state);
        let waiting = state.held.values().filter(|held| held.watch == Watch::None);
        waiting.map(|held| held.due).min().unwrap_or(Moment::FAR)
    }

    /// Returns at most this many locks that have to be watched now, with the options for each request.
    pub(super) fn take_due(&self, most: usize) -> Vec<(OwnerId, Vec<u8>, WatchOptions)> {
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

    /// Returns the watches that are not needed any more.
    pub(super) fn take_to_cancel(&self) -> Vec<i64> {
        std::mem::take(&mut lock(&self.state).to_cancel)
    }

    /// Records that the watch `id` of this owner's key has begun. Returns whether the server cannot tell what happened to the key before.
    pub(super) fn watch_has_begun(&self, id: i64, owner: OwnerId) -> bool {
        let mut state = lock(&self.state);
        match state.held.get_mut(&owner) {
            Some(held) if held.watch == Watch::AskedFor => {
                held.watch = Watch::Begun(id);
                held.is_compacted
            }
            // The lock was released in the meantime.
            _ => {
                state.to_cancel.push(id);
                false
            }
        }
    }

    /// Records that the server has ended the watch of this owner's key because what it asked for was compacted away.
    pub(super) fn watch_was_compacted(&self, owner: OwnerId) {
        if let Some(held) = lock(&self.state).held.get_mut(&owner) {
            held.is_compacted = true;
            held.watch = Watch::None;
            held.due = BootClock.now() + REWATCH_PAUSE;
        }
    }

    /// Returns whether this owner's lock is still held and `id` watches its key.
    pub(super) fn is_watched_by(&self, id: i64, owner: OwnerId) -> bool {
        let state = lock(&self.state);
        let held = state.held.get(&owner);
        held.is_some_and(|held| held.watch == Watch::Begun(id))
    }

    /// Records that this owner's key is gone.
    pub(super) fn key_is_gone(&self, owner: OwnerId) {
        lock(&self.state).held.remove(&owner);
    }

    /// Resets the state after the stream and all its watches have ended. Returns the owners whose locks it watched.
    pub(super) fn start_anew(&self) -> Vec<OwnerId> {
        lock(&self.state).start_anew()
    }
}

impl WatchListState {
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
