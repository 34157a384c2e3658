//! The record of a run: its events in order, numbered and timestamped by the lab, stored as JSON Lines.
//!
//! The first line is the [`Header`]; every following line is an [`Event`]. Timestamps are nanoseconds since the start of the
//! run, on the lab's single monotonic clock. The lab timestamps a request before writing it and a reply after reading it.

use serde::{Deserialize, Serialize};

use crate::protocol::{Action, Claims, Promise, Purchase, ReleaseResult, Retry};

mod fault;
pub(crate) mod fence;
mod recorder;
mod servers;
mod storm;

pub use fault::Fault;
pub use recorder::Recorder;
pub use servers::Change;
pub use storm::{FaultKind, FaultKinds, StormSettings};

/// The format of a history, as given in its header.
pub const SCHEMA: &str = "fencepost/history/1";

/// Returns the current time of day in UTC, in the format used by headers.
pub(crate) fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S+00:00")
        .to_string()
}

/// The settings of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The format of the file: `fencepost/history/1`.
    pub schema: String,
    /// The version of Fencepost that recorded it.
    pub version: String,
    /// When it was recorded, in UTC.
    pub recorded: String,
    /// The scenario, such as `oversell`.
    pub scenario: String,
    /// The strategy on trial.
    pub strategy: String,
    /// Whether that is a program of the user. `None` in histories of earlier versions, which tell it by the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<bool>,
    /// What the strategy promises.
    #[serde(rename = "claim")]
    pub promise: Promise,
    /// The store, such as `sqlite`.
    pub store: String,
    /// The random seed. It reproduces the lab's choices, but not the timing of the operating system.
    pub seed: u64,
    /// Units in stock at the start.
    pub stock: i64,
    /// The number of processes. Each makes one attempt.
    pub concurrency: usize,
    /// The duration of the work between reading and writing the stock.
    pub delay_us: u64,
    /// How long an attempt waits for the lock.
    pub wait_ms: u64,
    /// How long a lock may be held without being renewed.
    pub ttl_ms: u64,
    /// Further settings of a lock trial; `None` for a sale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<HoldSettings>,
    /// What an external lock claims in a sale; `None` for our own strategies, whose claims are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<Claims>,
}

/// The settings that only lock trials have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HoldSettings {
    /// How long the holder works between reading and writing.
    pub work_ms: u64,
    /// What the lock promises.
    pub claims: Claims,
    /// The settings of a storm; `None` in other trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storm: Option<StormSettings>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number, from 1.
    pub n: u64,
    /// The time since the start of the run.
    pub at_ns: u64,
    /// The process concerned; `None` for something that the lab itself did. A process that was started again has another name in
    /// each of its lives: `A`, `A.2`, `A.3`. So its holds are never confused with those of an earlier life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// The kinds of events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// A round begins. In a round, all processes use the same way of retrying when the lock is taken.
    Round {
        /// How they retry.
        #[serde(flatten)]
        retry: Retry,
    },
    /// The lab set the stock.
    StockSet {
        /// The new stock.
        units: i64,
    },
    /// The lab asked a process to buy.
    Purchase {
        /// The number of the attempt.
        op: u64,
        /// How many units to buy.
        quantity: u32,
    },
    /// The process answered a purchase.
    Purchased {
        /// The number of the attempt.
        op: u64,
        /// The answer.
        #[serde(flatten)]
        purchase: Purchase,
    },
    /// The attempt had no outcome: an error, a dead process, an unreadable answer, or no answer at all.
    Failed {
        /// The number of the attempt.
        op: u64,
        /// Whether the request certainly had no effect.
        definite: bool,
        /// What went wrong.
        message: String,
    },
    /// The lab read the stock.
    StockRead {
        /// The units it found.
        units: i64,
    },
    /// The lab asked a process to acquire a lock.
    Acquire {
        /// The number of the request.
        op: u64,
        /// Which lock.
        key: String,
        /// How long to wait for it.
        wait_ms: u64,
    },
    /// The lock was granted. The hold lasts at least from here until the release is sent.
    Acquired {
        /// The number of the request.
        op: u64,
        /// Which lock.
        key: String,
        /// The subject's identifier of the hold.
        hold: u64,
        /// Its fence.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fence: Option<String>,
        /// How long the process may believe in the lock, if it said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        valid_ms: Option<f64>,
        /// Whether the process first found the lock taken.
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
    /// The lease of a living holder has expired by now, according to its TTL, and the holder has not been notified.
    LeaseOver {
        /// Which lock.
        key: String,
        /// The hold whose lease is over.
        hold: u64,
    },
    /// The lab asked for a step on the register.
    Step {
        /// The number of the request.
        op: u64,
        /// The hold that the step belongs to.
        hold: u64,
        /// The kind of step.
        action: Action,
    },
    /// The lab executed the step on the register, or the register refused the step.
    Register {
        /// The number of the request.
        op: u64,
        /// The hold that the step belongs to.
        hold: u64,
        /// The position in the serial log of the register: "op 1", "op 2", …
        serial: u64,
        /// The kind of step.
        action: Action,
        /// The value that was read or written.
        value: i64,
        /// The fence that the step carried.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fence: Option<String>,
        /// The highest fence that the register had seen before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        highest: Option<String>,
        /// Whether the register refused the step because of its fence.
        #[serde(default)]
        refused: bool,
    },
    /// The subject declined a step because it knew, or could not rule out, that its lock was lost.
    Declined {
        /// The number of the request.
        op: u64,
        /// The hold that the step belongs to.
        hold: u64,
    },
    /// The lab asked a process to release a lock.
    Release {
        /// The number of the request.
        op: u64,
        /// Which lock.
        key: String,
        /// Which hold.
        hold: u64,
    },
    /// The process answered a release.
    Released {
        /// The number of the request.
        op: u64,
        /// Which lock.
        key: String,
        /// Which hold.
        hold: u64,
        /// The result that the lock reported.
        outcome: ReleaseResult,
    },
    /// A subject reported that its lock is lost.
    Lost {
        /// Which hold.
        hold: u64,
    },
    /// A subject halted between two steps of acquiring or releasing.
    Reached {
        /// The number of the request.
        op: u64,
        /// The number of the last step it completed.
        step: u32,
        /// The total number of steps.
        of: u32,
        /// What the step did.
        what: String,
    },
    /// The lab injected a fault into a process and saw it take effect.
    Fault {
        /// The kind of fault.
        fault: Fault,
    },
    /// The lab changed something about a server of the store and saw it take effect.
    Server {
        /// The name of the server.
        server: String,
        /// What happened to the server.
        change: Change,
    },
    /// The lab inspected the store itself.
    StoreRead {
        /// Which lock.
        key: String,
        /// Whether the store has a record of the lock.
        taken: bool,
        /// How long until the record expires; `None` if it does not expire.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ttl_left_ms: Option<f64>,
        /// The server that the lab inspected, if the store has several servers or was moved from one to another.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
    },
    /// The lab itself stalled: it was stopped, or the machine was too busy to run it. It noticed this when it went on.
    Stalled {
        /// How long at most, up to this event.
        for_ms: f64,
    },
    /// The machine was suspended. The lab's clock stood still meanwhile and leases went on, so the run proves nothing. The lab noticed
    /// this when it went on.
    Slept {
        /// For how long, up to this event.
        for_ms: f64,
    },
    /// The process was granted this hold, and nothing had come from the store through the proxies that the process should use.
    Unseen {
        /// The hold.
        hold: u64,
    },
    /// The lab stopped waiting for something: a process that does not get ready, a storm, which ends early because too many requests
    /// fail, or a trial in which nothing happens any more. Earlier versions recorded other reasons.
    GaveUp {
        /// What it was waiting for, and why it stopped.
        why: String,
    },
}

/// A recorded run, ready to be judged.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// The settings of the run.
    pub header: Header,
    /// The events of the run, in order.
    pub events: Vec<Event>,
}

/// Returns every fence that occurs in a run.
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
            external: None,
            promise,
            store: "sqlite".into(),
            seed: 7041,
            stock,
            concurrency,
            delay_us: 5000,
            wait_ms: 0,
            ttl_ms: 10_000,
            holds: None,
            claims: None,
        }
    }

    /// Returns the names of all variants, which the deserializer lists when it meets an unknown one.
    fn variants<T: serde::de::DeserializeOwned + std::fmt::Debug>() -> Vec<String> {
        let error = serde_json::from_str::<T>("\"?\"").unwrap_err().to_string();
        let (_, listed) = error.split_once("expected one of ").unwrap();
        listed
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    }

    fn name_of(one: impl Serialize) -> String {
        let name = serde_json::to_value(one).unwrap();
        name.as_str().unwrap().to_owned()
    }

    #[test]
    fn no_fault_and_no_change_is_missing_from_the_lists_of_all() {
        assert_eq!(Fault::ALL.map(name_of)[..], variants::<Fault>());
        assert_eq!(Change::ALL.map(name_of)[..], variants::<Change>());
    }
}
