//! [`Settings`], which the builder passes on to the store.

use std::time::Duration;

/// The settings of a [`Redis`](super::Redis). Those that go to the server are in the form that the scripts expect.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) max_outage: Duration,
    /// How often the lock is left free for a while, and for how long; all zero for never.
    pub(super) gap_ms: GapMs,
    /// How long the server keeps a name's last epoch after its last use.
    pub(super) keep_fences_ms: u64,
}

/// The times at which a contended lock is left free for clients that poll, in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GapMs {
    /// The time from the beginning of one such gap to that of the next.
    pub(super) every: u64,
    /// How long it lasts.
    pub(super) length: u64,
}
