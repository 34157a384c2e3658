//! The records that the facts of a lock trial are made of: holds, waits, operations and purchases, what the lab did and what it saw.

use crate::history::{Change, Event, Fault};
use crate::protocol::{Action, PurchaseOutcome, ReleaseResult};

/// A reference to an event: its number and its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// The number in the history.
    pub event: u64,
    /// Its timestamp.
    pub at_ns: u64,
}

impl From<&Event> for Mark {
    fn from(event: &Event) -> Self {
        Self {
            event: event.n,
            at_ns: event.at_ns,
        }
    }
}

/// A hold that was granted.
#[derive(Debug, Clone, PartialEq)]
pub struct Hold {
    /// The process that holds it.
    pub who: String,
    /// The name of the lock.
    pub key: String,
    /// The identifier that the process uses for it.
    pub id: u64,
    /// Its fence.
    pub fence: Option<String>,
    /// Until when it is valid at least, if its process said so: counted from the request, because the grant is read later.
    pub valid_until_ns: Option<u64>,
    /// When the lock was requested.
    pub asked: Mark,
    /// When the lab read the grant.
    pub granted: Mark,
    /// When its lease was over, according to the lab's clock.
    pub lease_over: Option<Mark>,
    /// When its release was sent.
    pub release: Option<Mark>,
    /// When the release was answered, and with what result.
    pub released: Option<(Mark, ReleaseResult)>,
    /// When its process was killed.
    pub killed: Option<Mark>,
    /// When its process reported that the lock is lost.
    pub learned_at: Option<Mark>,
    /// When its process first said so without being asked.
    pub said_lost: Option<Mark>,
    /// When its process last declined a step because the lock is lost.
    pub declined: Option<Mark>,
    /// When its process failed to answer. What it has believed since its last answer is unknown.
    pub silent: Option<Mark>,
    /// Until when its process certainly believed that it held the lock.
    pub believed_until_ns: u64,
}

impl Hold {
    /// Returns whether its process has neither released it nor died.
    pub fn is_open(&self) -> bool {
        self.release.is_none() && self.killed.is_none()
    }

    /// Returns when its process last showed that it knew of the loss: when it declined a step, or else when it first said so.
    pub fn decided(&self) -> Option<Mark> {
        self.declined.or(self.learned_at)
    }

    /// Returns when its process reported that the lock is lost, unless its release then found the lock: whoever declines a step may only be
    /// unable to tell.
    pub fn known_lost(&self) -> Option<Mark> {
        let is_disproved = matches!(self.released, Some((_, ReleaseResult::Released)));
        self.learned_at.filter(|_| !is_disproved)
    }

    /// Returns until when nothing indicated that the hold was over. This is later than the certain belief if its process
    /// reports the loss late, or fails.
    pub fn unquestioned_until_ns(&self) -> u64 {
        let doubts = [self.release, self.killed, self.learned_at, self.silent];
        let first = doubts.into_iter().flatten().map(|mark| mark.at_ns).min();
        first.unwrap_or(u64::MAX)
    }

    /// Returns whether its lease was over at that time, according to the lab's clock.
    pub fn was_over_at(&self, at_ns: u64) -> bool {
        self.lease_over.is_some_and(|over| over.at_ns <= at_ns)
    }
}

/// One wait for a lock, or one single try.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    /// The process that waited.
    pub who: String,
    /// The name of the lock.
    pub key: String,
    /// The number of the request.
    pub op: u64,
    /// The longest time that it may wait.
    pub wait_ms: u64,
    /// When it asked.
    pub asked: Mark,
    /// The answer, if there was one.
    pub answer: Option<(Mark, WaitEnd)>,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// The lock was granted.
    Granted,
    /// The lock was certainly not granted.
    Refused,
    /// The result is unknown, or the process stopped on the way.
    Unknown,
}

impl Wait {
    /// Returns when the wait was refused, if it certainly was.
    pub fn refused(&self) -> Option<Mark> {
        self.ended(WaitEnd::Refused)
    }

    /// Returns when the wait was granted, if it was.
    pub fn granted(&self) -> Option<Mark> {
        self.ended(WaitEnd::Granted)
    }

    fn ended(&self, end: WaitEnd) -> Option<Mark> {
        self.answer
            .filter(|(_, how)| *how == end)
            .map(|(mark, _)| mark)
    }
}

/// One operation on the number that a lock protects.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// Its position in the serial log.
    pub serial: u64,
    /// The event that recorded it.
    pub mark: Mark,
    /// When the lab requested it.
    pub asked: Option<Mark>,
    /// The process that made it.
    pub who: String,
    /// The hold it was made under.
    pub hold: u64,
    /// The lock of that hold, which has a number of its own; empty if there is no such hold.
    pub key: String,
    /// Whether it is a read or a write.
    pub action: Action,
    /// The value that was read or written.
    pub value: i64,
    /// The fence it carried.
    pub fence: Option<String>,
    /// The highest fence that the number had seen before.
    pub highest: Option<String>,
    /// Whether the number refused it because of its fence.
    pub refused: bool,
}

/// A purchase in a lock trial that sells something.
#[derive(Debug, Clone, PartialEq)]
pub struct Buy {
    /// The process that bought.
    pub who: String,
    /// When the lab asked it to buy.
    pub asked: Mark,
    /// The answer, if there was one.
    pub answer: Option<(Mark, PurchaseOutcome)>,
    /// How long it waited for the lock, as it says itself.
    pub waited_ms: f64,
}

/// What the lab saw when it inspected a lock in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// The event that recorded it.
    pub mark: Mark,
    /// The name of the lock.
    pub key: String,
    /// Whether the store has a record of the lock.
    pub taken: bool,
    /// How long until the record expires; `None` if it does not expire.
    pub ttl_left_ms: Option<f64>,
    /// The server, if the lab inspected a particular one.
    pub server: Option<String>,
}

/// A fault that was seen to take effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultSeen {
    /// The event that recorded it.
    pub mark: Mark,
    /// The process that it hit.
    pub who: String,
    /// The fault.
    pub fault: Fault,
}

/// Something that happened to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerChange {
    /// The event that recorded it.
    pub mark: Mark,
    /// The server.
    pub server: String,
    /// What happened to it.
    pub change: Change,
}

/// A process that halted between two steps of its lock, as the lab had asked it to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halted {
    /// The event that recorded it.
    pub mark: Mark,
    /// The process.
    pub who: String,
    /// The last completed step.
    pub step: u32,
    /// The total number of steps.
    pub of: u32,
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedRequest {
    /// When the lab read the answer.
    pub mark: Mark,
    /// The process that had been asked.
    pub who: String,
    /// The reason, in the words of the process.
    pub message: String,
}

/// The lab set the stock: to nothing, or to what came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StockSet {
    /// When it did.
    pub mark: Mark,
    /// How many units there were from then on.
    pub units: i64,
}

/// A grant in which the store had no part, as far as the lab could see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnseenGrant {
    /// The event that recorded it.
    pub mark: Mark,
    /// The process that was granted the lock.
    pub who: String,
}

/// The moment at which the lab stopped waiting for something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GaveUp {
    /// The event that recorded it.
    pub mark: Mark,
    /// Why.
    pub why: String,
}

/// A period in which the lab itself stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// When it began, at the earliest.
    pub from_ns: u64,
    /// When it was over.
    pub until: Mark,
}
