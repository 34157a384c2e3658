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
use crate::stores::kit::claim_window;

/// How often the first waiter of this process checks in any case, because a notification may be lost.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// Which part of the time that another program has held the lock may pass before the first waiter checks again, because other programs send
/// no notification. A short hold is noticed soon, and a long one costs few checks.
const FOREIGN_SHARE: u32 = 8;
const FOREIGN_LEAST: Duration = Duration::from_millis(5);
/// The server's clock is read in milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

/// The seats of the waiters, by row.
#[derive(Default)]
pub(super) struct Waiters {
    seats: Mutex<HashMap<Arc<str>, Vec<Arc<Seat>>>>,
}

/// A client that waits or is about to.
pub(super) struct Seat {
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
    /// Creates a seat that exists until the returned value is dropped.
    pub(super) fn sit_down(&self, claim: &Claim) -> Seated<'_> {
        let row: Arc<str> = row_of(&claim.name).into();
        let seat = Arc::new(Seat {
            holder: holder_of(claim),
            label: label_of(claim),
            claim: claim.clone(),
            row: row.clone(),
            state: Mutex::default(),
            told: Notify::new(),
        });
        lock(&self.seats).entry(row).or_default().push(seat.clone());
        Seated { line: self, seat }
    }

    /// Handles the server's notification that the lock is free and who is first in line.
    pub(super) fn notify_free(&self, row: &str, first: OwnerId) {
        let seats = lock(&self.seats);
        let Some(seats) = seats.get(row) else {
            return;
        };
        match seats.iter().find(|seat| seat.claim.owner == first) {
            Some(seat) => seat.ask_now(),
            // The first waiter may be dead. It is then our turn when its time has passed.
            None => {
                if let Some(seat) = front(seats) {
                    seat.after_those_before();
                }
            }
        }
    }

    /// Makes all waiters ask, because there is a new connection, or none.
    pub(super) fn ask_all(&self) {
        for seat in lock(&self.seats).values().flatten() {
            seat.ask_now();
        }
    }

    fn leave(&self, seat: &Arc<Seat>) {
        let mut all = lock(&self.seats);
        let Some(seats) = all.get_mut(&seat.row) else {
            return;
        };
        seats.retain(|other| !Arc::ptr_eq(other, seat));
        match front(seats) {
            Some(next) => next.becomes_first(),
            None if seats.is_empty() => drop(all.remove(&seat.row)),
            None => {}
        }
    }

    fn is_front(&self, seat: &Arc<Seat>) -> bool {
        let all = lock(&self.seats);
        let first = all.get(&seat.row).and_then(|seats| front(seats));
        first.is_none_or(|first| Arc::ptr_eq(first, seat))
    }
}

/// Returns the first waiter of this process that is in the server's line.
fn front(seats: &[Arc<Seat>]) -> Option<&Arc<Seat>> {
    let placed = seats.iter().filter_map(|seat| Some((seat.place()?, seat)));
    let first = placed.min_by_key(|(place, _)| place.ticket);
    first.map(|(_, seat)| seat)
}

impl Seat {
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
        let pause = claim_window::length(ahead) + ROUNDING;
        self.due_by(BootClock.now() + pause.min(LOOK));
    }

    /// Gives the seat a timer: it is now the first waiter of this process.
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

/// A seat that is in use.
pub(super) struct Seated<'a> {
    line: &'a Waiters,
    pub(super) seat: Arc<Seat>,
}

impl Seated<'_> {
    /// Completes when it is time to ask.
    pub(super) async fn until_worth_asking(&self) {
        loop {
            let (ask, due) = {
                let state = lock(&self.seat.state);
                (state.ask, state.due.unwrap_or(Moment::FAR))
            };
            if ask {
                return;
            }
            let due = if self.line.is_front(&self.seat) {
                due
            } else {
                Moment::FAR
            };
            tokio::select! {
                () = self.seat.told.notified() => {}
                () = BootClock.sleep_until(due) => return,
            }
        }
    }
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        self.line.leave(&self.seat);
    }
}
