//! The folders of locks, below which lines form: created as containers if the server supports them, and removed when they are idle.
//!
//! A server removes empty containers by itself, but only a limited number per minute, so a program that uses a new name for every order
//! would fill it. A session therefore deletes folders that it has created and not used for a while. It does not delete folders of others:
//! kazoo does not expect its folder to vanish.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zookeeper_client::CreateMode;

use crate::clock::{BootClock, Clock, Moment};
use crate::mutex::lock;

/// How long a folder must be idle before it is removed. Creating it again costs two more round trips.
const IDLE_FOR: Duration = Duration::from_secs(10);

/// The folders that this session has created.
#[derive(Debug, Default)]
pub(super) struct Folders {
    /// When each was last used.
    made: Mutex<HashMap<String, Moment>>,
    /// Whether the server is too old for containers.
    has_no_containers: AtomicBool,
}

impl Folders {
    /// Records that this session has created the folder.
    pub(super) fn made(&self, folder: &str) {
        lock(&self.made).insert(folder.to_owned(), BootClock.now());
    }

    /// Records that the server is too old for containers.
    pub(super) fn no_containers(&self) {
        self.has_no_containers.store(true, Ordering::Relaxed);
    }

    /// Returns how to create a folder.
    pub(super) fn mode(&self) -> CreateMode {
        if self.has_no_containers.load(Ordering::Relaxed) {
            CreateMode::Persistent
        } else {
            CreateMode::Container
        }
    }

    /// Records that the folder was in use until now.
    pub(super) fn used(&self, folder: &str) {
        if let Some(used_at) = lock(&self.made).get_mut(folder) {
            *used_at = BootClock.now();
        }
    }

    /// Returns when the first folder will have been idle for long enough.
    pub(super) fn idle_at(&self) -> Moment {
        let folders = lock(&self.made);
        let first = folders.values().min();
        first.map_or(Moment::FAR, |used_at| *used_at + IDLE_FOR)
    }

    /// Removes and returns the folders that have been idle for long enough.
    pub(super) fn take_idle(&self, now: Moment) -> Vec<String> {
        let mut folders = lock(&self.made);
        let is_idle = |_: &String, used_at: &mut Moment| *used_at + IDLE_FOR <= now;
        folders
            .extract_if(is_idle)
            .map(|(folder, _)| folder)
            .collect()
    }
}
