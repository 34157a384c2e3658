//! Whether anybody still listens to the answer of a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the caller still listens to the answers. A request that was not sent by the time it stops must not be sent any more: it could
/// take effect after a later one.
#[derive(Debug, Clone, Default)]
pub(super) struct Listening {
    is_over: Arc<AtomicBool>,
}

impl Listening {
    pub(super) fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
