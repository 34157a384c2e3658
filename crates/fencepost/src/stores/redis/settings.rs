//! The settings of a [`Redis`](super::Redis).

use std::time::Duration;

/// The settings of the builder. Those that go to the server are in the form that the scripts expect.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) connect_timeout: Duration,
    pub(super) max_outage: Duration,
    /// How often the lock is left free for a while, and for how long; all zero for never.
    pub(super) gap_ms: GapMs,
    /// How long the server keeps a name's last epoch after its last use.
    pub(super) keep_fences_ms: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GapMs {
    pub(super) every: u64,
    pub(super) length: u64,
}
