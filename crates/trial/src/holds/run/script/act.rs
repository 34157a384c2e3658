//! What a process does, or what the lab does to it, in a script: one act at a time.

use std::time::Duration;

use fencepost_rig::Direction;

use crate::holds::run::clocks::ClockEvent;
use crate::holds::run::roads::{StoreError, Which};
use crate::holds::run::servers::Stop;
use crate::protocol::Action;

/// One act of a script.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::holds::run) enum Act {
    /// Acquires the lock, waiting for it. If the process does not get the lock, its script ends.
    Acquire { key: &'static str, wait: Duration },
    /// Acquires the lock without waiting, and stops between the lock's own steps if it has several.
    AcquireStepwise { key: &'static str },
    /// Acquires the lock, and stops after its first step on the way to waiting.
    AcquirePaused { key: &'static str, wait: Duration },
    /// Tries once. If the process gets the lock, its script ends; otherwise it continues.
    Try { key: &'static str },
    /// Tries, waiting no longer than this. The script continues whatever the answer is, also after an error.
    TryAnyway { key: &'static str, wait: Duration },
    /// Tries, unless the process holds the lock. The script continues, unless the process has waited in vain.
    TryUnlessHeld { key: &'static str, wait: Duration },
    /// Does nothing for a while, unless the process holds the lock.
    WorkUnlessHeld { key: &'static str, time: Duration },
    /// Takes a step on the number, if the process holds this lock. The script continues if it declines, and after an error.
    StepIfHeld { key: &'static str, action: Action },
    /// Releases the lock, if the process holds it. The script continues also after an error.
    ReleaseIfHeld { key: &'static str },
    /// Takes a step on the number, under the hold of this lock.
    Step { key: &'static str, action: Action },
    /// Writes the number, under the hold of this lock. The lab holds the write back on its way.
    SendWrite { key: &'static str },
    /// The write that another process has sent arrives at the number.
    Arrive(usize),
    /// Does nothing for a while.
    Work(Duration),
    /// Releases the lock.
    Release { key: &'static str },
    /// Releases once more the hold of this lock that the process released last.
    ReleaseAgain { key: &'static str },
    /// Releases the lock, and stops between the lock's own steps.
    ReleaseStepwise { key: &'static str },
    /// The lab kills the process.
    Kill,
    /// The lab kills the process if fewer processes than this were killed before.
    KillIfBelow(usize),
    /// The lab kills another process.
    KillOther(usize),
    /// Waits until this many processes were killed, or until nobody else has anything to do.
    AfterKills(usize),
    /// The lab kills the process and starts it again. Its next life goes on with the script.
    Restart,
    /// The lab stops the process.
    Stop,
    /// The lab continues the process, and waits for its outstanding answer.
    Continue,
    /// Buys one unit. The script ends with any answer other than "busy".
    Buy { wait: Duration },
    /// The lab adds units to the stock.
    Restock(i64),
    /// The lab does this to the servers.
    Servers(ServerEvent),
    /// The lab does this to the road between the process and its store.
    Road(RoadEvent),
    /// The lab does this to the time of day of the process.
    Clock(ClockEvent),
    /// Waits until the store has answered the request of another process for a lock, whether or not that process has the answer.
    AfterAnswer(usize),
    /// Waits until the reply that was chosen on another process's road has come, when that process has done the first number of acts; or until
    /// it has done the second.
    AfterMet(usize, usize, usize),
    /// The reply that is withheld from another process is lost: its connections are closed.
    LoseWithheld(usize),
    /// Ends the script, unless the reply that was chosen on this process's road has come.
    EndUnlessMet,
    /// Ends the script if another process has done all of its acts.
    EndIfFinished(usize),
    /// Waits until another process is paused at a step, or has done this many acts.
    AfterPause(usize, usize),
    /// Ends the script, unless another process is paused at a step.
    EndUnlessPaused(usize),
    /// The lab delivers the reply for which another process was paused, and lets it go on.
    Deliver(usize),
    /// Waits until another process has answered something since it went on.
    AfterNextAnswer(usize),
    /// The road is open again after this time at the latest, whatever the process is doing then.
    ReconnectWithin(Duration),
    /// Waits until another process has done this many acts, or all of its acts.
    After(usize, usize),
    /// Does the same as `After`, but no longer than this duration.
    Meet(usize, usize, Duration),
    /// Waits until another process has done all of its acts.
    AfterAll(usize),
}

impl Act {
    /// Returns the name of the lock that the process asks for; `None` if it asks for none.
    pub(in crate::holds::run) fn acquired_key(self) -> Option<&'static str> {
        match self {
            Self::Acquire { key, .. }
            | Self::AcquirePaused { key, .. }
            | Self::AcquireStepwise { key }
            | Self::Try { key }
            | Self::TryUnlessHeld { key, .. }
            | Self::TryAnyway { key, .. } => Some(key),
            _ => None,
        }
    }
}

/// What happens to the servers of a trial that has servers of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::holds::run) enum ServerEvent {
    CutOff,
    Kill,
    ServeAgain,
    /// The server does what the scenario is about, and lives on.
    Misbehave,
    /// Servers are stopped, until they serve again.
    Stop(Stop),
}

/// What happens to the road between a process and its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::holds::run) enum RoadEvent {
    /// Nothing passes.
    CutOff,
    /// Nothing passes in this direction.
    CutOneWay(Direction),
    /// The replies come so late that a grant takes this long.
    Slow(Duration),
    /// Every message takes this much longer, in both directions.
    Distance(Duration),
    /// Every connection that is open dies silently. New ones work.
    Bury,
    /// The machine of the process vanishes from the network: nothing passes any more, and no connection ends, also when the process dies.
    Vanish,
    /// New connections lead to the server that is the primary at first, whoever takes over.
    StayAtFirst,
    /// Every connection that is open ends. New ones lead to the server that has taken over.
    MoveOn,
    /// Every reply is late by this much, to learn how many a grant waits for.
    Rehearse(Duration),
    /// The reply with this number, counted from now, is lost.
    LoseReply(u64),
    /// The reply with this number, counted from now, is held back, and the process is stopped.
    HoldReply(u64),
    /// These requests of the process meet this error of the store.
    Error(StoreError, Which),
    /// The reply with this number, counted from now, is held back, and the process goes on.
    WithholdReply(u64),
    /// Everything passes again.
    Reconnect,
}

pub(in crate::holds::run) const fn read(key: &'static str) -> Act {
    let action = Action::Read;
    Act::Step { key, action }
}

pub(in crate::holds::run) const fn write(key: &'static str) -> Act {
    let action = Action::Write;
    Act::Step { key, action }
}

/// Acquires the lock without waiting. If the process does not get it, its script ends.
pub(in crate::holds::run) const fn at_once(key: &'static str) -> Act {
    let wait = Duration::ZERO;
    Act::Acquire { key, wait }
}

/// Asks for the lock without waiting, and goes on whatever the answer is.
pub(in crate::holds::run) const fn try_once(key: &'static str) -> Act {
    let wait = Duration::ZERO;
    Act::TryAnyway { key, wait }
}
