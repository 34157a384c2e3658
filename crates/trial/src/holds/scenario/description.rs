//! What the lab must know of each scenario before it runs it, in one place.

use super::Scenario;
use crate::holds::{Trial, storm, turns};
use crate::protocol::Resource;
use crate::store::{ServerFault, StoreFacts};

/// The facts of one scenario.
#[derive(Debug, Clone, Copy)]
pub(super) struct Description {
    /// Its name in histories.
    pub(super) name: &'static str,
    /// The arguments of `fencepost` that run it.
    pub(super) command: &'static str,
    /// The default TTL.
    pub(super) ttl_ms: u64,
    /// It needs a lease as long as its default, whatever lease other scenarios have.
    pub(super) keeps_its_ttl: bool,
    /// How many processes take part by default.
    pub(super) processes: usize,
    /// The resource that the locks protect.
    pub(super) resource: Resource,
    /// What the lab does to the store.
    pub(super) at_store: AtStore,
    /// The servers that the lab makes fail stay at their addresses, with their data.
    pub(super) keeps_servers: bool,
    /// The lab chooses the process ids of the processes.
    pub(super) chooses_pids: bool,
    /// Whose clocks the lab sets.
    pub(super) clocks: Clocks,
    /// The holder is paused, suspended or cut off until its lease is over, so that it cannot learn of the end in time.
    pub(super) holder_is_away: bool,
    /// Several processes are killed, one after the other.
    pub(super) kills_several: bool,
    /// So much happens that lanes would not help a reader.
    pub(super) is_long: bool,
    /// It matters that a lease is renewed. Where this is false, the holder cannot renew it, and it matters whether the holder stops by
    /// itself.
    pub(super) is_decided_by_renewal: bool,
    /// It tries only locks that claim to renew their leases: of the others it shows nothing.
    pub(super) is_about_renewal: bool,
    /// Returns roughly how long a run takes, in milliseconds.
    pub(super) likely_ms: fn(&Trial) -> u64,
}

/// What the lab does to the store in a scenario.
#[derive(Debug, Clone, Copy)]
pub(super) enum AtStore {
    /// Nothing. The store need not have a server.
    Nothing,
    /// The lab makes servers fail, and uses servers of its own. The function returns whether it can do so with those of a store.
    Fails(fn(&StoreFacts) -> ServerFault),
    /// The lab comes between the processes and the server of their store. The function returns whether it can do what the scenario needs
    /// there.
    ComesBetween(fn(&StoreFacts) -> ServerFault),
    /// The machine of the holder is suspended, and neither that of the others nor that of the store.
    RunsElsewhere,
}

/// The lab comes between, and needs to understand nothing of what passes.
const BETWEEN: AtStore = AtStore::ComesBetween(|facts| facts.connection);

/// Whose clocks the lab sets in a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clocks {
    /// Nobody's.
    Real,
    /// Those of the servers.
    OfServers,
    /// Those of the processes.
    OfProcesses,
}

/// Returns a scenario of two processes, a short lease and one number, that leaves the store alone.
const fn usual(name: &'static str, command: &'static str) -> Description {
    Description {
        name,
        command,
        ttl_ms: 500,
        keeps_its_ttl: false,
        processes: 2,
        resource: Resource::Register,
        at_store: AtStore::Nothing,
        keeps_servers: false,
        chooses_pids: false,
        clocks: Clocks::Real,
        holder_is_away: false,
        kills_several: false,
        is_long: false,
        is_decided_by_renewal: true,
        is_about_renewal: false,
        likely_ms: |trial| 300 + 2 * trial.ttl_ms,
    }
}

/// Returns a scenario in which the lab makes servers fail. Nobody waits for the lease to end; everything happens within it.
const fn failing(
    name: &'static str,
    command: &'static str,
    fault: fn(&StoreFacts) -> ServerFault,
) -> Description {
    Description {
        ttl_ms: 10_000,
        keeps_its_ttl: true,
        at_store: AtStore::Fails(fault),
        is_decided_by_renewal: false,
        likely_ms: |trial| 800 + trial.ttl_ms / 10,
        ..usual(name, command)
    }
}

impl Description {
    /// Returns the facts of this scenario.
    pub(super) const fn of(scenario: Scenario) -> Self {
        match scenario {
            Scenario::Crash => Self {
                // A delay of a lease must be longer than what a busy machine explains.
                ttl_ms: 2_000,
                likely_ms: |trial| {
                    let renewed = trial.strategy.claims.keep_alive;
                    300 + trial.ttl_ms * if renewed { 5 } else { 3 }
                },
                ..usual("crash", "crash")
            },
            Scenario::TtlEdge => Self {
                ttl_ms: 2_000,
                likely_ms: |trial| 300 + trial.work_ms,
                ..usual("ttl-edge", "crash --ttl-edge")
            },
            Scenario::Deadlock => Self {
                ttl_ms: 3_000,
                likely_ms: |trial| 300 + 3 * trial.ttl_ms,
                ..usual("deadlock", "deadlock")
            },
            Scenario::DeadlockSorted => Self {
                ttl_ms: 3_000,
                likely_ms: |_| 400,
                ..usual("deadlock-sorted", "deadlock --sorted")
            },
            Scenario::StaleRelease => Self {
                processes: 3,
                holder_is_away: true,
                ..usual("stale-release", "trial stale-release")
            },
            Scenario::ShortStock => Self {
                resource: Resource::Stock,
                ..usual("short-stock", "trial short-stock")
            },
            Scenario::Pause => Self {
                holder_is_away: true,
                is_decided_by_renewal: false,
                ..usual("pause", "trial pause")
            },
            Scenario::Failover => failing("failover", "trial failover", |facts| facts.failover),
            Scenario::RestartEmpty => failing("restart-empty", "trial restart-empty", |facts| {
                facts.restart_empty
            }),
            Scenario::RestartBehind => Self {
                clocks: Clocks::OfServers,
                ..failing("restart-behind", "trial restart-behind", |facts| {
                    facts.server_clock
                })
            },
            Scenario::ServerClock => Self {
                clocks: Clocks::OfServers,
                likely_ms: |_| 800,
                ..failing("server-clock", "trial server-clock", |facts| {
                    facts.server_clock
                })
            },
            Scenario::ClockBack => Self {
                // The clock must be set while the lease runs.
                ttl_ms: 1_000,
                clocks: Clocks::OfServers,
                likely_ms: |trial| 800 + 3 * trial.ttl_ms,
                ..failing("clock-back", "trial clock-back", |facts| facts.server_clock)
            },
            Scenario::Eviction => Self {
                likely_ms: |_| 800,
                ..failing("eviction", "trial eviction", |facts| facts.eviction)
            },
            Scenario::TakenAway => Self {
                // Whoever claims to tell a loss does so within a TTL, and the lab waits for it.
                ttl_ms: 2_000,
                likely_ms: |trial| 800 + 3 * trial.ttl_ms,
                ..failing("taken-away", "trial taken-away", |facts| facts.taken_away)
            },
            Scenario::Deposed => Self {
                // The holder of an old primary learns of it within a TTL, and the lab waits for it.
                ttl_ms: 2_000,
                is_decided_by_renewal: true,
                likely_ms: |trial| 1_500 + 3 * trial.ttl_ms,
                ..failing("deposed", "trial deposed", |facts| facts.deposed)
            },
            Scenario::ServerStall => Self {
                // Enough of the lease must be left after a short stop: more than a busy machine explains.
                ttl_ms: 3_000,
                processes: 4,
                keeps_servers: true,
                is_long: true,
                is_decided_by_renewal: true,
                likely_ms: |trial| 800 + 4 * trial.ttl_ms,
                ..failing("server-stall", "trial server-stall", |facts| facts.stop)
            },
            Scenario::MajorityDown => Self {
                // The lease must end while the servers are dead.
                ttl_ms: 2_000,
                processes: 4,
                keeps_servers: true,
                is_long: true,
                likely_ms: |trial| 4_000 + 3 * trial.ttl_ms,
                ..failing("majority-down", "trial majority-down", |facts| {
                    facts.majority_down
                })
            },
            Scenario::LeaderDeaths => Self {
                // A lease must outlast three elections, on a busy machine too.
                ttl_ms: 8_000,
                processes: 3,
                keeps_servers: true,
                is_long: true,
                is_decided_by_renewal: true,
                likely_ms: |trial| 5_000 + 3 * trial.ttl_ms / 2,
                ..failing("leader-deaths", "trial leader-deaths", |facts| {
                    facts.leader_deaths
                })
            },
            Scenario::ClientClock => Self {
                // The clock must be set while the lease runs.
                ttl_ms: 1_000,
                clocks: Clocks::OfProcesses,
                likely_ms: |trial| 600 + 3 * trial.ttl_ms,
                ..usual("client-clock", "trial client-clock")
            },
            Scenario::Suspend => Self {
                at_store: AtStore::RunsElsewhere,
                clocks: Clocks::OfProcesses,
                holder_is_away: true,
                is_decided_by_renewal: false,
                ..usual("suspend", "trial suspend")
            },
            Scenario::LostWakeup => Self {
                likely_ms: |_| 200,
                ..usual("lost-wakeup", "trial lost-wakeup")
            },
            Scenario::Names => Self {
                is_long: true,
                likely_ms: |trial| 1_000 + 6 * trial.ttl_ms,
                ..usual("names", "trial names")
            },
            Scenario::Turns => Self {
                processes: turns::PROCESSES,
                is_long: true,
                likely_ms: |_| 6_000,
                ..usual("turns", "trial turns")
            },
            Scenario::Waiters => Self {
                processes: 6,
                kills_several: true,
                is_long: true,
                likely_ms: |trial| 800 + 3 * trial.ttl_ms,
                ..usual("waiters", "trial waiters")
            },
            Scenario::Deadline => Self {
                // As in a crash.
                ttl_ms: 2_000,
                keeps_its_ttl: true,
                processes: 3,
                likely_ms: |trial| 1_500 + 2 * trial.ttl_ms,
                ..usual("deadline", "trial deadline")
            },
            Scenario::Order => Self {
                // Three processes ask, one well after the other, within a lease.
                ttl_ms: 6_000,
                keeps_its_ttl: true,
                processes: 4,
                is_long: true,
                likely_ms: |trial| {
                    if trial.strategy.claims.fair {
                        7_500
                    } else {
                        300
                    }
                },
                ..usual("order", "trial order")
            },
            Scenario::Reentry => Self {
                // As in a deadline: everything happens within a lease.
                ttl_ms: 2_000,
                keeps_its_ttl: true,
                processes: 3,
                likely_ms: |_| 500,
                ..usual("reentry", "trial reentry")
            },
            Scenario::SamePid => Self {
                // The process must be back within the lease, also one that is slow to start.
                ttl_ms: 2_000,
                keeps_its_ttl: true,
                processes: 3,
                chooses_pids: true,
                is_long: true,
                likely_ms: |trial| 500 + 2 * trial.ttl_ms,
                ..usual("same-pid", "trial same-pid")
            },
            Scenario::Cut => Self {
                at_store: BETWEEN,
                holder_is_away: true,
                is_decided_by_renewal: false,
                ..usual("cut", "trial cut")
            },
            Scenario::CutReplies => Self {
                at_store: BETWEEN,
                holder_is_away: true,
                is_decided_by_renewal: false,
                ..usual("cut-replies", "trial cut-replies")
            },
            Scenario::CutRequests => Self {
                at_store: BETWEEN,
                holder_is_away: true,
                is_decided_by_renewal: false,
                ..usual("cut-requests", "trial cut-requests")
            },
            Scenario::SlowReplies => Self {
                at_store: BETWEEN,
                holder_is_away: true,
                is_decided_by_renewal: false,
                ..usual("slow-replies", "trial slow-replies")
            },
            Scenario::LostReply => Self {
                at_store: BETWEEN,
                likely_ms: |trial| 500 + 2 * trial.ttl_ms,
                ..usual("lost-reply", "trial lost-reply")
            },
            Scenario::LostRelease => Self {
                // As for errors of the store; and B must have the lock before A gives up waiting for a reply.
                ttl_ms: 2_000,
                keeps_its_ttl: true,
                processes: 3,
                at_store: BETWEEN,
                is_long: true,
                likely_ms: |trial| 1_000 + 2 * trial.ttl_ms,
                ..usual("lost-release", "trial lost-release")
            },
            Scenario::FailedRenewal => Self {
                // A lock has this long to renew again, on a busy machine too.
                ttl_ms: 2_000,
                keeps_its_ttl: true,
                at_store: BETWEEN,
                is_long: true,
                is_about_renewal: true,
                likely_ms: |trial| 500 + 5 * trial.ttl_ms,
                ..usual("failed-renewal", "trial failed-renewal")
            },
            Scenario::StoreErrors => Self {
                // A lock that was not released must be seen to be taken for long: longer than a busy machine explains.
                ttl_ms: 1_500,
                keeps_its_ttl: true,
                at_store: AtStore::ComesBetween(|facts| facts.errors),
                is_long: true,
                likely_ms: |trial| 2_000 + 4 * trial.ttl_ms,
                ..usual("store-errors", "trial store-errors")
            },
            Scenario::PauseAtStep => Self {
                processes: 3,
                at_store: BETWEEN,
                holder_is_away: true,
                is_decided_by_renewal: false,
                likely_ms: |trial| 500 + 8 * trial.ttl_ms,
                ..usual("pause-at-step", "trial pause-at-step")
            },
            Scenario::ManyLeases => Self {
                // A lock has this long for a round trip, many times over, on a busy machine too.
                ttl_ms: 2_000,
                keeps_its_ttl: true,
                at_store: BETWEEN,
                is_long: true,
                is_about_renewal: true,
                likely_ms: |trial| 1_500 + 5 * trial.ttl_ms / 2,
                ..usual("many-leases", "trial many-leases")
            },
            Scenario::DeadConnection => Self {
                // A lock has this long to notice that nobody answers, and to connect again.
                ttl_ms: 2_000,
                keeps_its_ttl: true,
                at_store: BETWEEN,
                is_about_renewal: true,
                likely_ms: |trial| 500 + 4 * trial.ttl_ms,
                ..usual("dead-connection", "trial dead-connection")
            },
            Scenario::Vanish => Self {
                // As in a crash.
                ttl_ms: 2_000,
                at_store: BETWEEN,
                likely_ms: |trial| 300 + 3 * trial.ttl_ms,
                ..usual("vanish", "trial vanish")
            },
            Scenario::LateWrite => usual("late-write", "trial late-write"),
            Scenario::WriteOnlyFence => Self {
                holder_is_away: true,
                is_decided_by_renewal: false,
                ..usual("write-only-fence", "trial write-only-fence")
            },
            Scenario::Storm => Self {
                processes: storm::DEFAULT.processes,
                kills_several: true,
                is_long: true,
                likely_ms: |trial| {
                    trial.storm.map_or(0, |storm| storm.for_ms) + 300 + 3 * trial.ttl_ms
                },
                ..usual("storm", "trial storm")
            },
        }
    }
}
