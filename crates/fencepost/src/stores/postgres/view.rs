//! Inspects and lists advisory locks without changing them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::SimpleQueryRow;

use super::hub::Hub;
use super::keys::{key_of, name_of};
use super::published::{self, PublishedLock};
use super::rows::{number, text};
use super::statements::{self, ShownIn};
use crate::backend::{Holder, Listed, Record, Waiter, name_matches};
use crate::claim::{LockName, OwnerId};
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Operation, Result};

/// One session that holds a lock or waits for it.
pub(super) struct SessionRow {
    pub(super) pid: i32,
    pub(super) is_granted: bool,
    key: i64,
    waited: Duration,
    application: String,
    /// What the session publishes about this lock, if anything.
    published: Option<PublishedLock>,
    /// Whether what `application_name` says can only be about this lock: the session has no other, and publishes nothing that we can read.
    is_alone: bool,
    /// Whether the session belongs to this library.
    is_ours: bool,
    /// How long the session has been idle, or `None` while it runs a statement.
    idle: Option<Duration>,
    server_now_ms: u64,
    seen_at: Moment,
}

impl SessionRow {
    pub(super) fn read(row: &SimpleQueryRow, seen_at: Moment) -> Option<Self> {
        let key = number(row, 3)?;
        let published = published::read(text(row, 6));
        let application = text(row, 5).to_owned();
        Some(Self {
            pid: number(row, 1)?,
            is_granted: text(row, 2) == "t",
            key,
            waited: Duration::from_millis(number(row, 4).unwrap_or(0)),
            is_alone: published.is_empty() && number(row, 9) == Some(1_u64),
            is_ours: !published.is_empty() || published::newest(&application).is_some(),
            application,
            published: published
                .into_iter()
                .find(|published| is_number_of(&published.name, key)),
            idle: number(row, 7).map(Duration::from_millis),
            server_now_ms: number(row, 8)?,
            seen_at,
        })
    }

    /// Returns the owner. Returns `None` if the session does not belong to this library, or does not show the owner of this lock.
    pub(super) fn owner(&self) -> Option<OwnerId> {
        match &self.published {
            Some(published) => Some(published.owner),
            None => self.newest().map(|(_, owner)| owner),
        }
    }

    /// Returns where [`owner`](Self::owner) was found.
    pub(super) fn shown_in(&self) -> ShownIn {
        match self.published {
            Some(_) => ShownIn::Comment,
            None => ShownIn::ApplicationName,
        }
    }

    /// Returns the epoch and the owner in `application_name`, which is about the lock of the session that was granted last. Returns `None`
    /// if that is, or may be, another one.
    fn newest(&self) -> Option<(u64, OwnerId)> {
        let newest = published::newest(&self.application).filter(|_| self.is_granted);
        newest.filter(|(_, owner)| match &self.published {
            Some(published) => published.owner == *owner,
            None => self.is_alone,
        })
    }

    fn label(&self) -> Arc<str> {
        let pid = self.pid;
        match (&self.published, published::program_of(&self.application)) {
            (Some(published), _) => published.label.clone(),
            (None, "") => format!("process {pid}").into(),
            (None, program) => format!("{program}, process {pid}").into(),
        }
    }

    fn holder(&self) -> Holder {
        let Some(published) = &self.published else {
            return Holder {
                owner: self.owner(),
                epoch: self.newest().map(|(epoch, _)| epoch),
                ..Holder::new(self.label())
            };
        };
        let idle = self.idle.unwrap_or_default();
        let held = match published.since {
            Some(since) => Duration::from_millis(self.server_now_ms.saturating_sub(since.at_ms)),
            // The statement that is shown is the one that was granted the lock.
            None => idle,
        };
        let epoch = published.since.map(|since| since.epoch);
        Holder {
            owner: Some(published.owner),
            epoch: epoch.or(self.newest().map(|(epoch, _)| epoch)),
            since: Some(self.seen_at.saturating_sub(held)),
            ttl_left: Some(published.ttl.saturating_sub(idle)),
            ttl: Some(published.ttl),
            ..Holder::new(published.label.clone())
        }
    }

    fn waiter(&self) -> Waiter {
        Waiter::new(self.label(), self.waited)
    }
}

fn is_number_of(name: &str, key: i64) -> bool {
    let name = LockName::new(name);
    name.and_then(|name| key_of(&name))
        .is_ok_and(|found| found == key)
}

async fn look(hub: &Hub, key: Option<i64>) -> Result<Vec<SessionRow>> {
    let statement = statements::look(key);
    let rows = hub.ask_aside(Operation::Inspect, &statement).await?;
    let now = BootClock.now();
    Ok(rows
        .iter()
        .filter_map(|row| SessionRow::read(row, now))
        .collect())
}

/// Creates the record of one lock from its sessions, holders first.
fn record(sessions: &[SessionRow]) -> Option<Record> {
    if sessions.is_empty() {
        return None;
    }
    let holder = sessions.iter().find(|session| session.is_granted);
    let waiting = sessions.iter().filter(|session| !session.is_granted);
    Some(Record::new(
        holder.map(SessionRow::holder),
        waiting.map(SessionRow::waiter).collect(),
    ))
}

pub(super) async fn inspect(hub: &Hub, name: &LockName) -> Result<Option<Record>> {
    let sessions = look(hub, Some(key_of(name)?)).await?;
    Ok(record(&sessions))
}

pub(super) async fn list(hub: &Hub, pattern: Option<&str>) -> Result<Vec<Listed>> {
    let mut by_key: BTreeMap<i64, Vec<SessionRow>> = BTreeMap::new();
    for session in look(hub, None).await? {
        by_key.entry(session.key).or_default().push(session);
    }
    let mut listed = Vec::new();
    for (key, sessions) in by_key {
        let is_ours = sessions.iter().any(|session| session.is_ours);
        let published = sessions
            .iter()
            .find_map(|session| session.published.as_ref());
        let name = published.map_or_else(|| name_of(key), |published| published.name.clone());
        let is_wanted = match pattern {
            Some(pattern) => name_matches(pattern, &name),
            None => is_ours,
        };
        if is_wanted && let Some(record) = record(&sessions) {
            listed.push(Listed { name, record });
        }
    }
    Ok(listed)
}
