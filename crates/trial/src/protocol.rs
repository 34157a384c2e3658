//! The messages between the lab and a subject: one JSON object per line, distinguished by its `type`.
//!
//! The lab writes requests to the subject's standard input. The subject writes replies to its standard output and must flush
//! each line. A subject exits when it receives [`Shutdown`](Request::Shutdown) or when its input is closed.

use serde::{Deserialize, Serialize};

mod claims;
mod failure;
mod pauses;

pub use claims::{Claims, Promise};
pub use failure::Failure;

/// The version of the protocol that the lab speaks. Fields that are added to requests do not change it.
pub const PROTOCOL: u32 = 1;

/// A request from the lab to a subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Get ready: open the store and connect, but change nothing yet. Answered by [`Reply::InitOk`].
    Init {
        /// The version of the protocol: [`PROTOCOL`].
        #[serde(default = "first_protocol")]
        protocol: u32,
        /// The lab's name for this subject, such as `proc_3`.
        id: String,
        /// Which life of this subject it is, from 1. A subject that is killed and started again keeps its `id`.
        #[serde(default = "first", skip_serializing_if = "is_first")]
        incarnation: u64,
        /// The products it will be asked to buy, and the names of the locks that protect them.
        keys: Vec<String>,
        /// How long a lock may be held without being renewed.
        ttl_ms: u64,
        /// The addresses of the store, such as `sqlite:PATH`.
        endpoints: Vec<String>,
        /// The resource that the locks protect.
        #[serde(default)]
        resource: Resource,
        /// A file that stays locked until every subject was asked. To start together with the others, a subject waits before
        /// its first purchase until it can lock the file in shared mode (`flock`). An external lock may ignore it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start: Option<String>,
    },
    /// Buy. Answered by [`Reply::Purchased`] or [`Reply::Error`] with the same `op`.
    Purchase {
        /// The number of this attempt, unique in the run.
        op: u64,
        /// What to buy.
        product: String,
        /// How many units.
        quantity: u32,
        /// How long to wait for the lock; 0 means a single attempt.
        wait_ms: u64,
        /// The duration of the work between reading and writing the stock.
        delay_us: u64,
        /// How to retry when the lock is taken. If present, `wait_ms` is ignored and the reply includes the
        /// [effort](Purchase::effort).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<Retry>,
    },
    /// Acquire the lock. Answered by [`Reply::Acquired`], [`Reply::Refused`] or [`Reply::Error`] with the same `op`.
    Acquire {
        /// The number of this request, unique in the run.
        op: u64,
        /// The lock.
        key: String,
        /// How long to wait for it; 0 means a single attempt.
        wait_ms: u64,
        /// After this many of the lock's own steps, send [`Reply::Reached`] and stop (SIGSTOP to oneself), because the lab
        /// wants to kill the process at that point. After the last step there is nothing to stop at. An external lock may
        /// ignore this field.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        halt_after: Option<u32>,
    },
    /// Use the register once, under this hold. Answered by [`Reply::Stepped`]. The reply *is* the step: the lab executes
    /// it on the number it keeps as soon as it reads the reply.
    Step {
        /// The number of this request.
        op: u64,
        /// The hold that the step belongs to.
        hold: u64,
        /// What to do.
        action: Action,
    },
    /// Release the lock. Answered by [`Reply::Released`] or [`Reply::Error`].
    Release {
        /// The number of this request.
        op: u64,
        /// The hold to release.
        hold: u64,
        /// After this many of the lock's own steps, send [`Reply::Reached`] and stop, as in `Acquire`. The lab continues the
        /// process later.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        halt_after: Option<u32>,
    },
    /// Exit: no more requests will follow.
    Shutdown,
}

/// Returns the version of a lab that does not name it.
fn first_protocol() -> u32 {
    1
}

/// Returns the number of a first life.
fn first() -> u64 {
    1
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_first(incarnation: &u64) -> bool {
    *incarnation == 1
}

/// A reply from a subject to the lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// The subject is ready.
    InitOk {
        /// What its lock promises. An external lock that says nothing is judged by its manifest, or as a plain lock. A claim that the
        /// lab does not know is an error here. A history is read without it.
        #[serde(
            default,
            skip_serializing_if = "Option::is_none",
            deserialize_with = "claims::known"
        )]
        claims: Option<Claims>,
    },
    /// The lock was granted.
    Acquired {
        /// The request it answers.
        op: u64,
        /// The subject's identifier of this hold, never used before by its process. A process that is started again may count from 1.
        hold: u64,
        /// The fence, `epoch.seq` or a plain number, if the lock issues fences.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fence: Option<String>,
        /// How long the subject may believe that it holds the lock, if it knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        valid_ms: Option<f64>,
        /// Whether somebody else had the lock at the first try.
        #[serde(default)]
        contended: bool,
    },
    /// The lock did not become free in time.
    Refused {
        /// The request it answers.
        op: u64,
    },
    /// The subject takes the step now.
    Stepped {
        /// The request it answers.
        op: u64,
        /// The fence that the step carries; by default the fence of the grant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fence: Option<String>,
    },
    /// The subject does not take the step because it knows, or cannot rule out, that its lock is lost.
    Declined {
        /// The request it answers.
        op: u64,
    },
    /// The lock was released, or had been lost before.
    Released {
        /// The request it answers.
        op: u64,
        /// The result that the lock reported.
        outcome: ReleaseResult,
    },
    /// The lock is lost. A subject may send this at any time.
    Lost {
        /// The hold that is lost.
        hold: u64,
    },
    /// The subject stops here, as requested in [`Request::Acquire`] or [`Request::Release`].
    Reached {
        /// The request it belongs to.
        op: u64,
        /// The last completed step of acquiring or releasing.
        step: u32,
        /// The total number of steps.
        of: u32,
        /// What the step did.
        what: String,
    },
    /// The result of a purchase.
    Purchased {
        /// The request it answers.
        op: u64,
        /// The outcome and its details.
        #[serde(flatten)]
        purchase: Purchase,
    },
    /// The request failed.
    Error {
        /// The request it answers; absent for `init`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<u64>,
        /// Whether the request certainly had no effect. `false` if in doubt.
        definite: bool,
        /// What went wrong.
        message: String,
    },
}

impl Reply {
    /// Returns the number of the request it answers, if it names one.
    pub fn op(&self) -> Option<u64> {
        match self {
            Self::InitOk { .. } | Self::Lost { .. } => None,
            Self::Error { op, .. } => *op,
            Self::Acquired { op, .. }
            | Self::Refused { op }
            | Self::Stepped { op, .. }
            | Self::Declined { op }
            | Self::Released { op, .. }
            | Self::Reached { op, .. }
            | Self::Purchased { op, .. } => Some(*op),
        }
    }
}

/// The resource that the locks of a run protect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The stock in the store: the subject will be asked to buy.
    #[default]
    Stock,
    /// The register, a number that the lab keeps: the subject will be asked to acquire, take steps and release.
    #[serde(rename = "number")]
    Register,
}

/// What a step does to the register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Read the register.
    Read,
    /// Write the value that was read, plus one.
    Write,
}

/// The result that a lock reports for a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseResult {
    /// The lock was held, and is now free.
    Released,
    /// The lock had been lost before.
    AlreadyLost,
    /// The lock does not report a result, or does not know.
    Unknown,
}

/// How to retry when the lock is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// The pauses between tries.
    #[serde(flatten)]
    pub pauses: Pauses,
    /// The number of tries after the first. Then the reply is [`PurchaseOutcome::Busy`].
    pub max_retries: u32,
    /// The total time for all tries. Then the reply is [`PurchaseOutcome::Busy`].
    pub budget_ms: u64,
    /// The seed for random choices.
    pub seed: u64,
}

/// Ways of waiting for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "pauses", rename_all = "snake_case")]
pub enum Pauses {
    /// The same pause each time.
    Fixed {
        /// The pause.
        pause_ms: u64,
    },
    /// Doubling pauses.
    Exponential {
        /// The first pause.
        base_ms: u64,
        /// The longest pause.
        cap_ms: u64,
    },
    /// Random pauses between zero and the corresponding doubling pause.
    FullJitter {
        /// The upper limit of the first pause.
        base_ms: u64,
        /// The upper limit of all pauses.
        cap_ms: u64,
    },
    /// No pauses: a single request waits in the lock's own line.
    Line,
}

/// What a purchase cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Tries after the first.
    pub retries: u32,
    /// Requests to acquire or release the lock.
    pub lock_ops: u32,
    /// When the lock was held, as far as the subject can tell: start and end, in milliseconds *before* the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ms_ago: Option<(f64, f64)>,
}

/// The result of a purchase, as reported by the subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Purchase {
    /// The outcome.
    pub outcome: PurchaseOutcome,
    /// The stock it read, if it got that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// The stock it wrote, if it wrote any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// Whether somebody else had the lock at the first try.
    #[serde(default)]
    pub contended: bool,
    /// How long it waited for the lock.
    #[serde(default)]
    pub waited_ms: f64,
    /// The fence of the lock it held, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<String>,
    /// The cost, if the request said how to retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
}

/// The outcomes of a purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PurchaseOutcome {
    /// An order exists.
    Sold,
    /// Too little is left.
    NoStock,
    /// The lock was taken.
    Busy,
    /// The subject does not know.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_external_lock_needs_to_say_only_what_happened() {
        let reply: Reply =
            serde_json::from_str(r#"{"type":"purchased","op":4,"outcome":"sold"}"#).unwrap();
        let Reply::Purchased { op: 4, purchase } = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(
            (purchase.outcome, purchase.before),
            (PurchaseOutcome::Sold, None)
        );
    }

    #[test]
    fn requests_are_plain_to_read() {
        let request = Request::Purchase {
            op: 1,
            product: "product_A".into(),
            quantity: 1,
            wait_ms: 0,
            delay_us: 5000,
            retry: None,
        };
        let text = r#"{"type":"purchase","op":1,"product":"product_A","quantity":1,"wait_ms":0,"delay_us":5000}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
    }

    #[test]
    fn external_locks_know_the_register_as_a_number() {
        let text = serde_json::to_string(&Resource::Register).unwrap();
        assert_eq!(text, r#""number""#);
    }

    #[test]
    fn a_way_of_waiting_stands_beside_its_bounds() {
        let retry = Retry {
            pauses: Pauses::FullJitter {
                base_ms: 100,
                cap_ms: 5_000,
            },
            max_retries: 15,
            budget_ms: 8_000,
            seed: 7041,
        };
        let text = r#"{"pauses":"full_jitter","base_ms":100,"cap_ms":5000,"max_retries":15,"budget_ms":8000,"seed":7041}"#;
        assert_eq!(serde_json::to_string(&retry).unwrap(), text);
        assert_eq!(serde_json::from_str::<Retry>(text).unwrap(), retry);
    }
}
