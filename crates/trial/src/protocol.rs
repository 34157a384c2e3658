//! What the lab and a subject say to each other: one JSON object per line, told apart by its `type`.
//!
//! The lab asks on the subject's standard input, the subject answers on its standard output and must flush each line.
//! A subject ends when it is told to [shut down](Request::Shutdown) or when its input is closed.

use serde::{Deserialize, Serialize};

mod claims;
mod failure;
mod pauses;

pub use claims::{Claims, Promise};
pub use failure::Failure;

/// What the lab asks of a subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Get ready: open the store, connect, but touch nothing yet. Answered by [`Reply::InitOk`].
    Init {
        /// What the lab calls this subject, such as `proc_3`.
        id: String,
        /// The products it will be asked to buy, and the names of the locks that protect them.
        keys: Vec<String>,
        /// How long a lock may be held without being renewed.
        ttl_ms: u64,
        /// Where the store is, such as `sqlite:PATH`.
        endpoints: Vec<String>,
        /// What the locks protect.
        #[serde(default)]
        resource: Resource,
        /// A file that is locked until everybody was asked. Who wants to start together with the others waits, before its first
        /// purchase, until it can lock it in shared mode (`flock`). An external lock may ignore it.
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
        /// How long to wait for the lock; 0 is one attempt.
        wait_ms: u64,
        /// How long the work takes between reading and writing the stock.
        delay_us: u64,
        /// How to go on when the lock is taken; then `wait_ms` does not matter, and the answer tells the
        /// [effort](Purchase::effort).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<Retry>,
    },
    /// Take the lock. Answered by [`Reply::Acquired`], [`Reply::Refused`] or [`Reply::Error`] with the same `op`.
    Acquire {
        /// The number of this request, unique in the run.
        op: u64,
        /// The lock.
        key: String,
        /// How long to wait for it; 0 is one attempt.
        wait_ms: u64,
        /// Say [`Reply::Reached`] after so many of the lock's own steps of acquiring, then stop (SIGSTOP to oneself): the lab wants
        /// to kill the process just there. There is nothing to stop at after the last step, and an external lock may ignore it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        halt_after: Option<u32>,
    },
    /// Use the protected number once, under this hold. Answered by [`Reply::Stepped`]: with that the subject *does* it, and the
    /// lab carries it out on the number it keeps, the moment it reads the answer.
    Step {
        /// The number of this request.
        op: u64,
        /// Under which hold.
        hold: u64,
        /// What to do.
        action: Action,
    },
    /// Give the lock back. Answered by [`Reply::Released`] or [`Reply::Error`].
    Release {
        /// The number of this request.
        op: u64,
        /// Which hold.
        hold: u64,
        /// Say [`Reply::Reached`] and stop, as in acquiring, after so many of the lock's own steps of releasing. The lab continues
        /// the process later.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        halt_after: Option<u32>,
    },
    /// No more requests will come.
    Shutdown,
}

/// What a subject answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// It is ready.
    InitOk {
        /// What its lock promises; an external lock that promises nothing is judged as a plain lock.
        #[serde(default)]
        claims: Claims,
    },
    /// The lock is held.
    Acquired {
        /// Of which request.
        op: u64,
        /// What the subject calls this hold: unique in its process.
        hold: u64,
        /// The fence, `epoch.seq` or a plain number, if the lock has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fence: Option<String>,
        /// How long the subject may believe in it, if it knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        valid_ms: Option<f64>,
        /// Whether it found the lock taken at its first try.
        #[serde(default)]
        contended: bool,
    },
    /// The lock did not become free in time.
    Refused {
        /// Of which request.
        op: u64,
    },
    /// It takes the step now.
    Stepped {
        /// Of which request.
        op: u64,
        /// Under this fence; left out, it is the one of the grant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fence: Option<String>,
    },
    /// It will not take the step: it knows that its lock is lost.
    Declined {
        /// Of which request.
        op: u64,
    },
    /// The lock was given back, or had been lost before.
    Released {
        /// Of which request.
        op: u64,
        /// What the lock said.
        outcome: ReleaseWord,
    },
    /// The lock is lost. May come at any time.
    Lost {
        /// Which hold.
        hold: u64,
    },
    /// It stops here, as it was told in [`Request::Acquire`] or [`Request::Release`].
    Reached {
        /// Of which request.
        op: u64,
        /// After which step of acquiring or releasing.
        step: u32,
        /// Of how many.
        of: u32,
        /// What the step did.
        what: String,
    },
    /// The purchase has an outcome.
    Purchased {
        /// Of which request.
        op: u64,
        /// What came of it.
        #[serde(flatten)]
        purchase: Purchase,
    },
    /// It failed.
    Error {
        /// Of which request; none for `init`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<u64>,
        /// Whether it is certain that nothing was bought. When in doubt, it is not.
        definite: bool,
        /// What went wrong.
        message: String,
    },
}

impl Reply {
    /// The request it answers, if it names one.
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

/// What the locks of a run protect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The stock in the store: the subject will be asked to buy.
    #[default]
    Stock,
    /// A number that the lab keeps: the subject will be asked for holds and steps.
    Number,
}

/// What is done to the protected number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Read it.
    Read,
    /// Write what was read, plus one.
    Write,
}

/// What a lock says about a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseWord {
    /// It was held, and is not any more.
    Released,
    /// It had been lost before.
    AlreadyLost,
    /// The lock does not say, or cannot tell.
    Unknown,
}

/// How to go on when the lock is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// How long to pause between tries.
    #[serde(flatten)]
    pub pauses: Pauses,
    /// So many tries after the first, then the answer is [`Outcome::Busy`].
    pub max_retries: u32,
    /// So long in all, then the answer is [`Outcome::Busy`].
    pub budget_ms: u64,
    /// For choices by chance.
    pub seed: u64,
}

/// Ways of waiting for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "pauses", rename_all = "snake_case")]
pub enum Pauses {
    /// The same pause each time.
    Fixed {
        /// This.
        pause_ms: u64,
    },
    /// Doubling pauses.
    Exponential {
        /// The first.
        base_ms: u64,
        /// The longest.
        cap_ms: u64,
    },
    /// Pauses chosen by chance between zero and what doubling ones would be.
    FullJitter {
        /// The longest first one.
        base_ms: u64,
        /// The longest of all.
        cap_ms: u64,
    },
    /// No pauses: one request that waits in the lock's own line.
    Line,
}

/// What a purchase cost the one who made it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Tries after the first.
    pub retries: u32,
    /// Requests to take the lock or to give it back.
    pub lock_ops: u32,
    /// When the lock was held, as far as the subject can tell: from and to, in milliseconds *before* the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ms_ago: Option<(f64, f64)>,
}

/// What came of a purchase, by the word of the subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Purchase {
    /// Sold or not.
    pub outcome: Outcome,
    /// The stock it read, if it got that far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// The stock it wrote, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// Whether it found the lock taken at its first try.
    #[serde(default)]
    pub contended: bool,
    /// How long it waited for the lock.
    #[serde(default)]
    pub waited_ms: f64,
    /// The fence of the lock it held, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<String>,
    /// What it cost, where the request said how to retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
}

/// The outcomes of a purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// An order exists.
    Sold,
    /// Too little is left.
    NoStock,
    /// The lock was taken.
    Busy,
    /// The subject cannot tell.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_needs_to_say_only_what_happened() {
        let reply: Reply =
            serde_json::from_str(r#"{"type":"purchased","op":4,"outcome":"sold"}"#).unwrap();
        let Reply::Purchased { op: 4, purchase } = reply else {
            panic!("{reply:?}")
        };
        assert_eq!((purchase.outcome, purchase.before), (Outcome::Sold, None));
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
