//! The events of a history that concern the servers of a store, such as a kill or a failover.

use serde::{Deserialize, Serialize};

/// Something that happened to a server. The lab has observed it, not merely requested it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It no longer receives what the other servers write.
    CutOff,
    /// It can be reached again, but missed everything that was written meanwhile.
    Reconnected,
    /// SIGKILL. Timestamped before the signal is sent, recorded once the death was observed.
    Killed,
    /// It has replaced another server, with the data it has. Clients that connect to the old address now reach it.
    Promoted,
    /// It was replaced, and it still answers and takes itself for the primary.
    LivesOn,
    /// It runs again, without any of its previous data.
    RestartedEmpty,
    /// Its clock is an hour ahead from here on, as it says itself. Timestamped before that.
    ClockAhead,
    /// Its clock is an hour behind from here on, as it says itself. Timestamped before that.
    ClockBehind,
    /// It was short of memory, and has evicted every key that it had before. Timestamped before that.
    Evicted,
    /// It has no record of any lock any more: the lab has deleted them, or ended the sessions that held them. Timestamped before that.
    TakenAway,
    /// A majority has elected it leader. It has everything that a majority had written.
    Elected,
    /// SIGSTOP. Timestamped once all of its processes were seen in state T.
    Stopped,
    /// A request that the lab sent it when it was stopped is still not answered. Recorded just before it goes on.
    Silent,
    /// SIGCONT. Timestamped before the signal is sent, recorded once it answered that request.
    Continued,
    /// It runs again, with all of its data. Recorded once it served clients. Timestamped before it was started; in a storm, once it served
    /// clients.
    Restarted,
}

impl Change {
    /// Every change.
    pub const ALL: [Self; 15] = [
        Self::CutOff,
        Self::Reconnected,
        Self::Killed,
        Self::Promoted,
        Self::LivesOn,
        Self::RestartedEmpty,
        Self::ClockAhead,
        Self::ClockBehind,
        Self::Evicted,
        Self::TakenAway,
        Self::Elected,
        Self::Stopped,
        Self::Silent,
        Self::Continued,
        Self::Restarted,
    ];

    /// Returns whether clients are served again from this event on.
    pub fn serves_again(self) -> bool {
        matches!(
            self,
            Self::Promoted
                | Self::RestartedEmpty
                | Self::Elected
                | Self::Continued
                | Self::Restarted
        )
    }

    /// Returns whether a server is out of action from this event on, and may come back with everything that it had.
    pub fn begins_outage(self) -> bool {
        matches!(self, Self::Stopped | Self::Killed)
    }

    /// Returns whether a server comes back with everything that it had.
    pub fn ends_outage(self) -> bool {
        matches!(self, Self::Continued | Self::Restarted)
    }

    /// Returns whether acknowledged writes may be lost with this event.
    pub fn may_forget(self) -> bool {
        matches!(self, Self::Promoted | Self::RestartedEmpty)
    }

    /// Returns whether a server that lives on may have ended leases with this event before their time.
    pub fn ends_leases(self) -> bool {
        matches!(self, Self::ClockAhead | Self::Evicted | Self::TakenAway)
    }

    /// Describes the event, as in "the replica takes over at the same address, without the lock".
    pub(crate) fn describe(self, server: &str, is_without_lock: bool) -> String {
        let what = match self {
            Self::CutOff => "is cut off: it gets no more writes",
            Self::Reconnected => "can be reached again",
            Self::Killed => "is killed (SIGKILL)",
            Self::Promoted => "takes over at the same address",
            Self::LivesOn => "lives on, and takes itself for the primary",
            Self::RestartedEmpty => "runs again, empty",
            Self::ClockAhead => "is an hour ahead: its clock has jumped forward",
            Self::ClockBehind => "is an hour behind: its clock has jumped back",
            Self::Evicted => "is short of memory: it has evicted every key it had",
            Self::TakenAway => "has no locks any more: the lab has taken them away",
            Self::Elected => "is elected by the majority",
            Self::Stopped => "is stopped (SIGSTOP): it answers nobody",
            Self::Silent => "has not answered the lab's request",
            Self::Continued => "goes on (SIGCONT)",
            Self::Restarted => "runs again, with its data",
        };
        let without = if is_without_lock && self == Self::Promoted {
            ", without the lock"
        } else {
            ""
        };
        format!("the {server} {what}{without}")
    }
}
