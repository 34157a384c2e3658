//! Finds out whether the session of a living process may have ended before a second process got the lock. Such a second holder does not count
//! against a lock that lasts as long as its session.

use fencepost::stores::kinds::POSTGRES;

use super::{Checks, Overlap};
use crate::history::Fault;
use crate::holds::facts::Hold;
use crate::store::{ServerFault, TrialStore};

/// What ends the sessions of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// Only the end of the process: a lock in a file.
    Death,
    /// The end of the connection as well: a session of a database. Whoever is stopped keeps its connection.
    Disconnection,
    /// Hearing nothing of the process for a while: everywhere else.
    Silence,
}

impl SessionEnd {
    /// Returns what ends sessions of the store with this name. Of an unknown store, anything may be true.
    pub(super) fn at(store: &str) -> Self {
        match TrialStore::named(store) {
            Some(store) if store.facts().connection != ServerFault::Available => Self::Death,
            Some(store) if store.is(&POSTGRES) => Self::Disconnection,
            _ => Self::Silence,
        }
    }
}

impl Checks<'_> {
    /// Returns whether the lock belongs to a session that its server ends with the connection.
    pub fn ends_with_connection(&self) -> bool {
        self.claims.ends_with_holder() && self.sessions == SessionEnd::Disconnection
    }

    /// Returns whether the lock has no lease, and nothing had happened before this overlap that may have ended a session.
    pub fn has_no_end(&self, overlap: &Overlap<'_>) -> bool {
        let Overlap { first, second, .. } = overlap;
        self.lasts_until([first, second], overlap.from_ns)
    }

    /// Returns the same for two holds and any time after their grants.
    pub(super) fn lasts_until(&self, holds: [&Hold; 2], until_ns: u64) -> bool {
        if !self.claims.ends_with_holder() {
            return self.claims.untimed;
        }
        // In a storm, a lock of any kind may be one that its process keeps alive.
        if self.is_storm {
            return false;
        }
        let from_ns = holds.map(|held| held.asked.at_ns).into_iter().min();
        let from_ns = from_ns.unwrap_or_default();
        let is_lost = |held: &Hold| {
            let is_stopped = self.was_stopped(&held.who, from_ns, until_ns);
            is_stopped && self.sessions == SessionEnd::Silence
                || self.was_disturbed(&held.who, until_ns)
        };
        // The way to the server leads through the lab.
        let may_end = holds.into_iter().any(is_lost)
            || self.stalls.touch(from_ns, until_ns)
            || self.had_outage(from_ns, until_ns);
        self.sessions == SessionEnd::Death || !may_end
    }

    /// Returns whether this process was cut off from its store, slowed or far from it, lost a connection, or vanished, before this time.
    pub fn was_disturbed(&self, who: &str, before_ns: u64) -> bool {
        let faults = [
            Fault::CutOff,
            Fault::Slowed,
            Fault::Distant,
            Fault::ConnectionsDead,
            // The connection ends with the reply.
            Fault::ReplyLost,
            Fault::Vanished,
        ];
        faults.into_iter().any(|fault| {
            let began = self.facts.fault_of(who, fault);
            began.is_some_and(|mark| mark.at_ns < before_ns)
        })
    }
}
