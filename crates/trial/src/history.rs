//! What happened, in order: numbered and stamped by the lab, kept as JSON Lines.
//!
//! The first line is the [`Header`]; each further line is an [`Event`]. Stamps are nanoseconds on the lab's one
//! monotonic clock since the start of the race; a request is stamped before it is written, a reply after it was read.

use serde::{Deserialize, Serialize};

use crate::protocol::{Action, Claims, Promise, Purchase, ReleaseWord, Retry};

mod recorder;
mod servers;

pub use recorder::Recorder;
pub use servers::Change;

/// The format of a history, as its header names it.
pub const SCHEMA: &str = "fencepost/history/1";

/// The time of day, in UTC, as headers carry it.
pub(crate) fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S+00:00")
        .to_string()
}

/// What was set for a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The format of the file: `fencepost/history/1`.
    pub schema: String,
    /// The version of Fencepost that recorded it.
    pub version: String,
    /// When, in UTC.
    pub recorded: String,
    /// The scenario, such as `oversell`.
    pub scenario: String,
    /// The strategy on trial.
    pub strategy: String,
    /// What it promises.
    #[serde(rename = "claim")]
    pub promise: Promise,
    /// The store, such as `sqlite`.
    pub store: String,
    /// The random seed: repeats the lab's choices, not the operating system's timing.
    pub seed: u64,
    /// Units at the start.
    pub stock: i64,
    /// Processes, each with one attempt.
    pub concurrency: usize,
    /// Work between reading and writing the stock.
    pub delay_us: u64,
    /// How long an attempt waits for the lock.
    pub wait_ms: u64,
    /// How long a lock may be held without being renewed.
    pub ttl_ms: u64,
    /// Further settings of a lock trial; `None` for a sale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<HoldSettings>,
}

/// What is set for a lock trial alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HoldSettings {
    /// How long the holder works between reading and writing.
    pub work_ms: u64,
    /// What the lock promises.
    pub claims: Claims,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number, from 1.
    pub n: u64,
    /// When, since the start of the race.
    pub at_ns: u64,
    /// To which process; `None` for what the lab did itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// What it was.
    #[serde(flatten)]
    pub what: What,
}

/// The kinds of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// A round begins, in which every process retries in the same way when the lock is taken.
    Round {
        /// This way.
        #[serde(flatten)]
        retry: Retry,
    },
    /// The lab set the stock.
    StockSet {
        /// To this.
        units: i64,
    },
    /// The lab asked somebody to buy.
    Purchase {
        /// The number of the attempt.
        op: u64,
        /// How many units.
        quantity: u32,
    },
    /// The answer came.
    Purchased {
        /// The number of the attempt.
        op: u64,
        /// What it said.
        #[serde(flatten)]
        purchase: Purchase,
    },
    /// The attempt came to no outcome: an error, a death, an answer that cannot be read, or none at all.
    Failed {
        /// The number of the attempt.
        op: u64,
        /// Whether it is certain that nothing was bought.
        definite: bool,
        /// What went wrong.
        message: String,
    },
    /// The lab read the stock.
    StockRead {
        /// It was this.
        units: i64,
    },
    /// The lab asked somebody to take a lock.
    Acquire {
        /// The number of the request.
        op: u64,
        /// Which lock.
        key: String,
        /// How long to wait for it.
        wait_ms: u64,
    },
    /// It was granted: the hold lasts at least from here to the release's sending.
    Acquired {
        /// The number of the request.
        op: u64,
        /// Which lock.
        key: String,
        /// What the subject calls the hold.
        hold: u64,
        /// Its fence.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fence: Option<String>,
        /// Whether it had found the lock taken.
        #[serde(default)]
        contended: bool,
    },
    /// The lock did not become free in time.
    Refused {
        /// The number of the request.
        op: u64,
        /// Which lock.
        key: String,
    },
    /// The lock of a living holder has run out by now, by its TTL, and the holder was not told.
    LeaseOver {
        /// Which lock.
        key: String,
        /// Whose hold.
        hold: u64,
    },
    /// The lab asked for a step on the protected number.
    Step {
        /// The number of the request.
        op: u64,
        /// Under which hold.
        hold: u64,
        /// Which step.
        action: Action,
    },
    /// The step was carried out on the number that the lab keeps, or refused there.
    Register {
        /// The number of the request.
        op: u64,
        /// Under which hold.
        hold: u64,
        /// Its place in the serial log of the number: "op 1", "op 2", …
        serial: u64,
        /// Which step.
        action: Action,
        /// The value read, or written.
        value: i64,
        /// The fence it came with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fence: Option<String>,
        /// The highest fence the number had seen before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        highest: Option<String>,
        /// Refused because of its fence.
        #[serde(default)]
        refused: bool,
    },
    /// The subject declined a step: it knew that its lock was lost.
    Declined {
        /// The number of the request.
        op: u64,
        /// Under which hold.
        hold: u64,
    },
    /// The lab asked for a release.
    Release {
        /// The number of the request.
        op: u64,
        /// Which lock.
        key: String,
        /// Which hold.
        hold: u64,
    },
    /// The release was answered.
    Released {
        /// The number of the request.
        op: u64,
        /// Which lock.
        key: String,
        /// Which hold.
        hold: u64,
        /// What the lock said.
        outcome: ReleaseWord,
    },
    /// A subject said that its lock is lost.
    Lost {
        /// Which hold.
        hold: u64,
    },
    /// A subject halted between two steps of acquiring.
    Reached {
        /// The number of the request.
        op: u64,
        /// After which step.
        step: u32,
        /// Of how many.
        of: u32,
        /// What the step did.
        what: String,
    },
    /// The lab did something bad to a process, and saw it happen.
    Fault {
        /// What.
        fault: Fault,
    },
    /// The lab did something to a server of the store, and saw it happen.
    Server {
        /// Which one.
        server: String,
        /// What became of it.
        change: Change,
    },
    /// The lab looked at the store itself.
    StoreRead {
        /// Which lock.
        key: String,
        /// Whether there is a record of it.
        taken: bool,
        /// How long the record lasts by itself; `None` if it does not expire.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_left_ms: Option<f64>,
        /// On which of its servers, where there are several or it was not always the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
    },
    /// The lab stopped waiting for something.
    GaveUp {
        /// For what, and why now.
        why: String,
    },
}

/// What the lab does to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// SIGKILL to its group; stamped before it was sent, written down once the death by it was seen.
    Killed,
    /// SIGSTOP to its group; stamped after state T was seen.
    Stopped,
    /// SIGCONT.
    Continued,
}

/// A run that can be judged.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// What was set.
    pub header: Header,
    /// What happened.
    pub events: Vec<Event>,
}

/// Every fence of a run.
pub(crate) fn fences(events: &[Event]) -> Vec<&str> {
    let all = events.iter().filter_map(|event| match &event.what {
        What::Acquired { fence, .. } | What::Register { fence, .. } => fence.as_deref(),
        _ => None,
    });
    all.collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn header(stock: i64, concurrency: usize, promise: Promise) -> Header {
        Header {
            schema: "fencepost/history/1".into(),
            version: "0.1.0".into(),
            recorded: "2026-11-15T08:41:07+00:00".into(),
            scenario: "oversell".into(),
            strategy: if promise == Promise::Nothing {
                "none"
            } else {
                "safe"
            }
            .into(),
            promise,
            store: "sqlite".into(),
            seed: 7041,
            stock,
            concurrency,
            delay_us: 5000,
            wait_ms: 0,
            ttl_ms: 10_000,
            holds: None,
        }
    }
}
