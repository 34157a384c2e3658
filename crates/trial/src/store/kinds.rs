//! What the lab knows about each kind of store: one row per kind.

use fencepost::stores::StoreKind;
use fencepost::stores::kinds::{ETCD, POSTGRES, POSTGRES_TABLE, REDIS, REDLOCK, SQLITE, ZOOKEEPER};

/// What the lab knows about a kind of store.
#[derive(Debug)]
pub struct StoreFacts {
    /// The kind.
    pub kind: &'static StoreKind,
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

/// The kinds of store on which the lab can try locks, in the order of the library's table.
static FACTS: [StoreFacts; 6] = [
    StoreFacts {
        kind: &SQLITE,
        data: Data::File,
        private_gloss: "one machine",
        shortest_ttl: ANY_TTL,
        failover: NO_SERVER,
        restart_empty: NO_SERVER,
    },
    StoreFacts {
        kind: &REDIS,
        data: Data::Redis,
        private_gloss: "a private server",
        shortest_ttl: ANY_TTL,
        failover: ServerFault::Available,
        restart_empty: ServerFault::Available,
    },
    StoreFacts {
        kind: &REDLOCK,
        data: Data::LocksOnly,
        private_gloss: "three servers",
        shortest_ttl: ANY_TTL,
        failover: ServerFault::Unavailable("Redlock has no replica that could take over"),
        restart_empty: ServerFault::Available,
    },
    StoreFacts {
        kind: &POSTGRES,
        data: Data::Postgres,
        private_gloss: "a private server",
        shortest_ttl: ANY_TTL,
        failover: ServerFault::Unavailable("this trial is not available on Postgres yet"),
        restart_empty: ServerFault::Unavailable("this trial is not available on Postgres yet"),
    },
    StoreFacts {
        kind: &ETCD,
        data: Data::LocksOnly,
        private_gloss: "three servers",
        shortest_ttl: ShortestTtl {
            private_ms: 2_000,
            yours_ms: 2_000,
            reason: "leases of etcd have whole seconds, at least two",
        },
        failover: ServerFault::Available,
        restart_empty: ServerFault::Unavailable("etcd keeps its data: it does not restart empty"),
    },
    StoreFacts {
        kind: &ZOOKEEPER,
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
    },
];

/// Compares kinds, because each kind has one row.
impl PartialEq for StoreFacts {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Eq for StoreFacts {}

impl StoreFacts {
    /// Returns the row of every kind.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        FACTS.iter()
    }

    /// Returns the row of this kind; `None` if the lab cannot try locks there. Both kinds of Postgres locks have the same row,
    /// because the lab creates its own tables there.
    pub fn of(kind: &StoreKind) -> Option<&'static Self> {
        let kind = if *kind == POSTGRES_TABLE {
            &POSTGRES
        } else {
            kind
        };
        Self::all().find(|facts| facts.kind == kind)
    }

    /// Returns whether it also keeps the stock. Otherwise the stock is in a file beside the lock servers.
    pub fn keeps_stock(&self) -> bool {
        self.data != Data::LocksOnly
    }

    /// Returns whether the lab can make private servers of this kind fail in some way.
    pub fn can_fail(&self) -> bool {
        [self.failover, self.restart_empty].contains(&ServerFault::Available)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost::stores::KINDS;

    #[test]
    fn every_kind_of_the_library_has_a_row() {
        for kind in KINDS {
            assert!(StoreFacts::of(kind).is_some(), "{}", kind.name);
        }
        assert_eq!(StoreFacts::of(&POSTGRES_TABLE), StoreFacts::of(&POSTGRES));
    }

    #[test]
    fn a_shortest_ttl_has_a_reason() {
        for facts in StoreFacts::all() {
            let ttl = facts.shortest_ttl;
            assert_eq!(
                ttl.yours_ms == 0,
                ttl.reason.is_empty(),
                "{}",
                facts.kind.name
            );
            assert!(ttl.private_ms <= ttl.yours_ms);
        }
    }
}
