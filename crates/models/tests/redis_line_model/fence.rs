//! FENCE in the Redis line model: a counter that increases even if the server loses data.

use crate::invariants::Promise;
use crate::server::Script;
use crate::state::{Answer, FLOOR, Ticks};
use crate::variants::Flaw;

impl Script<'_> {
    /// Tells the owner the epoch in its key: nobody else has been granted anything since. If the owner knows a higher epoch,
    /// the server has lost its counter since then, and the owner gets a new epoch.
    pub(crate) fn told_fence(&mut self, lease: Ticks) -> Answer {
        let told = self.state.server.key.map_or(0, |key| key.fence);
        let fence = if told < self.floor() {
            self.redraw_fence()
        } else {
            told
        };
        if fence < self.state.issued && !self.setup.slow_clock {
            self.state.convict(Promise::FencesGrow);
        }
        self.state.issued = fence;
        Answer::Granted { fence, lease }
    }

    fn redraw_fence(&mut self) -> u8 {
        let fence = self.draw_fence();
        if let Some(key) = &mut self.state.server.key {
            key.fence = fence;
            key.is_guessed = false;
        }
        fence
    }

    /// Records a new grant. With a slow clock, only clients that knew better are sure of a larger one; see `client.rs`.
    pub(crate) fn note_issued(&mut self, fence: u8) {
        if fence <= self.state.issued && !self.setup.slow_clock {
            self.state.convict(Promise::FencesGrow);
        }
        self.state.issued = fence;
    }

    /// Returns the highest epoch that the caller knows.
    fn floor(&self) -> u8 {
        if self.setup.has(Flaw::FloorIgnored) {
            0
        } else {
            self.command.floor
        }
    }

    /// FENCE: increments the counter, past the clock if there is no counter, and past what the caller knows.
    pub(crate) fn draw_fence(&mut self) -> u8 {
        let is_missing = self.state.server.fence == 0 && !self.setup.has(Flaw::PlainIncrement);
        let is_behind = self.state.server.fence < self.floor();
        let lifts = self.lift && self.setup.has(Flaw::LiftWaitsForAGrant);
        if is_missing || is_behind || lifts {
            self.raise_fence();
        }
        self.state.server.fence += 1;
        self.note_drawn();
        self.state.server.fence
    }

    /// The plain command that only increments an existing counter. Returns whether there was one.
    pub(crate) fn count_existing(&mut self) -> bool {
        if self.state.server.fence == 0 && !self.setup.has(Flaw::PlainCountMakesACounter) {
            return false;
        }
        self.state.server.fence += 1;
        self.note_drawn();
        true
    }

    fn note_drawn(&mut self) {
        self.state.drawn = self.state.drawn.max(self.state.server.fence);
    }

    pub(crate) fn lift_fence(&mut self) {
        if self.lift {
            self.raise_fence();
            self.state.server.fence += 1;
            self.note_drawn();
        }
    }

    /// The clock is ahead of every fence that was ever drawn, unless it is slow: then the name has changed hands more often
    /// than the clock has units. The lock's own value also contains its epoch.
    fn raise_fence(&mut self) {
        let clock = if self.setup.slow_clock {
            FLOOR
        } else {
            self.state.drawn.max(FLOOR)
        };
        let held = self.state.server.key.map_or(0, |key| key.fence);
        let known = clock.max(held).max(self.floor());
        self.state.server.fence = self.state.server.fence.max(known);
    }
}
