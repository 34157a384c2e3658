//! Locks on servers of other kinds: wrong ones with the trial that must convict each, and right ones.

use fencepost_trial::holds::Scenario::{
    self, Crash, Deadline, DeadlockSorted, LostWakeup, Names, Pause, SlowReplies, StaleRelease,
    TakenAway, TtlEdge, Waiters,
};
use fencepost_trial::protocol::Claims;

use crate::flaw::Flaw;
use crate::judging::{BROKEN, Due, STUCK};
use crate::part::{ExternalLock, Part, flawed, lock};
use crate::servers::Place::{self, Etcd, Postgres, Redlock, Zookeeper};
use crate::session::Ordeal::{self, At, LastingAt};

/// A lease of etcd ends up to a second after its time.
const OF_ETCD: Claims = Claims {
    recovery_ms: Some(4_000),
    ..Claims::PLAIN
};
/// A session of ZooKeeper lasts while its process lives, and ends at a tick of the server.
const OF_ZOOKEEPER: Claims = Claims {
    keep_alive: true,
    recovery_ms: Some(4_000),
    ..Claims::PLAIN
};

pub(crate) const REDLOCK: ExternalLock = lock("honest-redlock", Claims::PLAIN);
pub(crate) const ADVISORY: ExternalLock = lock("honest-advisory", Claims::OF_SESSION);
pub(crate) const KEY: ExternalLock = lock("honest-etcd", OF_ETCD);
/// A key under the lease of a session that began before the request, as in etcd's own `concurrency` package.
pub(crate) const KEY_OF_SESSION: ExternalLock = ExternalLock {
    renews: true,
    ..lock(
        "honest-etcd-session",
        Claims {
            untimed: true,
            recovery_ms: Some(4_000),
            ..Claims::PLAIN
        },
    )
};
pub(crate) const NODE: ExternalLock = lock("honest-zookeeper", OF_ZOOKEEPER);
/// The same, in the words of a lock that lasts as long as its process.
pub(crate) const SESSION: ExternalLock = lock(
    "honest-session",
    Claims {
        untimed: true,
        recovery_ms: Some(4_000),
        ..Claims::PLAIN
    },
);

/// The same, in the words of a lock that promises nothing of its session.
pub(crate) const BARE_SESSION: ExternalLock = lock(
    "honest-bare-session",
    Claims {
        session: true,
        ..Claims::PLAIN
    },
);

const fn redlock(name: &'static str, flaw: Flaw) -> ExternalLock {
    flawed(name, flaw, REDLOCK.claims)
}

const fn advisory(name: &'static str, flaw: Flaw) -> ExternalLock {
    flawed(name, flaw, ADVISORY.claims)
}

const fn key(name: &'static str, flaw: Flaw) -> ExternalLock {
    flawed(name, flaw, KEY.claims)
}

const fn node(name: &'static str, flaw: Flaw) -> ExternalLock {
    flawed(name, flaw, NODE.claims)
}

/// The wrong ones.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    (redlock("redlock-blind-delete", Flaw::BlindDelete), At(Redlock, StaleRelease), BROKEN),
    (redlock("blind-cleanup", Flaw::BlindCleanup), At(Redlock, DeadlockSorted), BROKEN),
    (redlock("redlock-from-reply", Flaw::FromReply), At(Redlock, SlowReplies), BROKEN),
    (advisory("shared-lock", Flaw::SharedLock), At(Postgres, DeadlockSorted), BROKEN),
    (advisory("lock-of-transaction", Flaw::LockOfTransaction), At(Postgres, DeadlockSorted), BROKEN),
    (advisory("unlocks-all", Flaw::UnlocksAll), At(Postgres, Names), BROKEN),
    (advisory("number-of-eight-letters", Flaw::NumberOfEightLetters), At(Postgres, Names), BROKEN),
    (advisory("pooled", Flaw::Pooled), At(Postgres, DeadlockSorted), BROKEN),
    (advisory("kept-by-pool-by-hand", Flaw::KeptByPool), At(Postgres, TtlEdge), STUCK),
    (advisory("kept-by-pool-by-hand", Flaw::KeptByPool), At(Postgres, LostWakeup), STUCK),
    (advisory("rolled-back-by-hand", Flaw::RolledBack), At(Postgres, DeadlockSorted), BROKEN),
    (advisory("rolled-back-by-hand", Flaw::RolledBack), At(Postgres, TtlEdge), BROKEN),
    (advisory("trusts-rollback-by-hand", Flaw::TrustsRollback), At(Postgres, TtlEdge), STUCK),
    (advisory("trusts-rollback-by-hand", Flaw::TrustsRollback), At(Postgres, LostWakeup), STUCK),
    // It is not told that its session was terminated: a limit of its kind.
    (ADVISORY, LastingAt(Postgres, TakenAway, 2_000), BROKEN),
    (key("no-lease", Flaw::NoLease), At(Etcd, Crash), STUCK),
    (key("no-condition", Flaw::NoCondition), At(Etcd, DeadlockSorted), BROKEN),
    (key("deletes-any-key", Flaw::DeletesAnyKey), At(Etcd, StaleRelease), BROKEN),
    (node("last-node", Flaw::LastNode), At(Zookeeper, DeadlockSorted), BROKEN),
    (node("lasting-node", Flaw::LastingNode), At(Zookeeper, Crash), STUCK),
    (node("keeps-node", Flaw::KeepsNode), At(Zookeeper, Deadline), STUCK),
    (node("deletes-first-node", Flaw::DeletesFirstNode), At(Zookeeper, StaleRelease), BROKEN),
];

/// The trials that the right ones withstand.
pub(crate) fn right() -> Vec<(Part, Ordeal)> {
    let of_lock = |(lock, place, scenarios): (ExternalLock, Place, &[Scenario])| {
        let ordeals = scenarios.iter().map(move |scenario| At(place, *scenario));
        ordeals
            .map(|ordeal| (Part::External(lock), ordeal))
            .collect::<Vec<_>>()
    };
    let locks: [(ExternalLock, Place, &[Scenario]); 6] = [
        (
            REDLOCK,
            Redlock,
            &[Crash, DeadlockSorted, StaleRelease, Names, Waiters],
        ),
        (
            ADVISORY,
            Postgres,
            &[
                Crash,
                DeadlockSorted,
                StaleRelease,
                Names,
                Waiters,
                TtlEdge,
                Pause,
            ],
        ),
        (
            advisory("held-by-transaction", Flaw::HeldByTransaction),
            Postgres,
            // A transaction holds all of its locks, or none: it cannot release one of two.
            &[Crash, TtlEdge, LostWakeup],
        ),
        (KEY, Etcd, &[Crash, DeadlockSorted, StaleRelease]),
        (
            KEY_OF_SESSION,
            Etcd,
            &[Crash, DeadlockSorted, StaleRelease, Waiters],
        ),
        (
            NODE,
            Zookeeper,
            &[Crash, DeadlockSorted, StaleRelease, TtlEdge],
        ),
    ];
    let by_hand = locks.into_iter().flat_map(of_lock);
    // The library's own lock, on the same servers.
    let places = [Redlock, Postgres, Etcd, Zookeeper];
    let library = places.map(|place| (Part::Library("safe"), At(place, StaleRelease)));
    // Locks of a transaction that lasts as long as they do.
    let of_transaction = ["row", "table"].into_iter().flat_map(|name| {
        [DeadlockSorted, TtlEdge].map(|scenario| (Part::Library(name), At(Postgres, scenario)))
    });
    by_hand.chain(library).chain(of_transaction).collect()
}
