//! A time in which the holder could not act, or could not reach its store: the fault that began it, the one that ended it, the words,
//! and the verdict on a lock that lasted all that time.

use super::Court;
use crate::history::Fault;
use crate::holds::Scenario;
use crate::holds::facts::{Hold, Mark};
use crate::text::numbers::{count, ms};
use crate::verdict::{Lack, Outcome, Verdict};

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

/// Its machine was suspended: its process was stopped, and one of its clocks with it.
pub(super) const SUSPENDED: Manner = Manner {
    was: "suspended",
    state: "suspended",
    ..STOPPED
};

/// Its process could not reach the store.
pub(super) const CUT_OFF: Manner = Manner {
    began: Fault::CutOff,
    ended: Fault::Reconnected,
    was: "cut off from its store",
    state: "cut off",
};

/// No reply of the store reached its process.
pub(super) const WITHOUT_REPLIES: Manner = Manner {
    began: Fault::RepliesCut,
    was: "without replies from its store",
    state: "without replies",
    ..CUT_OFF
};

/// No request of its process reached the store.
pub(super) const UNHEARD: Manner = Manner {
    began: Fault::RequestsCut,
    was: "unheard by its store",
    state: "unheard",
    ..CUT_OFF
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

    /// Returns words such as "A was stopped for 602.4 ms on a lease of 500 ms".
    pub(super) fn on_a_lease(&self, court: &Court<'_>) -> String {
        format!(
            "A was {} for {} ms on a lease of {} ms",
            self.manner.was,
            ms(self.lasted_ns()),
            count(i64::try_from(court.header.ttl_ms).unwrap_or(i64::MAX))
        )
    }
}

/// Returns the verdict on a run in which nobody else got the lock while its holder was away, as with a lock without a lease.
pub(super) fn kept(court: &Court<'_>, late: &Hold, new: &Hold, absence: Absence) -> Verdict {
    let away_ns = absence.lasted_ns();
    let waited = new.asked.at_ns < absence.until.at_ns && away_ns >= court.ttl_ns();
    let state = absence.manner.state;
    let release = late.release.filter(|sent| new.granted.at_ns > sent.at_ns);
    let (Some(release), true) = (release, waited) else {
        return Verdict::inconclusive(
            format!("Nothing broke, and nothing was tested: B did not wait while A was {state}."),
            Lack::Contention,
            "somebody who waits for the lock meanwhile.",
        );
    };
    let ends = match court.claims.recovery_ms {
        Some(_) => {
            "B would have got the lock only after the end of A's process, or of its connection"
        }
        None if court.claims.untimed => "had A died there, nobody would ever have got it",
        None => "A's lease did not end",
    };
    Verdict {
        witness: vec![format!(
            "A was {} for {} ms; B waited, and came in {} ms after A's release was sent",
            absence.manner.was,
            ms(away_ns),
            ms(new.granted.at_ns - release.at_ns)
        )],
        limits: Some(format!("nobody could work while A was {state}: {ends}")),
        next: court
            .next_scenario(Scenario::Crash, "")
            .into_iter()
            .collect(),
        ..Verdict::bare(
            Outcome::Held,
            format!("A kept its lock while it was {state}: B got it only after A had released it."),
        )
    }
}
