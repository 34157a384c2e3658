//! What the facts of a lock trial consist of.

use crate::history::Event;
use crate::protocol::{Action, Outcome, ReleaseWord};

/// An event: its number and its stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The number in the history.
    pub event: u64,
    /// When.
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
    /// Whose.
    pub who: String,
    /// Of which lock.
    pub key: String,
    /// What its process calls it.
    pub hold: u64,
    /// Its fence.
    pub fence: Option<String>,
    /// When it was asked for.
    pub asked: Mark,
    /// When the grant was read.
    pub granted: Mark,
    /// When its lease was over, by the lab's reckoning.
    pub lease_over: Option<Mark>,
    /// When its release was sent.
    pub release: Option<Mark>,
    /// What the lock said about the release.
    pub released: Option<(Mark, ReleaseWord)>,
    /// When its process was killed.
    pub killed: Option<Mark>,
    /// When its process said that it knew the lock to be lost.
    pub learnt: Option<Mark>,
    /// When its process failed to answer; nobody knows what it has believed since its last answer.
    pub silent: Option<Mark>,
    /// The end of what is certain: until then its process certainly believed to hold the lock.
    pub believed_until_ns: u64,
}

impl Hold {
    /// Whether its process has neither given it back nor died.
    pub fn is_open(&self) -> bool {
        self.release.is_none() && self.killed.is_none()
    }

    /// Until when nobody has said that it is over: longer than is certain where its process says so late, or fails.
    pub fn unquestioned_until_ns(&self) -> u64 {
        let doubts = [self.release, self.killed, self.learnt, self.silent];
        let first = doubts.into_iter().flatten().map(|mark| mark.at_ns).min();
        first.unwrap_or(u64::MAX)
    }

    /// Whether its lease was over then, by the lab's reckoning.
    pub fn was_over_at(&self, at_ns: u64) -> bool {
        self.lease_over.is_some_and(|over| over.at_ns <= at_ns)
    }
}

/// One wait for a lock, or one try.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    /// Who waited.
    pub who: String,
    /// For which lock.
    pub key: String,
    /// The number of the request.
    pub op: u64,
    /// How long at most.
    pub wait_ms: u64,
    /// Since when.
    pub asked: Mark,
    /// What came of it.
    pub answer: Option<(Mark, WaitEnd)>,
}

/// What came of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// The lock.
    Granted,
    /// Nothing, for certain.
    Refused,
    /// Nobody knows, or its process stopped on the way.
    Unknown,
}

impl Wait {
    /// Whether it came to nothing, for certain.
    pub fn refused(&self) -> Option<Mark> {
        self.ended(WaitEnd::Refused)
    }

    /// Whether it was granted.
    pub fn granted(&self) -> Option<Mark> {
        self.ended(WaitEnd::Granted)
    }

    fn ended(&self, end: WaitEnd) -> Option<Mark> {
        self.answer
            .filter(|(_, how)| *how == end)
            .map(|(mark, _)| mark)
    }
}

/// One operation on the number.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// Its place in the serial log.
    pub serial: u64,
    /// The event.
    pub mark: Mark,
    /// By whom.
    pub who: String,
    /// Under which of its holds.
    pub hold: u64,
    /// Read or write.
    pub action: Action,
    /// The value read or written.
    pub value: i64,
    /// The fence it came with.
    pub fence: Option<String>,
    /// The highest fence the number had seen before.
    pub highest: Option<String>,
    /// Refused because of its fence.
    pub refused: bool,
}

/// A purchase in a trial of the sale kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buy {
    /// Whose.
    pub who: String,
    /// When it was asked for.
    pub asked: Mark,
    /// What came of it.
    pub answer: Option<(Mark, Outcome)>,
}

/// What the lab saw in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// When.
    pub mark: Mark,
    /// Which lock.
    pub key: String,
    /// Whether there is a record of it.
    pub taken: bool,
    /// How long the record lasts by itself; `None` if it does not expire.
    pub ttl_left_ms: Option<f64>,
    /// On which server, where the lab looked at one.
    pub server: Option<String>,
}
