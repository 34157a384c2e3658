//! What children say, and how a test hears it.

use std::time::Duration;

use fencepost::Guard;
use fencepost_rig::{Feed, Said};
use serde::{Deserialize, Serialize};

use crate::{LONG, now};

/// What a child has to say. Moments are nanoseconds of the boot clock, which all processes of a machine share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// It is connected to the store.
    Ready,
    /// It holds the lock and waits for orders.
    Held {
        /// The fence of its hold.
        fence: i64,
    },
    /// It had its turn.
    Served(Served),
    /// The resource let a write through.
    Written,
    /// The resource refused a write.
    Refused,
    /// It knows that it has lost the lock.
    Lost,
    /// It gave the lock back; whether it still held it.
    Released(bool),
    /// A request failed.
    Failed(String),
    /// It is about to end.
    Done,
}

/// One turn: the lock was granted, held and given back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Who held it.
    pub owner: String,
    /// Under which fence.
    pub fence: i64,
    /// Since when.
    pub granted_ns: u64,
    /// How the release ended.
    pub outcome: String,
    /// The number that was written under the lock, if the task was to count.
    pub counted: Option<u64>,
}

impl Served {
    /// The beginning of a turn, right after the grant.
    pub fn granted(guard: &Guard) -> Self {
        Self {
            owner: guard.owner().to_string(),
            fence: guard.fence().as_i64(),
            granted_ns: now().as_nanos(),
            outcome: String::new(),
            counted: None,
        }
    }

    /// Gives the lock back, and notes how that ended.
    pub async fn release(mut self, guard: Guard) -> Self {
        self.outcome = format!("{:?}", guard.release().await);
        self
    }
}

/// The next thing that any child does, and which: a report, or `None` when its output ends. `None` if all are silent.
pub fn hear(feed: &Feed, within: Duration) -> Option<(usize, Option<Report>)> {
    let heard = feed.next(within).ok()?;
    let report = match heard.said {
        Said::Line(line) => Some(serde_json::from_str(&line).expect(&line)),
        Said::Closed => None,
    };
    Some((heard.child, report))
}

/// The next report of the only child.
pub fn report(feed: &Feed) -> Report {
    let (_, report) = hear(feed, LONG).expect("a report");
    report.expect("a child that has not ended")
}

/// The next turn of any child, and which; panics when one of them reports a failure.
pub fn served(feed: &Feed) -> (usize, Served) {
    loop {
        match hear(feed, LONG).expect("a report") {
            (id, Some(Report::Served(served))) => return (id, served),
            (_, Some(Report::Ready | Report::Done) | None) => {}
            (child, Some(other)) => panic!("child {child}: {other:?}"),
        }
    }
}
