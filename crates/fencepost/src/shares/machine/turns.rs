//! What happens to a [`Roster`] by itself: leases end, and whoever does not come in its turn is passed over.
//!
//! Nobody has to write that down when it happens. [`settle`](Roster::settle) works out everything that has happened until a given time, in
//! the order of time, so that all clients that read the same record at the same time see the same line.

use std::time::Duration;

use super::roster::{Capacity, Roster};
use crate::backend::records::StoreTime;
use crate::stores::kit::turn_window;

impl Roster {
    /// Lets time pass until `time`: leases that are over end, waiters for whom there is room are called, and those who did not come are
    /// passed over.
    ///
    /// In another era, the times in the record mean nothing. All leases have ended then, and everybody who waits comes back.
    pub fn settle(&mut self, time: &StoreTime) {
        if self.era != time.era {
            self.shares.clear();
            self.line.clear();
            self.era = time.era.clone();
        }
        while let Some(at) = self.next_event().filter(|at| *at <= time.now) {
            self.happen(at);
        }
    }

    /// Returns when the next lease or turn ends by itself. Every event is later than the time of the last [`settle`](Self::settle).
    pub fn next_event(&self) -> Option<Duration> {
        let ends = self.shares.iter().map(|share| share.ends);
        let turns = self.line.iter().filter_map(|waiting| waiting.called_until);
        ends.chain(turns).min()
    }

    /// Ends the leases and turns that end at this time, and calls those for whom there is room then.
    fn happen(&mut self, at: Duration) {
        self.shares.retain(|share| share.ends > at);
        let before = self.line.len();
        self.line
            .retain(|waiting| waiting.called_until.is_none_or(|until| until > at));
        let was_passed_over = self.line.len() < before;
        // Those behind a dead waiter have seen its turn end, and need less time to come.
        let window = if was_passed_over {
            turn_window::NEXT
        } else {
            turn_window::FIRST
        };
        self.call(at.saturating_add(window));
    }

    /// Calls the waiters for whom there is room, in their order: nobody overtakes a waiter for whom there is none. Their part is kept for
    /// them until the given time.
    pub(super) fn call(&mut self, until: Duration) {
        let Some(capacity) = self.capacity else {
            return;
        };
        let mut room = self.room(capacity);
        for waiting in &mut self.line {
            if waiting.called_until.is_some() {
                continue;
            }
            if !room.fits(waiting.need) {
                return;
            }
            room.take(waiting.need);
            waiting.called_until = Some(until);
        }
    }

    /// Returns whether somebody waits for whom there is no room yet.
    pub(super) fn somebody_must_wait(&self) -> bool {
        self.line
            .iter()
            .any(|waiting| waiting.called_until.is_none())
    }

    /// Returns how many permits are neither held nor kept for a waiter whose turn it is. Zero for a read-write lock.
    pub fn free(&self) -> u32 {
        match self.capacity {
            Some(capacity @ Capacity::Permits(_)) => self.room(capacity).free,
            Some(Capacity::ReadWrite) | None => 0,
        }
    }
}
