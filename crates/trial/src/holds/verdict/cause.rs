//! Why two processes held a lock at once, as far as the events of the run show it.

use super::Court;
use crate::holds::Scenario;
use crate::holds::check::{Overlap, nanoseconds};
use crate::holds::facts::Wait;
use crate::text::numbers::{count, ms};

/// What the events show about an overlap.
pub(super) struct Cause<'a> {
    overlap: &'a Overlap<'a>,
    /// How long the second process waited, if it got the lock only when that time was over.
    timed_out_ms: Option<u64>,
    lease: Lease,
}

/// The state of the first holder's lease when the second got the lock.
enum Lease {
    /// The lock has none.
    Absent,
    /// It certainly ran for this long.
    Running { left_ns: u64 },
    /// It may have ended although the lock claims to keep it alive.
    NotKept { after_ns: u64 },
    /// It may have ended: a process that is stopped or cut off cannot keep its lease or its session alive.
    Over,
}

impl<'a> Cause<'a> {
    /// Draws the cause of an overlap from the events.
    pub(super) fn of(court: &Court<'_>, overlap: &'a Overlap<'a>) -> Self {
        let asked_ns = overlap.first.asked.at_ns.min(overlap.second.asked.at_ns);
        let left_ns = asked_ns
            .saturating_add(court.ttl_ns())
            .saturating_sub(overlap.from_ns);
        let within = overlap.is_within_lease();
        let may_end_by_pause = court.claims.keep_alive || court.claims.belongs_to_session();
        let lease = if may_end_by_pause && was_away(court, overlap) && !within {
            Lease::Over
        } else if court.claims.untimed {
            Lease::Absent
        } else if within {
            Lease::Running { left_ns }
        } else if court.claims.keep_alive {
            let after_ns = overlap.from_ns.saturating_sub(overlap.first.granted.at_ns);
            Lease::NotKept { after_ns }
        } else {
            Lease::Over
        };
        Self {
            overlap,
            timed_out_ms: timed_out(court, overlap),
            lease,
        }
    }

    /// Returns words such as "Two holders at once, within A's lease".
    pub(super) fn headline(&self) -> String {
        let (first, second) = (&self.overlap.first.who, &self.overlap.second.who);
        let how = match (&self.lease, self.timed_out_ms) {
            (Lease::Running { .. }, _) => format!(", within {first}'s lease"),
            (_, Some(_)) => format!(": {second} got the lock when its wait was over"),
            (Lease::Absent, _) => format!(": {first} had not released the lock"),
            (Lease::NotKept { .. }, _) => format!(": {first}'s lease was not kept alive"),
            (Lease::Over, _) => String::new(),
        };
        format!("Two holders at once{how}")
    }

    /// Returns whether the end of the lease, and nothing else, explains the overlap.
    pub(super) fn is_end_of_lease(&self) -> bool {
        self.timed_out_ms.is_none() && matches!(self.lease, Lease::Over)
    }

    /// Returns for how long the first holder's lease certainly ran on when the second got the lock.
    pub(super) fn lease_left_ns(&self) -> Option<u64> {
        match self.lease {
            Lease::Running { left_ns } => Some(left_ns),
            Lease::Absent | Lease::NotKept { .. } | Lease::Over => None,
        }
    }

    /// Returns the cause in a sentence. `None` if the lease may simply have ended; then the scenario says what that means.
    pub(super) fn why(&self) -> Option<String> {
        let (first, second) = (&self.overlap.first.who, &self.overlap.second.who);
        let key = &self.overlap.first.key;
        if let Some(waited_ms) = self.timed_out_ms {
            return Some(format!(
                "{second} was granted {key} when its wait of {} ms was over, and {first} had not released it: a \
                 time-out is not a grant.",
                count(i64::try_from(waited_ms).unwrap_or(i64::MAX))
            ));
        }
        Some(match self.lease {
            Lease::Absent => format!(
                "This lock has no lease that could have ended, and {first} had not released {key}."
            ),
            Lease::Running { left_ns } => format!(
                "{second} got the lock within {first}'s lease, which ran for at least {} ms more.",
                ms(left_ns)
            ),
            Lease::NotKept { after_ns } => format!(
                "{second} got the lock {} ms after {first}'s grant: the lease was not kept alive, as the lock claims.",
                ms(after_ns)
            ),
            Lease::Over => return None,
        })
    }
}

/// Returns whether the first holder could not renew its lease before the second got the lock: it was stopped since its request, or cut off.
fn was_away(court: &Court<'_>, overlap: &Overlap<'_>) -> bool {
    let first = overlap.first;
    let was_stopped = court
        .checks
        .was_stopped(&first.who, first.asked.at_ns, overlap.from_ns);
    let was_away = if court.header.scenario == Scenario::Storm.name() {
        let asked_ns = first.asked.at_ns;
        court
            .checks
            .was_out_of_reach(&first.who, asked_ns, overlap.from_ns)
    } else {
        court.checks.was_disturbed(&first.who, overlap.from_ns)
    };
    was_stopped || was_away
}

/// Returns how long the second process was to wait, if its grant came when that time was over, and not when the first lease
/// ended.
fn timed_out(court: &Court<'_>, overlap: &Overlap<'_>) -> Option<u64> {
    let granted = overlap.second.granted;
    let own = |wait: &&Wait| wait.granted() == Some(granted);
    let wait = court.facts.waits.iter().find(own)?;
    let deadline_ns = wait.asked.at_ns.saturating_add(nanoseconds(wait.wait_ms));
    let lease_ns = overlap.first.granted.at_ns.saturating_add(court.ttl_ns());
    let is_long_over = granted.at_ns > lease_ns.saturating_add(court.ttl_ns() / 4);
    let is_running = overlap.is_within_lease() || court.claims.untimed;
    let has_waited = wait.wait_ms > 0 && granted.at_ns >= deadline_ns;
    (has_waited && (is_long_over || is_running)).then_some(wait.wait_ms)
}
