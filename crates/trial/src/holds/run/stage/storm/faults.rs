//! The faults of a storm: injects each one of the plan when it is due, and ends it.

use std::time::{Duration, Instant};

use fencepost_rig::Signal;

use super::{Doing, Stage, Storm};
use crate::history::Fault;
use crate::holds::run::clocks::ClockEvent;
use crate::holds::run::lease_start::LeaseStart;
use crate::holds::run::script::ServerEvent;
use crate::holds::run::servers::Stop;
use crate::holds::storm::{Planned, PlannedFault};
use crate::processes::NoVerdict;

/// How soon the lab looks again whether a fault can be injected.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What happens to a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition {
    pub(super) life: u64,
    /// How many replies had come on its road when this life began.
    pub(super) replies_at_birth: u64,
    /// When it goes on, if it is stopped.
    goes_on: Option<Instant>,
    /// When it is started again, if it is dead.
    returns: Option<Instant>,
    /// When its road is as it was, if it is cut or long.
    road_heals: Option<Instant>,
    /// Whether its road is cut.
    is_cut: bool,
    /// Until when its requests may fail because of its road.
    road_excuse: Option<Instant>,
    /// When its clock is right again, if it is wrong.
    clock_is_right: Option<Instant>,
}

impl Condition {
    pub(super) const FINE: Self = Self {
        life: 1,
        replies_at_birth: 0,
        goes_on: None,
        returns: None,
        road_heals: None,
        is_cut: false,
        road_excuse: None,
        clock_is_right: None,
    };

    pub(super) fn is_fine(&self) -> bool {
        let all = [
            self.goes_on,
            self.returns,
            self.road_heals,
            self.clock_is_right,
        ];
        all.iter().all(Option::is_none)
    }

    /// Returns whether it runs and can reach its store.
    fn is_well(&self) -> bool {
        self.goes_on.is_none() && self.returns.is_none() && !self.is_cut
    }

    /// Returns when a fault of this process ends next.
    pub(super) fn next_alarm(&self, storm: &Storm) -> Option<Instant> {
        let returns = self.returns.filter(|_| self.can_return(storm));
        let all = [self.goes_on, returns, self.road_heals, self.clock_is_right];
        all.into_iter().flatten().min()
    }

    /// Returns whether a program that is started now can reach its store. If it could not, the lab would see only that it does not get
    /// ready.
    fn can_return(&self, storm: &Storm) -> bool {
        storm.servers_return.is_none() && self.road_heals.is_none()
    }
}

/// What became of a fault that was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Injection {
    Done,
    /// It cannot be injected now.
    NotNow,
}

impl Storm {
    /// Returns whether a request that fails now may have failed because of what the lab did to this process or to a server.
    pub(super) fn is_excused(&self, index: usize, now: Instant) -> bool {
        let excuses = [self.servers_excuse, self.conditions[index].road_excuse];
        let is_away = self.servers_return.is_some() || self.conditions[index].road_heals.is_some();
        is_away || excuses.into_iter().flatten().any(|until| now < until)
    }
}

impl Stage<'_> {
    /// Injects the faults that are due. One that cannot be injected waits a little, and is left out if that does not help.
    pub(super) fn follow_plan(&mut self, storm: &mut Storm, now: Instant) -> Result<(), NoVerdict> {
        while storm.next_fault().is_some_and(|at| at <= now) {
            let Some(planned) = storm.plan.front().copied() else {
                return Ok(());
            };
            let due = storm.began + Duration::from_millis(planned.at_ms);
            let injection = self.inject(storm, planned, now)?;
            if injection == Injection::NotNow && now < due + 2 * storm.ttl {
                storm.postponed = Some(now + LOOK_AGAIN);
                return Ok(());
            }
            storm.postponed = None;
            storm.plan.pop_front();
        }
        Ok(())
    }

    fn inject(
        &mut self,
        storm: &mut Storm,
        planned: Planned,
        now: Instant,
    ) -> Result<Injection, NoVerdict> {
        let until = now + Duration::from_millis(planned.for_ms);
        let Some(index) = planned.process else {
            return self.fail_server(storm, planned.fault, until);
        };
        if index >= self.actors.len() || !self.can_be_hit(storm, index) {
            return Ok(Injection::NotNow);
        }
        let condition = &storm.conditions[index];
        match planned.fault {
            PlannedFault::Kill => self.kill_for_a_while(storm, index, until),
            PlannedFault::Pause => self.pause(storm, index, until),
            PlannedFault::Cut | PlannedFault::Delay { .. } if condition.road_heals.is_some() => {
                return Ok(Injection::NotNow);
            }
            PlannedFault::Cut => return Ok(self.disturb(storm, index, None, until)),
            PlannedFault::Delay { each_way_ms } => {
                let each_way = Duration::from_millis(each_way_ms);
                return Ok(self.disturb(storm, index, Some(each_way), until));
            }
            PlannedFault::ClockAhead | PlannedFault::ClockBehind
                if condition.clock_is_right.is_some() =>
            {
                return Ok(Injection::NotNow);
            }
            PlannedFault::ClockAhead => self.set_clock(storm, index, ClockEvent::Ahead, until),
            PlannedFault::ClockBehind => self.set_clock(storm, index, ClockEvent::Behind, until),
            PlannedFault::StopServer | PlannedFault::RestartServer => {}
        }
        Ok(Injection::Done)
    }

    /// Returns whether this process is well, and so many others are that there is somebody left who could meet it.
    fn can_be_hit(&self, storm: &Storm, index: usize) -> bool {
        let is_well = |index: &usize| {
            let is_starting = matches!(self.actors[*index].doing, Doing::Starting(_));
            storm.conditions[*index].is_well() && !is_starting
        };
        let well = (0..self.actors.len()).filter(is_well).count();
        is_well(&index) && 2 * well > self.actors.len()
    }

    pub(super) fn kill_for_a_while(&mut self, storm: &mut Storm, index: usize, until: Instant) {
        self.kill(index);
        storm.conditions[index].returns = Some(until);
        storm.conditions[index].goes_on = None;
    }

    fn pause(&mut self, storm: &mut Storm, index: usize, until: Instant) {
        let _ = self.subjects.child(index).signal(Signal::SIGSTOP);
        self.witness_stop(index);
        storm.conditions[index].goes_on = Some(until);
    }

    /// Cuts the road of a process, or makes it longer by this much in each direction. A process that has not reached its store this way
    /// would not be affected.
    fn disturb(
        &mut self,
        storm: &mut Storm,
        index: usize,
        each_way: Option<Duration>,
        until: Instant,
    ) -> Injection {
        let condition = &mut storm.conditions[index];
        let Some(roads) = &mut self.roads else {
            return Injection::Done;
        };
        let road = roads.of(index);
        if road.replies() == condition.replies_at_birth {
            return Injection::NotNow;
        }
        let (fault, is_cut) = match each_way {
            None => {
                road.cut_off();
                (Fault::CutOff, true)
            }
            Some(each_way) => {
                road.distance(each_way);
                (Fault::Distant, false)
            }
        };
        condition.road_heals = Some(until);
        condition.is_cut = is_cut;
        let at = Instant::now();
        self.fault(at, index, fault);
        if is_cut {
            self.expect_no_renewal(index, at);
        }
        Injection::Done
    }

    fn heal_road(&mut self, storm: &mut Storm, index: usize) {
        let condition = &mut storm.conditions[index];
        condition.road_heals = None;
        let was_cut = std::mem::take(&mut condition.is_cut);
        // Taken before: the process may learn something before this thread runs again.
        let at = Instant::now();
        if let Some(roads) = &mut self.roads {
            roads.of(index).reconnect();
        }
        self.fault(at, index, Fault::Reconnected);
        if was_cut && self.lease_start == LeaseStart::Renewed {
            self.diary.forget_leases(index);
        }
        storm.conditions[index].road_excuse = Some(at + storm.lingers());
    }

    /// Stops or kills a server, unless one is out of action already, or a process is about to get ready, for which it needs its store.
    fn fail_server(
        &mut self,
        storm: &mut Storm,
        fault: PlannedFault,
        until: Instant,
    ) -> Result<Injection, NoVerdict> {
        let mut actors = self.actors.iter();
        let is_starting = actors.any(|actor| matches!(actor.doing, Doing::Starting(_)));
        if storm.servers_return.is_some() || is_starting {
            return Ok(Injection::NotNow);
        }
        let event = match fault {
            PlannedFault::RestartServer => ServerEvent::Kill,
            _ => ServerEvent::Stop(Stop::WithinLease),
        };
        self.act_on_servers(event)?;
        storm.servers_return = Some(until);
        Ok(Injection::Done)
    }

    fn set_clock(&mut self, storm: &mut Storm, index: usize, event: ClockEvent, until: Instant) {
        self.act_on_clock(index, event);
        storm.conditions[index].clock_is_right = Some(until);
    }

    /// Ends the faults that are over by now, or all of them when the storm is. Programs are started last, because they need their store.
    pub(super) fn end_faults(&mut self, storm: &mut Storm, now: Instant) -> Result<(), NoVerdict> {
        let is_raging = storm.is_raging();
        let is_due = |end: Option<Instant>| end.is_some_and(|at| at <= now || !is_raging);
        if is_due(storm.servers_return) {
            storm.servers_return = None;
            self.act_on_servers(ServerEvent::ServeAgain)?;
            storm.servers_excuse = Some(Instant::now() + storm.lingers());
        }
        for index in 0..storm.conditions.len() {
            if is_due(storm.conditions[index].road_heals) {
                self.heal_road(storm, index);
            }
            if is_due(storm.conditions[index].clock_is_right) {
                storm.conditions[index].clock_is_right = None;
                self.act_on_clock(index, ClockEvent::Right);
            }
            if is_due(storm.conditions[index].goes_on) {
                storm.conditions[index].goes_on = None;
                // Taken before the signal: the process may answer before this thread runs again.
                self.go_on(index, Instant::now());
            }
        }
        for index in 0..storm.conditions.len() {
            let condition = storm.conditions[index];
            if is_due(condition.returns) && condition.can_return(storm) {
                storm.conditions[index].returns = None;
                self.start_again(storm, index)?;
            }
        }
        Ok(())
    }
}
