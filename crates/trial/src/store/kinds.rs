//! What the lab knows about each kind of store: one row per kind, and one for kinds that the lab does not know more about.

use fencepost::stores::StoreKind;
use fencepost::stores::kinds::{ETCD, POSTGRES, POSTGRES_TABLE, REDIS, REDLOCK, SQLITE, ZOOKEEPER};

/// What the lab knows about a kind of store.
#[derive(Debug)]
pub struct StoreFacts {
    /// Where a trial keeps its data there.
    pub(crate) data: Data,
    /// What titles say about the file, or about private servers.
    pub(crate) private_gloss: &'static str,
    /// The shortest TTL that can be judged there.
    pub(crate) shortest_ttl: ShortestTtl,
    /// Whether a private server can die while another one takes over.
    pub failover: ServerFault,
    /// Whether a private server can die and come back without its data.
    pub restart_empty: ServerFault,
    /// Whether the clock of a private server can be set.
    pub server_clock: ServerFault,
    /// Whether a private server evicts data when it is short of memory.
    pub eviction: ServerFault,
    /// Whether the lab can take a lock away at a private server.
    pub taken_away: ServerFault,
    /// Whether a copy of a private server can take over while the server lives on.
    pub deposed: ServerFault,
    /// Whether a private server can be stopped for a while.
    pub stop: ServerFault,
    /// Whether two of three private servers can die and come back with their data.
    pub majority_down: ServerFault,
    /// Whether the leader of private servers can die, several times.
    pub leader_deaths: ServerFault,
    /// Whether the lab can come between the processes and the servers, also those of the user.
    pub connection: ServerFault,
    /// Whether the lab can answer with an error in place of a server.
    pub errors: ServerFault,
}

/// Where a trial keeps its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    /// In a file.
    File,
    /// In a key space of a Redis server.
    Redis,
    /// In a schema of a Postgres database.
    Postgres,
    /// The locks on the servers, and the stock in a file.
    LocksOnly,
}

/// The shortest TTL that can be judged: the servers determine how soon the lock of a dead process is free.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShortestTtl {
    /// On private servers, which the lab configures.
    pub(crate) private_ms: u64,
    /// On servers that the user runs.
    pub(crate) yours_ms: u64,
    /// Why it is not shorter.
    pub(crate) reason: &'static str,
}

/// Whether the lab can make private servers fail in a certain way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerFault {
    /// It can.
    Available,
    /// It cannot, for this reason.
    Unavailable(&'static str),
}

/// No limit: the store ends a lease to the millisecond.
const ANY_TTL: ShortestTtl = ShortestTtl {
    private_ms: 0,
    yours_ms: 0,
    reason: "",
};

const NO_SERVER: ServerFault = ServerFault::Unavailable("a file has no server that could fail");
const NO_CONNECTION: ServerFault =
    ServerFault::Unavailable("no server: a file is not reached through a connection");

/// The lab words errors in RESP only.
const NO_ERRORS: ServerFault =
    ServerFault::Unavailable("so far the lab answers only in place of a Redis server");
const ONE_MACHINE: ServerFault =
    ServerFault::Unavailable("whoever shares a file is suspended together");
const ONE_SERVER: ServerFault = ServerFault::Unavailable("one server is no majority");
const NO_LEADER: ServerFault = ServerFault::Unavailable("no server is elected to lead");
const NO_CONFIRMATION: ServerFault =
    ServerFault::Unavailable("without a majority, a leader that was replaced answers nobody");
const NO_EVICTION: ServerFault =
    ServerFault::Unavailable("this store evicts nothing when it is short of memory");

/// The row of a kind that the library has and that is not listed below: it keeps locks, and nothing more is known.
static OTHER: StoreFacts = StoreFacts {
    data: Data::LocksOnly,
    private_gloss: "a private server",
    shortest_ttl: ANY_TTL,
    failover: NOT_YET,
    restart_empty: NOT_YET,
    server_clock: NOT_YET,
    eviction: NOT_YET,
    taken_away: NOT_YET,
    deposed: NOT_YET,
    stop: NOT_YET,
    majority_down: NOT_YET,
    leader_deaths: NOT_YET,
    connection: NOT_YET,
    errors: NOT_YET,
};

const NOT_YET: ServerFault =
    ServerFault::Unavailable("this trial is not available on this store yet");

/// The rows. Both kinds of Postgres locks share one, because the lab creates its own tables there.
static FACTS: [(&StoreKind, StoreFacts); 6] = [
    (
        &SQLITE,
        StoreFacts {
            data: Data::File,
            private_gloss: "one machine",
            shortest_ttl: ANY_TTL,
            failover: NO_SERVER,
            restart_empty: NO_SERVER,
            server_clock: NO_SERVER,
            eviction: NO_SERVER,
            taken_away: NO_SERVER,
            deposed: NO_SERVER,
            stop: NO_SERVER,
            majority_down: NO_SERVER,
            leader_deaths: NO_SERVER,
            connection: NO_CONNECTION,
            errors: NO_CONNECTION,
        },
    ),
    (
        &REDIS,
        StoreFacts {
            data: Data::Redis,
            private_gloss: "a private server",
            shortest_ttl: ANY_TTL,
            failover: ServerFault::Available,
            restart_empty: ServerFault::Available,
            server_clock: ServerFault::Available,
            eviction: ServerFault::Available,
            taken_away: ServerFault::Available,
            deposed: ServerFault::Available,
            stop: ServerFault::Available,
            majority_down: ONE_SERVER,
            leader_deaths: NO_LEADER,
            connection: ServerFault::Available,
            errors: ServerFault::Available,
        },
    ),
    (
        &REDLOCK,
        StoreFacts {
            data: Data::LocksOnly,
            private_gloss: "three servers",
            shortest_ttl: ANY_TTL,
            failover: ServerFault::Unavailable("Redlock has no replica that could take over"),
            restart_empty: ServerFault::Available,
            server_clock: ServerFault::Unavailable("this trial is not available on Redlock yet"),
            eviction: ServerFault::Unavailable("this trial is not available on Redlock yet"),
            taken_away: ServerFault::Available,
            deposed: ServerFault::Unavailable("Redlock has no replica that could take over"),
            stop: ServerFault::Available,
            majority_down: ServerFault::Available,
            leader_deaths: NO_LEADER,
            connection: ServerFault::Available,
            errors: ServerFault::Available,
        },
    ),
    (
        &POSTGRES,
        StoreFacts {
            data: Data::Postgres,
            private_gloss: "a private server",
            shortest_ttl: ANY_TTL,
            failover: ServerFault::Available,
            restart_empty: ServerFault::Unavailable("this trial is not available on Postgres yet"),
            server_clock: ServerFault::Unavailable("this trial is not available on Postgres yet"),
            eviction: NO_EVICTION,
            taken_away: ServerFault::Available,
            deposed: ServerFault::Available,
            stop: ServerFault::Available,
            majority_down: ONE_SERVER,
            leader_deaths: NO_LEADER,
            connection: ServerFault::Available,
            errors: NO_ERRORS,
        },
    ),
    (
        &ETCD,
        StoreFacts {
            data: Data::LocksOnly,
            private_gloss: "three servers",
            shortest_ttl: ShortestTtl {
                private_ms: 2_000,
                yours_ms: 2_000,
                reason: "leases of etcd have whole seconds, at least two",
            },
            failover: ServerFault::Available,
            restart_empty: ServerFault::Unavailable(
                "etcd keeps its data: it does not restart empty",
            ),
            server_clock: ServerFault::Unavailable(
                "etcd does not ask the C library for the time, so the lab cannot set its clock",
            ),
            eviction: NO_EVICTION,
            taken_away: ServerFault::Available,
            deposed: NO_CONFIRMATION,
            stop: ServerFault::Available,
            majority_down: ServerFault::Available,
            leader_deaths: ServerFault::Available,
            connection: ServerFault::Available,
            errors: NO_ERRORS,
        },
    ),
    (
        &ZOOKEEPER,
        StoreFacts {
            data: Data::LocksOnly,
            private_gloss: "a private server",
            // Sessions last at least two ticks: 4 s, unless the server is configured differently, as private ones are.
            shortest_ttl: ShortestTtl {
                private_ms: 2_000,
                yours_ms: 4_000,
                reason: "the lock of a dead process is free when its session ends, not sooner",
            },
            failover: ServerFault::Unavailable("this trial is not available on ZooKeeper yet"),
            restart_empty: ServerFault::Unavailable(
                "ZooKeeper keeps its data: it does not restart empty",
            ),
            server_clock: ServerFault::Unavailable("this trial is not available on ZooKeeper yet"),
            eviction: NO_EVICTION,
            taken_away: ServerFault::Available,
            deposed: NO_CONFIRMATION,
            stop: ServerFault::Available,
            majority_down: ServerFault::Available,
            leader_deaths: ServerFault::Unavailable("this trial is not available on ZooKeeper yet"),
            connection: ServerFault::Available,
            errors: NO_ERRORS,
        },
    ),
];

impl StoreFacts {
    /// Returns the row of this kind.
    pub fn of(kind: &StoreKind) -> &'static Self {
        let kind = kind_in_lab(kind);
        let row = FACTS.iter().find(|(known, _)| *known == kind);
        row.map_or(&OTHER, |(_, facts)| facts)
    }

    /// Returns whether it also keeps the stock. Otherwise the stock is in a file beside the lock servers.
    pub fn keeps_stock(&self) -> bool {
        self.data != Data::LocksOnly
    }

    /// Returns whether the store and the processes may be on different machines.
    pub fn elsewhere(&self) -> ServerFault {
        match self.data {
            Data::File => ONE_MACHINE,
            Data::Redis | Data::Postgres | Data::LocksOnly => ServerFault::Available,
        }
    }

    /// Returns whether the lab can make private servers of this kind fail in some way.
    pub fn can_fail(&self) -> bool {
        let all = [
            self.failover,
            self.restart_empty,
            self.server_clock,
            self.eviction,
            self.taken_away,
            self.deposed,
            self.stop,
            self.majority_down,
            self.leader_deaths,
        ];
        all.contains(&ServerFault::Available)
    }
}

/// Returns the kind by which the lab knows this one: both kinds of Postgres locks count as `postgres`.
pub(super) fn kind_in_lab(kind: &StoreKind) -> &StoreKind {
    if *kind == POSTGRES_TABLE {
        &POSTGRES
    } else {
        kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost::stores::KINDS;

    #[test]
    fn both_kinds_of_postgres_locks_share_a_row() {
        let of = |kind| std::ptr::from_ref(StoreFacts::of(kind));
        assert_eq!(of(&POSTGRES_TABLE), of(&POSTGRES));
        assert_ne!(of(&POSTGRES), std::ptr::from_ref(&OTHER));
    }

    #[test]
    fn a_shortest_ttl_has_a_reason() {
        for kind in KINDS {
            let ttl = StoreFacts::of(kind).shortest_ttl;
            assert_eq!(ttl.yours_ms == 0, ttl.reason.is_empty(), "{}", kind.name);
            assert!(ttl.private_ms <= ttl.yours_ms);
        }
    }
}
