//! What a lock promises, and how it is made: all that a judge knows of it.

use serde::{Deserialize, Serialize};

/// What a lock promises; it is judged against that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Claims {
    /// Its grants carry fences, and the resource is to check them.
    pub fencing: bool,
    /// It renews its lease while its holder lives.
    pub keep_alive: bool,
    /// Waiters are served in order.
    pub fair: bool,
    /// It has no lease: however long its holder takes, it lasts until it is given back. If it also promises
    /// [`recovery_ms`](Self::recovery_ms), it ends with its holder; else not even then.
    pub untimed: bool,
    /// A dead holder's lock is free within this time; by default its TTL.
    pub recovery_ms: Option<u64>,
    /// Its lease begins only once the protected work is done, not with the grant.
    #[serde(skip_serializing_if = "is_false")]
    pub expires_after_work: bool,
    /// Its release deletes the lock without asking whose it is.
    #[serde(skip_serializing_if = "is_false")]
    pub blind_release: bool,
    /// Its release looks whose the lock is in one step and deletes it in the next.
    #[serde(skip_serializing_if = "is_false")]
    pub looks_before_release: bool,
    /// It looks who is before it in one step and begins to wait for that one in the next.
    #[serde(skip_serializing_if = "is_false")]
    pub looks_before_wait: bool,
}

impl Claims {
    /// A lock that promises no more than exclusion until its TTL.
    pub const PLAIN: Self = Self {
        fencing: false,
        keep_alive: false,
        fair: false,
        untimed: false,
        recovery_ms: None,
        expires_after_work: false,
        blind_release: false,
        looks_before_release: false,
        looks_before_wait: false,
    };

    /// A lock without a lease: it lasts until it is given back, or until its holder's session ends and the database notices.
    pub const OF_SESSION: Self = Self {
        untimed: true,
        recovery_ms: Some(100),
        ..Self::PLAIN
    };

    /// Whether no time frees the lock, but the end of its holder does.
    pub fn ends_with_holder(self) -> bool {
        self.untimed && self.recovery_ms.is_some()
    }

    /// These claims, with how the lock is made taken from what is `known` of it: histories of earlier versions do not say.
    #[must_use]
    pub fn made_like(self, known: Self) -> Self {
        Self {
            fencing: self.fencing,
            keep_alive: self.keep_alive,
            fair: self.fair,
            untimed: self.untimed,
            recovery_ms: self.recovery_ms,
            ..known
        }
    }
}

/// Headers and replies name only what a lock does.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What a strategy promises: it is judged against that, and it decides what counts as a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// Nothing: a control that should fail. That it did not fail shows nothing.
    Nothing,
    /// One holder at a time. Holding counts only when somebody met the lock taken.
    Exclusion,
    /// Exact orders without a lock. Holding counts only when somebody met another buyer between reading and writing.
    Exactness,
}
