//! What the lab does to the road between a process and its store.

use std::time::{Duration, Instant};

use fencepost_rig::ReplyFate;

use super::{Doing, Stage};
use crate::history::Fault;
use crate::holds::FIRST;
use crate::holds::run::lease::Lease;
use crate::holds::run::script::{Act, RoadEvent};
use crate::processes::LOOK_UP;

/// How often the lab looks at the roads.
const LOOK_OFTEN: Duration = Duration::from_millis(5);

impl Stage<'_> {
    pub(super) fn act_on_road(&mut self, index: usize, event: RoadEvent) {
        match event {
            RoadEvent::CutOff => self.cut_off(index),
            RoadEvent::Slow(grant) => self.slow(index, grant),
            RoadEvent::LoseReply(number) => {
                if let Some(roads) = &mut self.roads {
                    roads.of(index).choose_reply(number, ReplyFate::Cut);
                }
            }
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
            self.actors[index].is_disturbed = true;
            self.expect_no_renewal(index, at);
        }
    }

    fn slow(&mut self, index: usize, grant: Duration) {
        let Some(roads) = &mut self.roads else {
            return;
        };
        roads.of(index).slow(grant);
        self.fault(Instant::now(), index, Fault::Slowed);
        self.actors[index].is_disturbed = true;
    }

    /// Records a reply that was lost by this time.
    pub(super) fn notice_met(&mut self, by: Instant) {
        for index in 0..self.actors.len() {
            let road = self.roads.as_mut().map(|roads| roads.of(index));
            match road.and_then(|road| road.tell_met()) {
                Some(ReplyFate::Cut) => self.fault(by, index, Fault::ReplyLost),
                Some(ReplyFate::Hold | ReplyFate::Pass) | None => {}
            }
        }
    }

    /// Returns whether the reply that was chosen on the road of this process has come.
    pub(super) fn has_met(&mut self, index: usize) -> bool {
        let roads = self.roads.as_mut();
        roads.is_some_and(|roads| roads.of(index).has_met())
    }

    /// Returns whether the store has answered the request of this process for the first lock, or will not be asked any more.
    pub(super) fn is_answered(&self, index: usize) -> bool {
        let actor = &self.actors[index];
        let is_asked = matches!(
            &actor.doing,
            Doing::Asked(asked, _) if matches!(asked.act, Act::Acquire { key: FIRST, .. })
        );
        let roads = self.roads.as_ref();
        let is_answered = roads.is_some_and(|roads| roads.is_answered(index));
        actor.is_finished() || actor.hold_of(FIRST).is_some() || (is_asked && is_answered)
    }

    /// Returns how often the lab looks for what no process tells it.
    pub(super) fn look_up(&self) -> Duration {
        if self.roads.is_some() {
            LOOK_OFTEN
        } else {
            LOOK_UP
        }
    }

    fn reconnect(&mut self, index: usize) {
        // Taken before: the process may learn something before this thread runs again.
        let at = Instant::now();
        let Some(roads) = &mut self.roads else {
            return;
        };
        roads.of(index).reconnect();
        if std::mem::take(&mut self.actors[index].is_disturbed) {
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
