//! The scenarios of lock trials: what happens to the holder, or to the store.

use fencepost::stores::kinds::REDIS;

use crate::store::TrialStore;

/// What happens to the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// It is killed.
    Crash,
    /// It works longer than its lease.
    TtlEdge,
    /// Two take two locks in opposite order.
    Deadlock,
    /// Two take two locks in the same order.
    Sorted,
    /// It is paused beyond its lease, and then gives the lock back.
    StaleRelease,
    /// It finds nothing to sell.
    ShortStock,
    /// The primary dies before its replica has the lock, and the replica takes over.
    Failover,
    /// The server dies and comes back without its data.
    RestartEmpty,
    /// It gives the lock back just when another is about to wait for it.
    LostWakeup,
}

impl Scenario {
    /// Every scenario.
    pub const ALL: [Self; 9] = [
        Self::Deadlock,
        Self::Sorted,
        Self::Crash,
        Self::TtlEdge,
        Self::StaleRelease,
        Self::ShortStock,
        Self::Failover,
        Self::RestartEmpty,
        Self::LostWakeup,
    ];

    /// Its name in histories.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::TtlEdge => "ttl-edge",
            Self::Deadlock => "deadlock",
            Self::Sorted => "deadlock-sorted",
            Self::StaleRelease => "stale-release",
            Self::ShortStock => "short-stock",
            Self::Failover => "failover",
            Self::RestartEmpty => "restart-empty",
            Self::LostWakeup => "lost-wakeup",
        }
    }

    /// The words that run it, after `fencepost`.
    pub fn command(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::TtlEdge => "crash --ttl-edge",
            Self::Deadlock => "deadlock",
            Self::Sorted => "deadlock --mitigate",
            Self::StaleRelease => "trial stale-release",
            Self::ShortStock => "trial short-stock",
            Self::Failover => "trial failover",
            Self::RestartEmpty => "trial restart-empty",
            Self::LostWakeup => "trial lost-wakeup",
        }
    }

    /// The scenario that a history names.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|scenario| scenario.name() == name)
    }

    /// How long a lock lasts, by default.
    pub fn ttl_ms(self) -> u64 {
        match self {
            Self::Crash | Self::TtlEdge => 2_000,
            Self::Deadlock | Self::Sorted => 3_000,
            Self::StaleRelease | Self::ShortStock | Self::LostWakeup => 500,
            // Nobody waits for it to end: what is shown happens within it.
            Self::Failover | Self::RestartEmpty => 10_000,
        }
    }

    /// The default on this store: some stores cannot have leases as short.
    pub fn ttl_ms_at(self, store: &TrialStore) -> u64 {
        self.ttl_ms().max(store.shortest_ttl_ms())
    }

    /// Whether the lab makes servers fail: then they are its own, started for this one trial.
    pub fn fails_servers(self) -> bool {
        matches!(self, Self::Failover | Self::RestartEmpty)
    }

    /// The store unless another one is given.
    pub fn store(self) -> TrialStore {
        if self.fails_servers() {
            TrialStore::private(&REDIS)
        } else {
            TrialStore::default()
        }
    }

    /// How many processes take part.
    pub fn processes(self) -> usize {
        match self {
            Self::StaleRelease => 3,
            _ => 2,
        }
    }
}
