//! What the lab does to the servers of a store, in the words of a history.

use serde::{Deserialize, Serialize};

/// What became of a server: seen by the lab, not only intended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It hears nothing more of what the others write.
    CutOff,
    /// It can be reached again, and has heard nothing meanwhile.
    Reconnected,
    /// SIGKILL; stamped before it was sent, written down once its end was seen.
    Killed,
    /// It has taken the dead one's place, with the data it has: who connects to the old address reaches it.
    Promoted,
    /// It runs again, with nothing of what it knew before.
    RestartedEmpty,
    /// A majority has made it their leader; what a majority had written, it has.
    Elected,
}

impl Change {
    /// Whether clients are served again from here on.
    pub fn serves_again(self) -> bool {
        matches!(self, Self::Promoted | Self::RestartedEmpty | Self::Elected)
    }

    /// Whether what was acknowledged may be lost with it.
    pub fn may_forget(self) -> bool {
        matches!(self, Self::Promoted | Self::RestartedEmpty)
    }

    /// In words: "the replica takes over at the same address, without the lock".
    pub(crate) fn told(self, server: &str, is_without_lock: bool) -> String {
        let what = match self {
            Self::CutOff => "is cut off: it gets no more writes",
            Self::Reconnected => "can be reached again",
            Self::Killed => "is killed (SIGKILL)",
            Self::Promoted => "takes over at the same address",
            Self::RestartedEmpty => "runs again, empty",
            Self::Elected => "is elected by the majority",
        };
        let without = if is_without_lock && self == Self::Promoted {
            ", without the lock"
        } else {
            ""
        };
        format!("the {server} {what}{without}")
    }
}
