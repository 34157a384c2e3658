//! The scenarios of lock trials, each defined by what happens to the holder or to the store.

use fencepost::stores::StoreKind;
use fencepost::stores::kinds::{ETCD, REDIS, REDLOCK};
use fencepost_rig::{ClockShim, PidSpace};

use super::Trial;
use crate::protocol::Resource;
use crate::store::{ServerFault, StoreFacts, TrialStore};

mod description;

use description::{AtStore, Clocks, Description};

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
    DeadlockSorted,
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
    /// The server dies, and comes back without its data and with a clock that is behind.
    RestartBehind,
    /// The server's clock jumps forward, beyond the lease.
    ServerClock,
    /// The server's clock jumps back, and the holder dies.
    ClockBack,
    /// The server is short of memory and evicts the lock.
    Eviction,
    /// The store loses the lock while its holder works: the lab takes it away there.
    TakenAway,
    /// A copy of the server takes over, and the old primary lives on with the holder connected to it.
    Deposed,
    /// The server is stopped while the lock is held: for less than a lease, and for more.
    ServerStall,
    /// Two of three servers are dead for more than a lease while the lock is held.
    MajorityDown,
    /// The leader of three servers dies several times during one hold, each time after the last one is back.
    LeaderDeaths,
    /// The time of day of a process jumps, or runs fast, while the lock is held.
    ClientClock,
    /// The holder's machine is suspended beyond its lease, and then the holder writes.
    Suspend,
    /// The holder releases the lock just when another process is about to wait for it.
    LostWakeup,
    /// Processes hold several locks at once, whose names are similar.
    Names,
    /// A few processes take turns at one lock, some hundred times, and are started again in between.
    Turns,
    /// Several processes wait, the holder is killed, and so is whoever takes over.
    Waiters,
    /// A process gives up waiting, and another waits for longer than most of a lease.
    Deadline,
    /// Several processes wait, each of which asked well after the one before it.
    Order,
    /// The holder asks for the lock again, and releases it three times while others wait.
    Reentry,
    /// The holder is killed, and started again with the same process id.
    SamePid,
    /// The holder is cut off from the store beyond its lease, and writes meanwhile.
    Cut,
    /// The holder's requests reach the store, and no reply reaches the holder, beyond its lease.
    CutReplies,
    /// No request of the holder reaches the store, and what the store sends reaches the holder, beyond its lease.
    CutRequests,
    /// The holder learns of its grant late, because the store's replies are slow.
    SlowReplies,
    /// The store's replies to a request for the lock are lost, one after the other.
    LostReply,
    /// The store's replies to releases of the holder are lost, some of them when another process has the lock.
    LostRelease,
    /// The reply to a renewal is lost, and another renewal meets an error.
    FailedRenewal,
    /// The store answers requests, releases and renewals of the holder with errors.
    StoreErrors,
    /// A process holds very many locks while every message between it and its store is slow.
    ManyLeases,
    /// The holder's connections die silently, and new ones work.
    DeadConnection,
    /// The holder's machine vanishes from the network, without ending its connections.
    Vanish,
    /// A process is paused beyond its lease at each reply of its store in turn, while it takes the lock, works, and releases it.
    PauseAtStep,
    /// The holder's write arrives at the resource only when its hold is over and another process has written.
    LateWrite,
    /// The holder is paused beyond its lease; another process reads before it writes, and writes after it.
    WriteOnlyFence,
    /// Several processes take turns at several locks while faults hit processes, their network and servers at random instants.
    Storm,
}

impl Scenario {
    /// Every scenario.
    pub const ALL: [Self; 43] = [
        Self::Deadlock,
        Self::DeadlockSorted,
        Self::Crash,
        Self::TtlEdge,
        Self::StaleRelease,
        Self::ShortStock,
        Self::Pause,
        Self::Failover,
        Self::RestartEmpty,
        Self::RestartBehind,
        Self::ServerClock,
        Self::ClockBack,
        Self::Eviction,
        Self::TakenAway,
        Self::Deposed,
        Self::ServerStall,
        Self::MajorityDown,
        Self::LeaderDeaths,
        Self::ClientClock,
        Self::Suspend,
        Self::LostWakeup,
        Self::Names,
        Self::Turns,
        Self::Waiters,
        Self::Deadline,
        Self::Order,
        Self::Reentry,
        Self::SamePid,
        Self::Cut,
        Self::CutReplies,
        Self::CutRequests,
        Self::SlowReplies,
        Self::LostReply,
        Self::LostRelease,
        Self::StoreErrors,
        Self::PauseAtStep,
        Self::FailedRenewal,
        Self::ManyLeases,
        Self::DeadConnection,
        Self::Vanish,
        Self::LateWrite,
        Self::WriteOnlyFence,
        Self::Storm,
    ];

    fn description(self) -> Description {
        Description::of(self)
    }

    /// Returns its name in histories.
    pub fn name(self) -> &'static str {
        self.description().name
    }

    /// Returns the arguments of `fencepost` that run it.
    pub fn command(self) -> &'static str {
        self.description().command
    }

    /// Returns the scenario with this name in histories.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|scenario| scenario.name() == name)
    }

    /// Returns the default TTL.
    pub fn ttl_ms(self) -> u64 {
        self.description().ttl_ms
    }

    /// Returns the default TTL on this store. Some stores do not support leases as short as the general default.
    pub fn ttl_ms_at(self, store: &TrialStore) -> u64 {
        self.ttl_ms().max(store.shortest_ttl_ms())
    }

    /// Returns whether the lab makes servers fail. Such a trial uses servers of its own.
    pub fn fails_servers(self) -> bool {
        matches!(self.description().at_store, AtStore::Fails(_))
    }

    /// Returns whether the lab sets clocks, for which it compiles a small library.
    pub fn sets_clocks(self) -> bool {
        self.description().clocks != Clocks::Real
    }

    /// Returns whether the clocks of the processes are set.
    pub fn sets_clients_clocks(self) -> bool {
        self.description().clocks == Clocks::OfProcesses
    }

    /// Returns what this machine lacks for it; `None` if it can be run here.
    pub fn lacks(self) -> Option<&'static str> {
        let is_lacking = self.sets_clocks() && !ClockShim::is_available();
        let compiler = is_lacking.then_some(ClockShim::NO_COMPILER);
        if self.chooses_pids() {
            PidSpace::lacks()
        } else {
            compiler
        }
    }

    /// Returns whether the lab chooses the process ids of the processes, for which it makes a PID namespace.
    pub fn chooses_pids(self) -> bool {
        self.description().chooses_pids
    }

    /// Returns whether it needs a lease as long as its default, whatever lease other scenarios have.
    pub fn keeps_its_ttl(self) -> bool {
        self.description().keeps_its_ttl
    }

    /// Returns whether the lab comes between the processes and their store. Such a trial needs a store with a server.
    pub fn comes_between(self) -> bool {
        matches!(self.description().at_store, AtStore::ComesBetween(_))
    }

    /// Returns whether it can be run only on a store with servers.
    pub fn needs_server(self) -> bool {
        !matches!(self.description().at_store, AtStore::Nothing)
    }

    /// Returns whether the lab can make private servers of this kind fail as this scenario needs it, or come between them and the
    /// processes; `None` for scenarios that leave the store alone.
    pub fn server_fault(self, facts: &StoreFacts) -> Option<ServerFault> {
        match self.description().at_store {
            AtStore::Nothing => None,
            AtStore::Fails(fault) => Some(fault(facts)),
            AtStore::ComesBetween(fault) => Some(fault(facts)),
            AtStore::RunsElsewhere => Some(facts.elsewhere()),
        }
    }

    /// Returns whether the servers that the lab makes fail stay at their addresses, with their data.
    pub fn keeps_servers(self) -> bool {
        self.description().keeps_servers
    }

    /// Returns whether the holder is paused, suspended or cut off until its lease is over.
    pub(crate) fn holder_is_away(self) -> bool {
        self.description().holder_is_away
    }

    /// Returns whether several processes are killed, one after the other.
    pub(crate) fn kills_several(self) -> bool {
        self.description().kills_several
    }

    /// Returns whether so much happens that lanes would not help a reader.
    pub(crate) fn is_long(self) -> bool {
        self.description().is_long
    }

    /// Returns whether it matters that a lease is renewed. In other scenarios the holder cannot renew it, and it matters whether the holder
    /// stops by itself.
    pub(crate) fn is_decided_by_renewal(self) -> bool {
        self.description().is_decided_by_renewal
    }

    /// Returns whether it tries only locks that claim to renew their leases.
    pub fn is_about_renewal(self) -> bool {
        self.description().is_about_renewal
    }

    /// Returns roughly how long a run of this trial takes. The trial must be one of this scenario.
    pub(super) fn likely_ms(self, trial: &Trial) -> u64 {
        (self.description().likely_ms)(trial)
    }

    /// Returns the default store.
    pub fn store(self) -> TrialStore {
        match self.description().at_store {
            AtStore::Nothing => TrialStore::default(),
            AtStore::Fails(fault) => {
                let can = |kind: &&StoreKind| fault(StoreFacts::of(kind)) == ServerFault::Available;
                let first = [&REDIS, &REDLOCK, &ETCD].into_iter().find(can);
                TrialStore::private(first.unwrap_or(&REDIS))
            }
            _ => TrialStore::private(&REDIS),
        }
    }

    /// Returns the resource that the locks protect.
    pub fn resource(self) -> Resource {
        self.description().resource
    }

    /// Returns the number of processes that take part by default.
    pub fn processes(self) -> usize {
        self.description().processes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn scenarios_differ_in_name_and_command() {
        let all = Scenario::ALL.into_iter();
        let names: BTreeSet<&str> = all.clone().map(Scenario::name).collect();
        let commands: BTreeSet<&str> = all.map(Scenario::command).collect();
        let number = Scenario::ALL.len();
        assert_eq!((names.len(), commands.len()), (number, number));
    }
}
