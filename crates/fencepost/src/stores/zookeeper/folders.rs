//! The folders of locks, below which lines form: created as containers if the server supports them, and removed when they are idle.
//!
//! A server removes empty containers by itself, but only a limited number per minute, so a program that uses a new name for every order
//! would fill it. A session therefore deletes folders that it has created and not used for a while. It does not delete folders of others:
//! kazoo does not expect its folder to vanish.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zookeeper_client::{CreateMode, CreateOptions, Error as Cause};

use super::session::Session;
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
    fn made(&self, folder: &str) {
        lock(&self.made).insert(folder.to_owned(), BootClock.now());
    }

    fn no_containers(&self) {
        self.has_no_containers.store(true, Ordering::Relaxed);
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
    fn take_idle(&self, now: Moment) -> Vec<String> {
        let mut folders = lock(&self.made);
        let is_idle = |_: &String, used_at: &mut Moment| *used_at + IDLE_FOR <= now;
        folders
            .extract_if(is_idle)
            .map(|(folder, _)| folder)
            .collect()
    }
}

impl Session {
    /// Requests the creation of a folder. The request is sent now, so the next request finds the folder unless somebody deletes it very
    /// quickly.
    pub(super) fn make_folder<'a>(
        &'a self,
        folder: &'a str,
    ) -> impl Future<Output = Result<(), Cause>> + 'a {
        let made = self.client.create(folder, b"", &self.kind_of_folder());
        async move {
            match made.await {
                Ok(_) => self.folders.made(folder),
                Err(Cause::NodeExists) => {}
                Err(Cause::Unimplemented) => self.folders.no_containers(),
                Err(cause) => return Err(cause),
            }
            Ok(())
        }
    }

    /// Creates all missing nodes above a folder.
    pub(super) async fn make_base(&self) -> Result<(), Cause> {
        match self.client.mkdir(&self.base, &self.kind_of_folder()).await {
            Err(Cause::Unimplemented) => {
                self.folders.no_containers();
                Ok(())
            }
            made => made,
        }
    }

    fn kind_of_folder(&self) -> CreateOptions<'_> {
        let mode = if self.folders.has_no_containers.load(Ordering::Relaxed) {
            CreateMode::Persistent
        } else {
            CreateMode::Container
        };
        mode.with_acls(self.acls)
    }
}

/// Deletes idle folders. A folder that others use is left to them.
pub(super) async fn tidy(session: &Session, now: Moment) {
    for folder in session.folders.take_idle(now) {
        if let Err(cause) = session.client.delete(&folder, None).await {
            tracing::trace!(folder, %cause, "not removed");
        }
    }
}
