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
        self.claims.belongs_to_session() && self.sessions == SessionEnd::Disconnection
    }

    /// Returns whether the lock has no lease, and nothing had happened before this overlap that may have ended a session.
    pub fn has_no_end(&self, overlap: &Overlap<'_>) -> bool {
        let Overlap { first, second, .. } = overlap;
        self.lasts_until([first, second], overlap.from_ns)
    }

    /// Returns the same for two holds and any time after their grants.
    pub(super) fn lasts_until(&self, holds: [&Hold; 2], until_ns: u64) -> bool {
        // In a storm, a session of any kind may be one that its process keeps alive.
        let may_end = self.claims.belongs_to_session() && self.is_storm;
        let is_lost = |hold: &Hold| self.may_have_lost_session(hold, until_ns);
        self.claims.untimed && !may_end && !holds.into_iter().any(is_lost)
    }

    /// Returns whether one of the two holds belongs to a session that may have ended before this overlap.
    pub fn may_have_lost_one(&self, overlap: &Overlap<'_>) -> bool {
        let mut both = [overlap.first, overlap.second].into_iter();
        both.any(|hold| self.may_have_lost_session(hold, overlap.from_ns))
    }

    /// Returns whether the lock belongs to a session that may have ended by this time through no fault of the lock: its process was stopped or
    /// cut off, a server was out of action, or the lab, through which the way to the server leads, stalled.
    pub(super) fn may_have_lost_session(&self, hold: &Hold, until_ns: u64) -> bool {
        let who = &hold.who;
        let from_ns = self.missed_since_ns(hold);
        if self.claims.ends_with_server && self.had_outage(from_ns, until_ns) {
            return true;
        }
        if !self.claims.belongs_to_session() || self.sessions == SessionEnd::Death {
            return false;
        }
        let is_silent =
            self.sessions == SessionEnd::Silence && self.was_stopped(who, from_ns, until_ns);
        let is_away = if self.is_storm {
            self.is_out_of_reach(who, from_ns, until_ns)
        } else {
            self.was_disturbed(who, until_ns)
        };
        is_silent
            || is_away
            || self.stalls.touch(from_ns, until_ns)
            || self.had_outage(from_ns, until_ns)
    }

    /// Returns since when it matters to this hold what its process or the lab missed: since the request.
    ///
    /// A session that ends in silence may be older than the request for its lock, and what it missed before the request brings its end nearer. It
    /// counts for a TTL: a session that outlived that was heard of since.
    pub(super) fn missed_since_ns(&self, hold: &Hold) -> u64 {
        // Elsewhere, the request was answered over a connection that lasts.
        let may_be_older = self.claims.belongs_to_session() && self.sessions == SessionEnd::Silence;
        let older_ns = if may_be_older { self.ttl_ns } else { 0 };
        hold.asked.at_ns.saturating_sub(older_ns)
    }

    /// Returns whether this process was cut off from its store, slowed or far from it, lost a connection, or vanished, before this time.
    pub fn was_disturbed(&self, who: &str, before_ns: u64) -> bool {
        let faults = [
            Fault::CutOff,
            Fault::RepliesCut,
            Fault::RequestsCut,
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
