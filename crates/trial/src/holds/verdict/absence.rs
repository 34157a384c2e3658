//! A time in which the holder could not act, or could not reach its store: the fault that began it, the one that ended it, and the words.

use super::Court;
use crate::history::Fault;
use crate::holds::facts::Mark;
use crate::text::numbers::{count, ms};

/// How a holder was away.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    began: Fault,
    ended: Fault,
    /// "A was …"
    pub(super) was: &'static str,
    /// "… while it was paused"
    pub(super) state: &'static str,
}

/// Its process was stopped.
pub(super) const STOPPED: Manner = Manner {
    began: Fault::Stopped,
    ended: Fault::Continued,
    was: "stopped",
    state: "paused",
};

/// Its process could not reach the store.
pub(super) const CUT_OFF: Manner = Manner {
    began: Fault::CutOff,
    ended: Fault::Reconnected,
    was: "cut off from its store",
    state: "cut off",
};

/// A time in which a holder was away, as the lab saw it.
#[derive(Clone, Copy)]
pub(super) struct Absence {
    pub(super) manner: Manner,
    pub(super) from: Mark,
    pub(super) until: Mark,
}

impl Absence {
    /// Returns the first absence of this kind of this process, if its beginning and its end were seen.
    pub(super) fn of(court: &Court<'_>, who: &str, manner: Manner) -> Option<Self> {
        Some(Self {
            manner,
            from: court.facts.fault_of(who, manner.began)?,
            until: court.facts.fault_of(who, manner.ended)?,
        })
    }

    /// Returns how long it certainly lasted.
    pub(super) fn lasted_ns(&self) -> u64 {
        self.until.at_ns.saturating_sub(self.from.at_ns)
    }

    /// "A was stopped for 602.4 ms on a lease of 500 ms"
    pub(super) fn on_a_lease(&self, court: &Court<'_>) -> String {
        format!(
            "A was {} for {} ms on a lease of {} ms",
            self.manner.was,
            ms(self.lasted_ns()),
            count(i64::try_from(court.header.ttl_ms).unwrap_or(i64::MAX))
        )
    }
}

/// Returns whether this process was cut off from its store, or slowed, before this time.
pub(super) fn was_disturbed(court: &Court<'_>, who: &str, before_ns: u64) -> bool {
    let mut faults = [Fault::CutOff, Fault::Slowed].into_iter();
    faults.any(|fault| {
        let began = court.facts.fault_of(who, fault);
        began.is_some_and(|mark| mark.at_ns < before_ns)
    })
}
