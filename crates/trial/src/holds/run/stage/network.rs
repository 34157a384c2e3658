//! What the lab does to the road between a process and its store.

use std::time::{Duration, Instant};

use fencepost_rig::{Direction, ReplyFate, Signal};

use super::{Doing, Stage};
use crate::history::Fault;
use crate::holds::FIRST_LOCK;
use crate::holds::run::lease_start::LeaseStart;
use crate::holds::run::roads::{StoreError, Which};
use crate::holds::run::script::{Act, RoadEvent};
use crate::processes::LOOK_UP;

/// How often the lab looks at the roads.
const LOOK_OFTEN: Duration = Duration::from_millis(5);

impl Stage<'_> {
    pub(super) fn act_on_road(&mut self, index: usize, event: RoadEvent) {
        match event {
            RoadEvent::CutOff => self.cut_off(index),
            RoadEvent::CutOneWay(closed) => self.cut_one_way(index, closed),
            RoadEvent::Slow(grant) => self.slow(index, grant),
            RoadEvent::Distance(each_way) => self.distance(index, each_way),
            RoadEvent::Bury => self.bury(index),
            RoadEvent::Vanish => self.vanish(index),
            RoadEvent::StayAtFirst => self.stay_at_first(index),
            RoadEvent::MoveOn => {
                if let Some(roads) = &mut self.roads {
                    roads.of(index).move_on();
                }
            }
            RoadEvent::Rehearse(each) => {
                if let Some(roads) = &mut self.roads {
                    roads.of(index).rehearse(each);
                }
            }
            RoadEvent::LoseReply(number) => self.choose_reply(index, number, ReplyFate::Cut),
            RoadEvent::HoldReply(number) => self.choose_reply(index, number, ReplyFate::Hold),
            RoadEvent::WithholdReply(number) => {
                if let Some(roads) = &mut self.roads {
                    roads.of(index).withhold_reply(number);
                }
            }
            RoadEvent::Error(error, which) => self.answer_with(index, error, which),
            RoadEvent::Reconnect => self.reconnect(index),
        }
    }

    /// Lets requests of the process meet an error of the store. If all do, none of its leases is renewed from here on.
    fn answer_with(&mut self, index: usize, error: StoreError, which: Which) {
        let Some(roads) = &mut self.roads else {
            return;
        };
        roads.of(index).answer_with(error, which);
        if which == Which::All {
            self.expect_no_renewal(index, Instant::now());
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

    /// Cuts the road of the process in this direction only. Requests that still arrive may renew its leases.
    fn cut_one_way(&mut self, index: usize, closed: Direction) {
        let Some(roads) = &mut self.roads else {
            return;
        };
        let road = roads.of(index);
        road.cut_one_way(closed);
        let at = Instant::now();
        if road.replies_since_asked() == 0 {
            return;
        }
        self.actors[index].is_disturbed = true;
        match closed {
            Direction::ToClient => self.fault(at, index, Fault::RepliesCut),
            Direction::ToServer => {
                self.fault(at, index, Fault::RequestsCut);
                self.expect_no_renewal(index, at);
            }
        }
    }

    /// Lets every message of the process travel for longer. A process that did not reach the store this way when it took its last lock is
    /// not affected, so nothing is recorded.
    fn distance(&mut self, index: usize, each_way: Duration) {
        let Some(roads) = &mut self.roads else {
            return;
        };
        let road = roads.of(index);
        road.distance(each_way);
        if road.replies_since_asked() > 0 {
            self.fault(Instant::now(), index, Fault::Distant);
            self.actors[index].is_disturbed = true;
        }
    }

    /// Lets the connections of the process die silently. One that had none open is not affected, so nothing is recorded.
    fn bury(&mut self, index: usize) {
        let roads = self.roads.as_mut();
        let buried = roads.map_or(0, |roads| roads.of(index).bury());
        if buried > 0 {
            self.fault(Instant::now(), index, Fault::ConnectionsDead);
        }
    }

    /// Lets the machine of the process vanish from the network. A process that did not reach the store this way when it took its lock may
    /// have other connections, which end when it dies, so nothing is recorded.
    fn vanish(&mut self, index: usize) {
        let Some(roads) = &mut self.roads else {
            return;
        };
        let road = roads.of(index);
        if road.vanish() && road.replies_since_asked() > 0 {
            self.fault(Instant::now(), index, Fault::Vanished);
        }
    }

    /// Leads the process to the server that is the primary at first, whoever takes over.
    fn stay_at_first(&mut self, index: usize) {
        let first = self.servers.as_ref();
        let first = first.and_then(|servers| servers.first_primary());
        if let (Some(first), Some(roads)) = (first, &mut self.roads) {
            roads.of(index).stay_at(first);
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

    fn choose_reply(&mut self, index: usize, number: u64, fate: ReplyFate) {
        if let Some(roads) = &mut self.roads {
            roads.of(index).choose_reply(number, fate);
        }
    }

    /// Records when the first of the late replies came, if the lab has delayed them, before the grant that they led to.
    pub(super) fn note_late_reply(&mut self, index: usize) {
        let Some(roads) = self
            .roads
            .as_mut()
            .filter(|_| self.actors[index].is_disturbed)
        else {
            return;
        };
        if let Some(at) = roads.of(index).first_arrival() {
            self.fault(at, index, Fault::ReplyArrives);
        }
    }

    /// Records what has passed in the only direction that is open.
    fn notice_one_way(&mut self, by: Instant) {
        for index in 0..self.actors.len() {
            let road = self.roads.as_mut().map(|roads| roads.of(index));
            if road.is_some_and(|road| road.tell_passed_one_way()) {
                self.fault(by, index, Fault::PassedOneWay);
            }
        }
    }

    /// Records an error of the store that was met, or a reply that was lost or held back, by this time. Whoever waits for one that is held back is
    /// stopped, unless it is only withheld.
    pub(super) fn notice_met(&mut self, by: Instant) {
        self.notice_one_way(by);
        for index in 0..self.actors.len() {
            let road = self.roads.as_mut().map(|roads| roads.of(index));
            if let Some(fault) = road.as_ref().and_then(|road| road.tell_error()) {
                self.fault(by, index, fault);
            }
            let road = self.roads.as_mut().map(|roads| roads.of(index));
            match road.and_then(|road| road.tell_met()) {
                Some(ReplyFate::Cut) => self.fault(by, index, Fault::ReplyLost),
                Some(ReplyFate::Hold) => {
                    self.fault(by, index, Fault::ReplyHeld);
                    let roads = self.roads.as_ref();
                    if !roads.is_some_and(|roads| roads.withholds(index)) {
                        self.stop_at_step(index);
                    }
                }
                Some(ReplyFate::Pass) | None => {}
            }
        }
    }

    /// Loses the reply that is withheld from this process. If none is, nothing happens.
    pub(super) fn lose_withheld(&mut self, index: usize) {
        let is_lost = self
            .roads
            .as_mut()
            .map(|roads| roads.of(index).lose_withheld());
        if is_lost == Some(true) {
            self.fault(Instant::now(), index, Fault::ReplyLost);
        }
    }

    fn stop_at_step(&mut self, index: usize) {
        let _ = self.subjects.child(index).signal(Signal::SIGSTOP);
        self.witness_stop(index);
        self.actors[index].is_at_step = self.actors[index].is_stopped;
    }

    pub(super) fn is_at_step(&self, index: usize) -> bool {
        self.actors[index].is_at_step
    }

    /// Hands on the reply that was held back, and lets the process go on.
    pub(super) fn deliver(&mut self, index: usize) {
        // Taken before: the process may answer before this thread runs again.
        let at = Instant::now();
        if let Some(roads) = &mut self.roads {
            roads.of(index).reconnect();
            self.fault(at, index, Fault::ReplyDelivered);
        }
        self.go_on(index, at);
        let actor = &mut self.actors[index];
        actor.is_at_step = false;
        actor.answers_before = actor.answers;
        if let Doing::Asked(_, until) = &mut actor.doing {
            *until = at + self.answer_timeout;
        }
    }

    /// Returns whether this process has answered something since it went on, or has nothing to answer: it has finished, or waits for others.
    /// Its last answer may have been on its way when it was stopped.
    pub(super) fn has_answered(&self, index: usize) -> bool {
        let actor = &self.actors[index];
        let waits_for_others = match (&actor.doing, actor.script.front()) {
            (Doing::Nothing, Some(Act::After(other, acts))) => !self.has_done(*other, *acts),
            _ => false,
        };
        actor.answers > actor.answers_before || actor.is_finished() || waits_for_others
    }

    /// Returns whether the reply that was chosen on the road of this process has come.
    pub(super) fn has_met(&self, index: usize) -> bool {
        let roads = self.roads.as_ref();
        roads.is_some_and(|roads| roads.has_met(index))
    }

    /// Returns whether the store has answered the request of this process for the first lock, or will not be asked any more.
    pub(super) fn is_answered(&self, index: usize) -> bool {
        let actor = &self.actors[index];
        let is_asked = matches!(
            &actor.doing,
            Doing::Asked(asked, _) if matches!(asked.act, Act::Acquire { key: FIRST_LOCK, .. })
        );
        let roads = self.roads.as_ref();
        let is_answered = roads.is_some_and(|roads| roads.is_answered(index));
        actor.is_finished() || actor.hold_of(FIRST_LOCK).is_some() || (is_asked && is_answered)
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
            if self.lease_start == LeaseStart::Renewed {
                self.diary.forget_leases(index);
            }
        }
    }

    pub(super) fn reconnect_within(&mut self, index: usize, time: Duration) {
        if let Some(roads) = &mut self.roads {
            roads.of(index).reconnect_at(Instant::now() + time);
        }
    }

    /// Lets whoever is paused at a step go on if nobody is left who would do that.
    pub(super) fn deliver_forgotten(&mut self) {
        for index in 0..self.actors.len() {
            let actors = self.actors.iter().enumerate();
            let mut others = actors.filter(|(other, _)| *other != index);
            if self.is_at_step(index) && others.all(|(_, actor)| actor.is_finished()) {
                self.deliver(index);
            }
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
