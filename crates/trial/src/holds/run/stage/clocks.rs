//! What the lab does to the clocks of the processes.

use std::time::Instant;

use super::Stage;
use crate::history::Fault;
use crate::holds::run::clocks::ClockEvent;

impl Stage<'_> {
    /// Sets the time of day of a process.
    pub(super) fn act_on_clock(&mut self, index: usize, event: ClockEvent) {
        let before = Instant::now();
        let Some(clocks) = &mut self.clocks else {
            return;
        };
        if !clocks.set(index, event) {
            return;
        }
        let (at, fault) = match event {
            ClockEvent::Ahead => (Instant::now(), Fault::ClockAhead),
            ClockEvent::Behind => (Instant::now(), Fault::ClockBehind),
            ClockEvent::Fast => (Instant::now(), Fault::ClockFast),
            ClockEvent::Right => (before, Fault::ClockRight),
        };
        self.fault(at, index, fault);
    }

    /// Shows a stopped process, before it goes on, what a suspended machine would show it.
    pub(super) fn suspend(&mut self, index: usize) {
        let clocks = self.clocks.as_mut();
        if clocks.is_some_and(|clocks| clocks.suspend(index)) {
            self.fault(Instant::now(), index, Fault::Suspended);
        }
    }

    /// Records which processes have asked for the time by this time, since their clocks were changed.
    pub(super) fn notice_read(&mut self, by: Instant) {
        for index in 0..self.actors.len() {
            let clocks = self.clocks.as_mut();
            if clocks.is_some_and(|clocks| clocks.tell_read(index)) {
                self.fault(by, index, Fault::ClockRead);
            }
        }
    }
}
