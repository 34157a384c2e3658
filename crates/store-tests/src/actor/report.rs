//! The reports that children send, and functions with which a test receives them.

use std::time::Duration;

use fencepost::Guard;
use fencepost_rig::{Feed, Output};
use serde::{Deserialize, Serialize};

use crate::{LONG, now};

/// A report from a child. Times are nanoseconds of the boot clock, which all processes of a machine share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// It is connected to the store.
    Ready,
    /// It holds the lock and waits for orders.
    Held {
        /// The fence of its hold.
        fence: i64,
    },
    /// It held the lock once and released it.
    Served(Served),
    /// The resource accepted a write.
    Written,
    /// The resource refused a write.
    Refused,
    /// It knows that it has lost the lock.
    Lost,
    /// It released the lock, which it still held if the value is `true`.
    Released(bool),
    /// A request failed.
    Failed(String),
    /// It is about to exit.
    Done,
}

/// One turn: the lock was granted, held and released.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// The holder.
    pub owner: String,
    /// Its fence.
    pub fence: i64,
    /// When it was granted.
    pub granted_ns: u64,
    /// How the release ended.
    pub outcome: String,
    /// The number that was written under the lock, if the task was to count.
    pub counted: Option<u64>,
}

impl Served {
    /// Starts the record of a turn, right after the grant.
    pub fn granted(guard: &Guard) -> Self {
        Self {
            owner: guard.owner().to_string(),
            fence: guard.fence().as_i64(),
            granted_ns: now().as_nanos(),
            outcome: String::new(),
            counted: None,
        }
    }

    /// Releases the lock and records the outcome.
    pub async fn release(mut self, guard: Guard) -> Self {
        self.outcome = format!("{:?}", guard.release().await);
        self
    }
}

/// Returns the next report of any child, with the index of that child. The inner `None` means that its output ended; the outer
/// `None` means that all children were silent.
pub fn hear(feed: &Feed, within: Duration) -> Option<(usize, Option<Report>)> {
    let heard = feed.next(within).ok()?;
    let report = match heard.output {
        Output::Line(line) => Some(serde_json::from_str(&line).expect(&line)),
        Output::TooLong(_) | Output::Closed => None,
    };
    Some((heard.child, report))
}

/// Returns the next report of the only child.
pub fn report(feed: &Feed) -> Report {
    let (_, report) = hear(feed, LONG).expect("a report");
    report.expect("a child that has not ended")
}

/// Returns the next turn of any child, with the index of that child. Panics if a child reports a failure.
pub fn served(feed: &Feed) -> (usize, Served) {
    loop {
        match hear(feed, LONG).expect("a report") {
            (id, Some(Report::Served(served))) => return (id, served),
            (_, Some(Report::Ready | Report::Done) | None) => {}
            (child, Some(other)) => panic!("child {child}: {other:?}"),
        }
    }
}
