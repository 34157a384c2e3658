//! The scenarios of lock trials, each defined by what happens to the holder or to the store.

use fencepost::stores::kinds::REDIS;

use super::storm;
use crate::protocol::Resource;
use crate::store::{ServerFault, StoreFacts, TrialStore};

/// What happens to the holder or to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// The holder is killed.
    Crash,
    /// The holder works longer than its lease.
    TtlEdge,
    /// Two processes take two locks in opposite order.
    Deadlock,
    /// Two processes take two locks in the same order.
    Sorted,
    /// The holder is paused beyond its lease, and then releases the lock.
    StaleRelease,
    /// The holder finds nothing to sell.
    ShortStock,
    /// The holder is paused beyond its lease, and then writes.
    Pause,
    /// The primary dies before its replica has the lock, and the replica takes over.
    Failover,
    /// The server dies and comes back without its data.
    RestartEmpty,
    /// The holder releases the lock just when another process is about to wait for it.
    LostWakeup,
    /// The holder is cut off from the store beyond its lease, and writes meanwhile.
    Cut,
    /// The holder learns of its grant late, because the store's replies are slow.
    SlowReplies,
    /// The store's replies to a request for the lock are lost, one after the other.
    LostReply,
    /// Several processes take turns at several locks while processes are killed, started again and paused at random instants.
    Storm,
}

impl Scenario {
    /// Every scenario.
    pub const ALL: [Self; 14] = [
        Self::Deadlock,
        Self::Sorted,
        Self::Crash,
        Self::TtlEdge,
        Self::StaleRelease,
        Self::ShortStock,
        Self::Pause,
        Self::Failover,
        Self::RestartEmpty,
        Self::LostWakeup,
        Self::Cut,
        Self::SlowReplies,
        Self::LostReply,
        Self::Storm,
    ];

    /// Returns its name in histories.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::TtlEdge => "ttl-edge",
            Self::Deadlock => "deadlock",
            Self::Sorted => "deadlock-sorted",
            Self::StaleRelease => "stale-release",
            Self::ShortStock => "short-stock",
            Self::Pause => "pause",
            Self::Failover => "failover",
            Self::RestartEmpty => "restart-empty",
            Self::LostWakeup => "lost-wakeup",
            Self::Cut => "cut",
            Self::SlowReplies => "slow-replies",
            Self::LostReply => "lost-reply",
            Self::Storm => "storm",
        }
    }

    /// Returns the arguments of `fencepost` that run it.
    pub fn command(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::TtlEdge => "crash --ttl-edge",
            Self::Deadlock => "deadlock",
            Self::Sorted => "deadlock --mitigate",
            Self::StaleRelease => "trial stale-release",
            Self::ShortStock => "trial short-stock",
            Self::Pause => "trial pause",
            Self::Failover => "trial failover",
            Self::RestartEmpty => "trial restart-empty",
            Self::LostWakeup => "trial lost-wakeup",
            Self::Cut => "trial cut",
            Self::SlowReplies => "trial slow-replies",
            Self::LostReply => "trial lost-reply",
            Self::Storm => "trial storm",
        }
    }

    /// Returns the scenario with this name in histories.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|scenario| scenario.name() == name)
    }

    /// Returns the default TTL.
    pub fn ttl_ms(self) -> u64 {
        match self {
            Self::Crash | Self::TtlEdge => 2_000,
            Self::Deadlock | Self::Sorted => 3_000,
            Self::StaleRelease
            | Self::ShortStock
            | Self::Pause
            | Self::LostWakeup
            | Self::Cut
            | Self::SlowReplies
            | Self::LostReply
            | Self::Storm => 500,
            // Nobody waits for the lease to end; everything happens within it.
            Self::Failover | Self::RestartEmpty => 10_000,
        }
    }

    /// Returns the default TTL on this store. Some stores do not support leases as short as the general default.
    pub fn ttl_ms_at(self, store: &TrialStore) -> u64 {
        self.ttl_ms().max(store.shortest_ttl_ms())
    }

    /// Returns whether the lab makes servers fail. Such a trial uses servers of its own.
    pub fn fails_servers(self) -> bool {
        matches!(self, Self::Failover | Self::RestartEmpty)
    }

    /// Returns whether the lab comes between the processes and their store. Such a trial needs a store with a server.
    pub fn comes_between(self) -> bool {
        matches!(self, Self::Cut | Self::SlowReplies | Self::LostReply)
    }

    /// Returns whether it can be run only on a store with servers.
    pub fn needs_server(self) -> bool {
        self.fails_servers() || self.comes_between()
    }

    /// Returns whether the lab can make private servers of this kind fail as this scenario needs it, or come between them and the
    /// processes; `None` for scenarios that leave the store alone.
    pub fn server_fault(self, facts: &StoreFacts) -> Option<ServerFault> {
        match self {
            Self::Failover => Some(facts.failover),
            Self::RestartEmpty => Some(facts.restart_empty),
            _ if self.comes_between() => Some(facts.connection),
            _ => None,
        }
    }

    /// Returns the default store.
    pub fn store(self) -> TrialStore {
        if self.needs_server() {
            TrialStore::private(&REDIS)
        } else {
            TrialStore::default()
        }
    }

    /// Returns the resource that the locks protect.
    pub fn resource(self) -> Resource {
        match self {
            Self::ShortStock => Resource::Stock,
            _ => Resource::Register,
        }
    }

    /// Returns the number of processes that take part by default.
    pub fn processes(self) -> usize {
        match self {
            Self::StaleRelease => 3,
            Self::Storm => storm::DEFAULT.processes,
            _ => 2,
        }
    }
}
