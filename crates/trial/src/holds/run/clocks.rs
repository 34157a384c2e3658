//! The clocks of the processes, where the lab sets them.

use std::process::Command;
use std::time::{Duration, Instant};

use fencepost_rig::{ClockShim, ProgramClock, WallClock};

use crate::history::FaultKind;
use crate::holds::Trial;
use crate::protocol::Failure;

/// How far a time of day jumps.
const HOUR: Duration = Duration::from_secs(3_600);
/// How many times as fast a time of day runs.
const TIMES: u32 = 1_000;

/// What happens to the time of day of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClockEvent {
    Ahead,
    Behind,
    Fast,
    Right,
}

impl ClockEvent {
    fn wall(self) -> WallClock {
        match self {
            Self::Ahead => WallClock::Ahead(HOUR),
            Self::Behind => WallClock::Behind(HOUR),
            Self::Fast => WallClock::Fast(TIMES),
            Self::Right => WallClock::Right,
        }
    }
}

/// The clocks of all processes, by index.
pub(super) struct Clocks {
    clocks: Vec<Clock>,
    /// Declared after the clocks, whose folder it owns.
    _shim: ClockShim,
}

struct Clock {
    clock: ProgramClock,
    /// How many questions were answered when it was changed, until the process asks again.
    asked_before: Option<u64>,
    /// Since when the process is stopped, if it is.
    stopped: Option<Instant>,
}

impl Clocks {
    /// Makes a clock for each process. Returns `None` for trials that leave the clocks alone.
    pub(super) fn start(trial: &Trial) -> Result<Option<Self>, Failure> {
        if !trial.scenario.sets_clients_clocks() && !trial.has_faults(FaultKind::Clock) {
            return Ok(None);
        }
        let shim = ClockShim::compile().map_err(Failure::definite)?;
        let clock = |_| {
            let clock = shim.clock().map_err(Failure::definite)?;
            Ok(Clock {
                clock,
                asked_before: None,
                stopped: None,
            })
        };
        let clocks = (0..trial.processes()).map(clock);
        let clocks = clocks.collect::<Result<_, Failure>>()?;
        Ok(Some(Self {
            clocks,
            _shim: shim,
        }))
    }

    /// Makes the process that this command starts ask its own clock.
    pub(super) fn give(&self, index: usize, command: &mut Command) {
        command.envs(self.clocks[index].clock.variables());
    }

    /// Sets the time of day of a process. Returns whether that could be done.
    pub(super) fn set(&mut self, index: usize, event: ClockEvent) -> bool {
        let clock = &mut self.clocks[index];
        let is_set = clock.clock.set(event.wall()).is_ok();
        clock.asked_before = (is_set && event != ClockEvent::Right).then(|| clock.clock.calls());
        is_set
    }

    /// Notes that a process was seen to be stopped.
    pub(super) fn stopped(&mut self, index: usize, at: Instant) {
        self.clocks[index].stopped = Some(at);
    }

    /// Lets the clock that stands still while a machine is suspended stand still since the process was stopped. Returns whether that could
    /// be done.
    pub(super) fn suspend(&mut self, index: usize) -> bool {
        let clock = &mut self.clocks[index];
        let Some(since) = clock.stopped.take() else {
            return false;
        };
        let is_set = clock.clock.hold_steady(since.elapsed()).is_ok();
        clock.asked_before = is_set.then(|| clock.clock.calls());
        is_set
    }

    /// Returns whether a process has asked for the time since its clock was changed; says so once.
    pub(super) fn tell_read(&mut self, index: usize) -> bool {
        let clock = &mut self.clocks[index];
        let has_asked = |before: &mut u64| clock.clock.calls() > *before;
        clock.asked_before.take_if(has_asked).is_some()
    }
}
