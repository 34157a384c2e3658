//! FENCE: a counter that outlives what a server forgets.

use crate::invariants::Promise;
use crate::server::Script;
use crate::state::{Answer, FLOOR, Ticks};
use crate::variants::Flaw;

impl Script<'_> {
    /// The owner is told what stands in its key: nobody else has been granted anything since.
    pub(crate) fn told_fence(&mut self, lease: Ticks) -> Answer {
        let fence = self.state.server.key.map_or(0, |key| key.fence);
        if fence < self.state.issued {
            self.state.convict(Promise::FencesGrow);
        }
        self.state.issued = fence;
        Answer::Granted { fence, lease }
    }

    /// A grant that was not there before.
    pub(crate) fn note_issued(&mut self, fence: u8) {
        if fence <= self.state.issued {
            self.state.convict(Promise::FencesGrow);
        }
        self.state.issued = fence;
    }

    /// FENCE: `INCR`, and past the clock when the counter was never lifted.
    pub(crate) fn draw_fence(&mut self) -> u8 {
        let floor = match self.setup.flaw {
            Some(Flaw::PlainIncrement) => 0,
            Some(Flaw::FloorOfOne) => 1,
            _ => FLOOR,
        };
        let is_new = self.state.server.fence < floor;
        let lifts = is_new || (self.lift && self.setup.has(Flaw::LiftWaitsForAGrant));
        if lifts {
            self.raise_fence();
        }
        self.state.server.fence += 1;
        self.note_drawn();
        self.state.server.fence
    }

    pub(crate) fn note_drawn(&mut self) {
        self.state.drawn = self.state.drawn.max(self.state.server.fence);
    }

    pub(crate) fn lift_fence(&mut self) {
        if self.lift {
            self.raise_fence();
            self.state.server.fence += 1;
            self.note_drawn();
        }
    }

    /// The clock is ahead of every fence that was ever drawn.
    fn raise_fence(&mut self) {
        let clock = self.state.drawn.max(FLOOR);
        self.state.server.fence = self.state.server.fence.max(clock);
    }
}
