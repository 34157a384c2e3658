//! What the lab does to a process on trial, such as a kill or a cut connection.

use serde::{Deserialize, Serialize};

/// The faults that the lab injects into a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// SIGKILL to the process group. Timestamped before the signal is sent, recorded once the death was observed.
    Killed,
    /// SIGSTOP to the process group. Timestamped once the process was seen in state T.
    Stopped,
    /// SIGCONT.
    Continued,
    /// Nothing passes between the process and its store any more, in either direction, and no connection ends. Timestamped once that was
    /// so, and recorded only if the process had reached the store through the lab before.
    CutOff,
    /// No reply of the store reaches the process any more, and no connection ends; its requests still arrive. Timestamped once that was so,
    /// and recorded only if the process had reached the store through the lab before, like the next.
    RepliesCut,
    /// No request of the process reaches the store any more; what the store sends still arrives.
    RequestsCut,
    /// While one direction was cut, something passed in the other. Timestamped once the lab had seen that.
    PassedOneWay,
    /// Everything passes again at once, also what was sent meanwhile. Timestamped before that.
    Reconnected,
    /// Every reply of the store arrives late. Timestamped once that was so.
    Slowed,
    /// Every message between the process and its store takes longer, in both directions. Timestamped once that was so, and recorded only if
    /// the process had reached the store through the lab before.
    Distant,
    /// Every connection that the process had to its store is dead: nothing passes on it any more, and neither end is told. New connections
    /// work. Timestamped once that was so, and recorded only if there was one.
    ConnectionsDead,
    /// Its machine is gone from the network: nothing passes between it and its store any more, the store's packets are not acknowledged, and
    /// no connection ends, also when it dies. Timestamped once that was so, and recorded only if it had reached its store through the lab
    /// before.
    Vanished,
    /// Its time of day is an hour ahead from here on. Timestamped once that was so, like the next two.
    ClockAhead,
    /// Its time of day is an hour behind from here on.
    ClockBehind,
    /// Its time of day runs a thousand times as fast from here on.
    ClockFast,
    /// Its time of day is right again. Timestamped before that.
    ClockRight,
    /// It has asked for the time since its clocks were changed, and the lab's library has answered.
    ClockRead,
    /// While it was stopped, its `CLOCK_MONOTONIC` did not advance, as on a suspended machine. Timestamped once that was so.
    Suspended,
    /// A reply of the store was dropped, and its connection closed at both ends. The store has done what it was asked. Timestamped once
    /// that was so.
    ReplyLost,
    /// The first of the late replies to a request is handed on. Timestamped before that.
    ReplyArrives,
    /// A reply of the store is held back, with everything that follows it. The store has done what it was asked. Timestamped once that was
    /// so.
    ReplyHeld,
    /// What was held back is handed on. Timestamped before that.
    ReplyDelivered,
    /// A command of the process did not reach its Redis server, and the lab answered `-OOM`, as a server that is out of memory does.
    /// Timestamped once that was so, like the next three.
    AnsweredOom,
    /// The same, and the lab answered `-READONLY`, as a replica does.
    AnsweredReadOnly,
    /// The same, and the lab answered `-LOADING`, as a server does that is loading its data.
    AnsweredLoading,
    /// A Redis server has carried a command of the process out, and the lab answered `-upstream failure` in its place, as a proxy of Redis does
    /// that has waited too long.
    AnsweredUpstream,
    /// A write of the process is held back on its way to the number. Timestamped once the process had sent it. It arrives as an operation.
    WriteHeld,
    /// The lab asked it to release a hold that it had released before, and it has answered. Timestamped once it had.
    OverReleased,
    /// It was started again, and the kernel shows from outside that it has the process id that its process had in an earlier life.
    /// Timestamped once that was seen.
    SamePid,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 29] = [
        Self::Killed,
        Self::Stopped,
        Self::Continued,
        Self::CutOff,
        Self::RepliesCut,
        Self::RequestsCut,
        Self::PassedOneWay,
        Self::Reconnected,
        Self::Slowed,
        Self::Distant,
        Self::ConnectionsDead,
        Self::Vanished,
        Self::ClockAhead,
        Self::ClockBehind,
        Self::ClockFast,
        Self::ClockRight,
        Self::ClockRead,
        Self::Suspended,
        Self::ReplyLost,
        Self::ReplyArrives,
        Self::ReplyHeld,
        Self::ReplyDelivered,
        Self::AnsweredOom,
        Self::AnsweredReadOnly,
        Self::AnsweredLoading,
        Self::AnsweredUpstream,
        Self::WriteHeld,
        Self::OverReleased,
        Self::SamePid,
    ];

    /// Returns the error that it put in place of a reply of the store, if it did that.
    pub fn error(self) -> Option<&'static str> {
        match self {
            Self::AnsweredOom => Some("-OOM"),
            Self::AnsweredReadOnly => Some("-READONLY"),
            Self::AnsweredLoading => Some("-LOADING"),
            Self::AnsweredUpstream => Some("-upstream failure"),
            _ => None,
        }
    }

    /// Returns whether it took a reply of the store from the process, or put an error in its place.
    pub fn spoils_reply(self) -> bool {
        self == Self::ReplyLost || self.error().is_some()
    }
}
