//! The nodes below which lines form: made as containers where the server has them, and removed when they lie idle.
//!
//! A server removes an empty container by itself, but only so many a minute: a program that uses a new name for every order would
//! fill it. So a session deletes what it has made and not used for a while. It leaves alone what others have made: kazoo does not
//! expect its folder to vanish.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use zookeeper_client::{CreateMode, Error as Cause};

use super::link::Link;
use crate::clock::{BootClock, Clock, Moment};
use crate::lease::lock;

/// A folder that was not used for so long is removed: making one anew costs two more round trips.
const IDLE_FOR: Duration = Duration::from_secs(10);

/// The folders this session has made, and when each was last used.
#[derive(Debug, Default)]
pub(super) struct Folders(Mutex<HashMap<String, Moment>>);

impl Folders {
    fn made(&self, folder: &str) {
        lock(&self.0).insert(folder.to_owned(), BootClock.now());
    }

    /// It was in use until now.
    pub(super) fn used(&self, folder: &str) {
        if let Some(used_at) = lock(&self.0).get_mut(folder) {
            *used_at = BootClock.now();
        }
    }

    /// When the first of them will have been idle for long enough.
    pub(super) fn idle_at(&self) -> Moment {
        let folders = lock(&self.0);
        let first = folders.values().min();
        first.map_or(Moment::FAR, |used_at| *used_at + IDLE_FOR)
    }

    /// Takes out those that have been idle for long enough.
    fn take_idle(&self, now: Moment) -> Vec<String> {
        let mut folders = lock(&self.0);
        let is_idle = |_: &String, used_at: &mut Moment| *used_at + IDLE_FOR <= now;
        folders
            .extract_if(is_idle)
            .map(|(folder, _)| folder)
            .collect()
    }
}

/// Makes a folder, and everything above it that is missing.
pub(super) async fn make(link: &Link, folder: &str) -> Result<(), Cause> {
    let container = CreateMode::Container.with_acls(link.acls);
    match link.client.mkdir(folder, &container).await {
        Err(Cause::Unimplemented) => {
            let persistent = CreateMode::Persistent.with_acls(link.acls);
            link.client.mkdir(folder, &persistent).await?;
        }
        made => made?,
    }
    link.folders.made(folder);
    Ok(())
}

/// Removes what nobody uses. One that is in use by others is left to them: it is theirs now.
pub(super) async fn tidy(link: &Link, now: Moment) {
    for folder in link.folders.take_idle(now) {
        if let Err(cause) = link.client.delete(&folder, None).await {
            tracing::trace!(folder, %cause, "not removed");
        }
    }
}
