//! The diary of a lock trial: puts events into the order of their timestamps before they are recorded.
//!
//! A request is timestamped and sent at once but recorded later, so that nothing waits for a file. Leases end by the clock
//! alone. The diary records both before anything that has a later timestamp.

use std::time::Instant;

use crate::history::{History, Recorder, What};
use crate::processes::NoVerdict;

pub(super) struct Diary {
    recorder: Recorder,
    pending: Vec<(Instant, Option<String>, What)>,
    leases: Vec<LeaseOver>,
    started: Instant,
}

/// The latest time at which a lease ends, as far as the lab can tell.
struct LeaseOver {
    at: Instant,
    actor: usize,
    who: String,
    key: String,
    hold: u64,
}

impl Diary {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self {
            recorder,
            pending: Vec::new(),
            leases: Vec::new(),
            started: Instant::now(),
        }
    }

    pub(super) fn restart_clock(&mut self) {
        self.recorder.restart_clock();
        self.started = Instant::now();
    }

    pub(super) fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn history(&self) -> &History {
        self.recorder.history()
    }

    /// Schedules an event of the lab itself, to be recorded in the order of its timestamp.
    pub(super) fn later(&mut self, at: Instant, who: Option<&str>, what: What) {
        self.pending.push((at, who.map(str::to_owned), what));
    }

    /// Schedules the end of a lease, unless [`forget_lease`](Self::forget_lease) cancels it.
    pub(super) fn expect_lease_over(
        &mut self,
        at: Instant,
        (actor, who): (usize, &str),
        key: &str,
        hold: u64,
    ) {
        self.leases.push(LeaseOver {
            at,
            actor,
            who: who.into(),
            key: key.into(),
            hold,
        });
    }

    pub(super) fn forget_lease(&mut self, actor: usize, hold: u64) {
        self.leases
            .retain(|lease| (lease.actor, lease.hold) != (actor, hold));
    }

    pub(super) fn forget_leases(&mut self, actor: usize) {
        self.leases.retain(|lease| lease.actor != actor);
    }

    pub(super) fn next_lease_over(&self) -> Option<Instant> {
        self.leases.iter().map(|lease| lease.at).min()
    }

    /// Records everything that happened up to this time.
    pub(super) fn settle(&mut self, until: Instant) -> Result<(), NoVerdict> {
        for lease in self.leases.extract_if(.., |lease| lease.at <= until) {
            let what = What::LeaseOver {
                key: lease.key,
                hold: lease.hold,
            };
            self.pending.push((lease.at, Some(lease.who), what));
        }
        let due = self.pending.extract_if(.., |(at, ..)| *at <= until);
        let mut due: Vec<_> = due.collect();
        due.sort_by_key(|(at, ..)| *at);
        for (at, who, what) in due {
            self.write(at, who.as_deref(), what)?;
        }
        Ok(())
    }

    /// Records an event that was just observed, after everything that came before it.
    pub(super) fn record(
        &mut self,
        at: Instant,
        who: Option<&str>,
        what: What,
    ) -> Result<(), NoVerdict> {
        self.settle(at)?;
        self.write(at, who, what)
    }

    fn write(&mut self, at: Instant, who: Option<&str>, what: What) -> Result<(), NoVerdict> {
        let events = self.recorder.len();
        let written = self.recorder.record(at, who, what);
        written.map(drop).map_err(|error| NoVerdict::History {
            error,
            progress: "the trial was not finished".into(),
            events,
        })
    }

    /// Ends the diary and returns the complete run.
    pub(super) fn finish(mut self) -> Result<History, NoVerdict> {
        self.settle(Instant::now())?;
        Ok(self.recorder.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::history::Fault;
    use crate::holds::{Scenario, Trial};
    use crate::strategy;

    #[test]
    fn everything_is_written_down_in_the_order_of_its_stamps() {
        let trial = Trial::new(Scenario::Crash, strategy::find("safe").unwrap(), 7);
        let mut diary = Diary::new(Recorder::start(trial.header(), None).unwrap());
        diary.restart_clock();
        let after = |ms| diary.started + Duration::from_millis(ms);
        let [first, second, third, fourth, never] = [1, 2, 3, 4, 9].map(after);
        let fault = |fault| What::Fault { fault };
        diary.later(third, Some("A"), fault(Fault::Stopped));
        diary.later(first, Some("A"), fault(Fault::Continued));
        diary.expect_lease_over(second, (0, "A"), "k", 1);
        diary.expect_lease_over(second, (1, "B"), "k", 1);
        diary.expect_lease_over(never, (0, "A"), "k", 2);
        diary.forget_lease(1, 1);
        let lost = What::Lost { hold: 1 };
        diary.record(fourth, Some("A"), lost.clone()).unwrap();
        let hold = 1;
        let over = What::LeaseOver {
            key: "k".into(),
            hold,
        };
        let whats: Vec<&What> = diary
            .history()
            .events
            .iter()
            .map(|event| &event.what)
            .collect();
        let (stopped, continued) = (fault(Fault::Stopped), fault(Fault::Continued));
        assert_eq!(whats, [&continued, &over, &stopped, &lost]);
    }
}
