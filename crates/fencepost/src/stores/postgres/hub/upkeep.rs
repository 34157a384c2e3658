//! What every statement of a session does besides its purpose: it sets how long the session lasts, shows the session's locks, and releases
//! overdue ones.

use std::sync::Arc;
use std::time::Duration;

use super::State;
use crate::clock::{BootClock, Clock};
use crate::error::Result;
use crate::stores::postgres::published::comment;
use crate::stores::postgres::seat::{LeaseCare, Seat, SharedAnswer};
use crate::stores::postgres::session_pool::SessionNumber;
use crate::stores::postgres::statements::Lasting;

/// The upkeep of one statement.
pub(super) struct Upkeep {
    pub(super) lasting: Lasting,
    /// The seats that stay in the session, the newest first.
    pub(super) seats: Vec<Arc<Seat>>,
    overdue: Vec<Arc<Seat>>,
}

impl Upkeep {
    /// Returns the upkeep for the next statement of a session. Does not count the seat that is `leaving` with that statement.
    pub(super) fn of(
        state: &mut State,
        number: SessionNumber,
        spare: Duration,
        leaving: Option<&Seat>,
    ) -> Self {
        let now = BootClock.now();
        let leaving = leaving.map(|seat| seat.claim.owner);
        let (mut seats, mut overdue) = (Vec::new(), Vec::new());
        for seat in state.on(number) {
            if Some(seat.claim.owner) == leaving {
                continue;
            }
            match seat.care(now) {
                LeaseCare::Lasts => seats.push(seat),
                LeaseCare::Overdue => overdue.push(seat),
                LeaseCare::Unlocking => {}
                LeaseCare::Unlocked => state.forget(&seat),
            }
        }
        let needed = seats.iter().map(|seat| seat.left(now)).max();
        let lasting = Lasting {
            needed: needed.unwrap_or_default(),
            spare,
            overdue: overdue.iter().map(|seat| seat.key).collect(),
        };
        Self {
            lasting,
            seats,
            overdue,
        }
    }

    /// Returns what the session publishes about the locks that stay.
    pub(super) fn comment(&self) -> String {
        comment(self.seats.iter().map(|seat| seat.published()))
    }

    /// Records that the statement was sent. The overdue seats are kept until its answer has arrived: if the statement fails, a later one
    /// has to release their locks.
    pub(super) fn sent<T: Clone + Send + Sync + 'static>(self, answer: &SharedAnswer<Result<T>>) {
        for seat in self.overdue {
            seat.record_unlock_sent(answer);
        }
    }
}
