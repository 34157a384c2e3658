//! What the lab and a subject say to each other: one JSON object per line, told apart by its `type`.
//!
//! The lab asks on the subject's standard input, the subject answers on its standard output and must flush each line.
//! A subject ends when it is told to [shut down](Request::Shutdown) or when its input is closed.

use serde::{Deserialize, Serialize};

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
    },
    /// No more requests will come.
    Shutdown,
}

/// What a subject answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// It is ready.
    InitOk,
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
}

/// The outcomes of a purchase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// An order exists.
    Sold,
    /// Too little is left.
    NoStock,
    /// The lock was not to be had.
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
        };
        assert_eq!(
            serde_json::to_string(&request).unwrap(),
            r#"{"type":"purchase","op":1,"product":"product_A","quantity":1,"wait_ms":0,"delay_us":5000}"#
        );
    }
}
