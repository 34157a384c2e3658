//! FENCE: a counter that outlives what a server forgets.

use crate::invariants::Promise;
use crate::server::Script;
use crate::state::{Answer, Ticks};
use crate::variants::Flaw;

impl Script<'_> {
    /// The owner reads the counter: nobody else has been granted anything since.
    pub(crate) fn told_fence(&mut self, lease: Ticks) -> Answer {
        let fence = self.state.server.fence;
        if fence < self.state.issued {
            self.state.convict(Promise::FencesGrow);
        }
        self.state.issued = fence;
        Answer::Granted { fence, lease }
    }

    /// FENCE: `INCR`, and past the clock when the counter is new.
    pub(crate) fn draw_fence(&mut self) -> u8 {
        let is_new = self.state.server.fence == 0 && !self.setup.has(Flaw::PlainIncrement);
        let lifts = is_new || (self.lift && self.setup.has(Flaw::LiftWaitsForAGrant));
        if lifts {
            self.raise_fence();
        }
        self.state.server.fence += 1;
        self.state.server.fence
    }

    pub(crate) fn lift_fence(&mut self) {
        if self.lift {
            self.raise_fence();
            self.state.server.fence += 1;
        }
    }

    /// The clock is ahead of every fence that was ever drawn.
    fn raise_fence(&mut self) {
        self.state.server.fence = self.state.server.fence.max(self.state.issued);
    }
}
