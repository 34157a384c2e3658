//! What a task asks for: a name and, for some kinds of lock, more than that.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Claim, LockName, Part};

/// What a task asks for.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) name: LockName,
    part: Part,
    /// Boxed, because almost all tasks want nothing but the name.
    terms: Option<Box<Terms>>,
}

/// What is special about a claim. Only an engine without hand-over can consider it, because tasks that share a line share a claim.
#[derive(Debug, Clone, Default)]
struct Terms {
    value: Option<Arc<str>>,
    ttl: Option<Duration>,
}

impl From<LockName> for Wanted {
    fn from(name: LockName) -> Self {
        Self {
            name,
            part: Part::Whole,
            terms: None,
        }
    }
}

impl Wanted {
    /// Sets how much of the name the task wants.
    pub(crate) fn with_part(self, part: Part) -> Self {
        Self { part, ..self }
    }

    /// Sets the value of a candidate, for a store that keeps it in the same place as the lock.
    pub(crate) fn with_value(self, value: Arc<str>) -> Self {
        let value = Some(value);
        self.with(|terms| terms.value = value)
    }

    /// Sets the length of the lease, if it is not that of the locker.
    pub(crate) fn with_ttl(self, ttl: Duration) -> Self {
        self.with(|terms| terms.ttl = Some(ttl))
    }

    fn with(mut self, set: impl FnOnce(&mut Terms)) -> Self {
        set(self.terms.get_or_insert_default());
        self
    }

    /// Adds to an ordinary claim what is special about this one.
    pub(super) fn claim(&self, claim: Claim) -> Claim {
        let terms = self.terms.as_deref();
        Claim {
            part: self.part,
            value: terms.and_then(|terms| terms.value.clone()),
            ttl: terms.and_then(|terms| terms.ttl).unwrap_or(claim.ttl),
            ..claim
        }
    }
}
