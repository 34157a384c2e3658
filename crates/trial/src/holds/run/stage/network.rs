//! What the lab does to the road between a process and its store.

use std::time::{Duration, Instant};

use super::Stage;
use crate::history::Fault;
use crate::holds::run::lease::Lease;
use crate::holds::run::script::RoadEvent;

impl Stage<'_> {
    pub(super) fn act_on_road(&mut self, index: usize, event: RoadEvent) {
        match event {
            RoadEvent::CutOff => self.cut_off(index),
            RoadEvent::Reconnect => self.reconnect(index),
        }
    }

    /// Cuts the process off. A process that did not reach the store this way when it took its lock is not affected, so nothing is
    /// recorded.
    fn cut_off(&mut self, index: usize) {
        let Some(roads) = &mut self.roads else {
            return;
        };
        let road = roads.of(index);
        road.cut_off();
        let at = Instant::now();
        if road.replies_since_asked() > 0 {
            self.fault(at, index, Fault::CutOff);
            self.actors[index].is_cut_off = true;
            self.expect_no_renewal(index, at);
        }
    }

    fn reconnect(&mut self, index: usize) {
        // Taken before: the process may learn something before this thread runs again.
        let at = Instant::now();
        let Some(roads) = &mut self.roads else {
            return;
        };
        roads.of(index).reconnect();
        if std::mem::take(&mut self.actors[index].is_cut_off) {
            self.fault(at, index, Fault::Reconnected);
            if self.lease == Lease::Renewed {
                self.diary.forget_leases(index);
            }
        }
    }

    pub(super) fn reconnect_within(&mut self, index: usize, time: Duration) {
        if let Some(roads) = &mut self.roads {
            roads.of(index).reconnect_at(Instant::now() + time);
        }
    }

    /// Opens the roads that must be open by now.
    pub(super) fn reconnect_due(&mut self, now: Instant) {
        let due = self.roads.as_ref().map(|roads| roads.due(now));
        for index in due.unwrap_or_default() {
            self.reconnect(index);
        }
    }
}
