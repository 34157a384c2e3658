//! The waiters of this process. They are woken by a notification of the server, at a time when the lock may be free, or by a new
//! connection.
//!
//! Of all waiters for one lock, only the first one has a timer; each of the others has a live waiter ahead of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::keys::{holder_of, label_of, row_of};
use crate::claim::{Claim, OwnerId};
use crate::clock::{BootClock, Clock, Moment};
use crate::mutex::lock;
use crate::stores::kit::turn_window;

/// How often the first waiter of this process checks in any case, because a notification may be lost.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// Which part of the time that another program has held the lock may pass before the first waiter checks again, because other programs send
/// no notification. A short hold is noticed soon, and a long one costs few checks.
const FOREIGN_SHARE: u32 = 8;
const FOREIGN_LEAST: Duration = Duration::from_millis(5);
/// The server's clock is read in milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

/// The waiters of this process, by row.
#[derive(Default)]
pub(super) struct Waiters {
    waiters: Mutex<HashMap<Arc<str>, Vec<Arc<LocalWaiter>>>>,
}

/// A client that waits or is about to.
pub(super) struct LocalWaiter {
    pub(super) claim: Claim,
    pub(super) row: Arc<str>,
    pub(super) holder: String,
    pub(super) label: String,
    state: Mutex<State>,
    told: Notify,
}

#[derive(Default)]
struct State {
    /// Its place in the server's line, and since when.
    place: Option<LinePosition>,
    /// How many waiters were ahead of it.
    ahead: u32,
    /// Whether it should ask now.
    ask: bool,
    /// When it should ask, if it is the first of this process.
    due: Option<Moment>,
}

#[derive(Clone, Copy)]
pub(super) struct LinePosition {
    pub(super) ticket: i64,
    pub(super) since: Moment,
}

/// The answer to a refused request.
pub(super) struct Refusal {
    /// The time until the lock may be free if nobody releases it before, or `None` if that is not known.
    pub(super) due_in: Option<Duration>,
    pub(super) ahead: u32,
    /// The ticket, or `None` if the client is not in line.
    pub(super) ticket: Option<i64>,
    /// For how long another program has held the lock, or `None` if no other program holds it.
    pub(super) foreign_for: Option<Duration>,
}

impl Refusal {
    /// Returns after which time it is worth asking again without a notification.
    fn ask_in(&self) -> Duration {
        let due = self.due_in.map_or(LOOK, |due| due + ROUNDING);
        let look = self.foreign_for.map_or(LOOK, |held| {
            (held / FOREIGN_SHARE).clamp(FOREIGN_LEAST, LOOK)
        });
        due.min(look)
    }
}

impl Waiters {
    /// Creates a waiter that exists until the returned value is dropped.
    pub(super) fn register(&self, claim: &Claim) -> RegisteredWaiter<'_> {
        let row: Arc<str> = row_of(&claim.name).into();
        let waiter = Arc::new(LocalWaiter {
            holder: holder_of(claim),
            label: label_of(claim),
            claim: claim.clone(),
            row: row.clone(),
            state: Mutex::default(),
            told: Notify::new(),
        });
        lock(&self.waiters)
            .entry(row)
            .or_default()
            .push(waiter.clone());
        RegisteredWaiter {
            waiters: self,
            waiter,
        }
    }

    /// Handles the server's notification that the lock is free and who is first in line.
    pub(super) fn notify_free(&self, row: &str, first: OwnerId) {
        let waiters = lock(&self.waiters);
        let Some(waiters) = waiters.get(row) else {
            return;
        };
        match waiters.iter().find(|waiter| waiter.claim.owner == first) {
            Some(waiter) => waiter.ask_now(),
            // The first waiter may be dead. It is then our turn when its time has passed.
            None => {
                if let Some(waiter) = front(waiters) {
                    waiter.after_those_before();
                }
            }
        }
    }

    /// Makes all waiters ask, because there is a new connection, or none.
    pub(super) fn ask_all(&self) {
        for waiter in lock(&self.waiters).values().flatten() {
            waiter.ask_now();
        }
    }

    fn leave(&self, waiter: &Arc<LocalWaiter>) {
        let mut all = lock(&self.waiters);
        let Some(waiters) = all.get_mut(&waiter.row) else {
            return;
        };
        waiters.retain(|other| !Arc::ptr_eq(other, waiter));
        match front(waiters) {
            Some(next) => next.becomes_first(),
            None if waiters.is_empty() => drop(all.remove(&waiter.row)),
            None => {}
        }
    }

    fn is_front(&self, waiter: &Arc<LocalWaiter>) -> bool {
        let all = lock(&self.waiters);
        let first = all.get(&waiter.row).and_then(|waiters| front(waiters));
        first.is_none_or(|first| Arc::ptr_eq(first, waiter))
    }
}

/// Returns the first waiter of this process that is in the server's line.
fn front(waiters: &[Arc<LocalWaiter>]) -> Option<&Arc<LocalWaiter>> {
    let placed = waiters
        .iter()
        .filter_map(|waiter| Some((waiter.place()?, waiter)));
    let first = placed.min_by_key(|(place, _)| place.ticket);
    first.map(|(_, waiter)| waiter)
}

impl LocalWaiter {
    pub(super) fn place(&self) -> Option<LinePosition> {
        lock(&self.state).place
    }

    /// Clears earlier notifications, because a request is about to be sent whose answer is newer.
    pub(super) fn begin(&self) {
        let mut state = lock(&self.state);
        (state.ask, state.due) = (false, None);
    }

    pub(super) fn refused(&self, refusal: &Refusal) {
        let now = BootClock.now();
        let mut state = lock(&self.state);
        if let Some(ticket) = refusal.ticket {
            let since = state.place.map_or(now, |place| place.since);
            state.place = Some(LinePosition { ticket, since });
        }
        state.ahead = refusal.ahead;
        state.due = Some(now + refusal.ask_in());
    }

    fn ask_now(&self) {
        lock(&self.state).ask = true;
        self.told.notify_one();
    }

    fn after_those_before(&self) {
        let ahead = lock(&self.state).ahead;
        let pause = turn_window::length(ahead) + ROUNDING;
        self.due_by(BootClock.now() + pause.min(LOOK));
    }

    /// Gives the waiter a timer: it is now the first waiter of this process.
    fn becomes_first(&self) {
        let now = BootClock.now();
        let mut state = lock(&self.state);
        let due = state.due.filter(|due| *due > now);
        state.due = Some(due.map_or(now + LOOK, |due| due.min(now + LOOK)));
        drop(state);
        self.told.notify_one();
    }

    fn due_by(&self, moment: Moment) {
        let mut state = lock(&self.state);
        state.due = Some(state.due.map_or(moment, |due| due.min(moment)));
        drop(state);
        self.told.notify_one();
    }
}

/// A waiter that is in use.
pub(super) struct RegisteredWaiter<'a> {
    waiters: &'a Waiters,
    pub(super) waiter: Arc<LocalWaiter>,
}

impl RegisteredWaiter<'_> {
    /// Completes when it is time to ask.
    pub(super) async fn until_worth_asking(&self) {
        loop {
            let (ask, due) = {
                let state = lock(&self.waiter.state);
                (state.ask, state.due.unwrap_or(Moment::FAR))
            };
            if ask {
                return;
            }
            let due = if self.waiters.is_front(&self.waiter) {
                due
            } else {
                Moment::FAR
            };
            tokio::select! {
                () = self.waiter.told.notified() => {}
                () = BootClock.sleep_until(due) => return,
            }
        }
    }
}

impl Drop for RegisteredWaiter<'_> {
    fn drop(&mut self) {
        self.waiters.leave(&self.waiter);
    }
}
