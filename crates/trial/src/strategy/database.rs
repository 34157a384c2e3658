//! Locks that a database keeps beside the data they protect.
//!
//! Locks in [`session`] end with their transaction or their session. Locks in [`rows`] are records like those of other handmade
//! locks, in tables that are commonly used that way. Builds without Postgres support contain none of these locks and return an
//! error instead.

#[cfg(feature = "postgres")]
mod misused;
#[cfg(feature = "postgres")]
mod rows;
#[cfg(feature = "postgres")]
mod session;
#[cfg(feature = "postgres")]
#[cfg(test)]
mod tests;

use fencepost::stores::kinds::POSTGRES;

use super::{Failure, Group, Origin, Remark, Stores, Strategy};
use crate::protocol::{Claims, Promise};

#[cfg(not(feature = "postgres"))]
use absent::{buyer, buyer_by_lease, buyer_by_row, lock, lock_by_lease, lock_by_row, misused};
#[cfg(feature = "postgres")]
use built::{buyer, buyer_by_lease, buyer_by_row, lock, lock_by_lease, lock_by_row, misused};

/// Locks the row of the product for the duration of the transaction that sells it.
pub(super) static ROW: Strategy = Strategy {
    name: "row",
    summary: "locks the product's row until its transaction commits (SELECT … FOR UPDATE)",
    ..OF_SESSION
};

/// Locks the whole table for the duration of the transaction that sells.
pub(super) static TABLE: Strategy = Strategy {
    name: "table",
    summary: "locks the whole table until its transaction commits (LOCK TABLE)",
    remark: Remark::Always("every product waits"),
    open: |setup| buyer(setup, LockKind::Table),
    lock: Some(|setup| lock(setup, LockKind::Table)),
    ..OF_SESSION
};

/// A session lock on a number that the program derives from a name, released after the commit.
pub(super) static ADVISORY: Strategy = Strategy {
    name: "advisory",
    summary: "a lock of the session on a number, released after the commit (pg_advisory_lock)",
    open: |setup| buyer(setup, LockKind::Advisory),
    lock: Some(|setup| lock(setup, LockKind::Advisory)),
    ..OF_SESSION
};

/// The process that manages to insert a row holds the lock, and deletes the row at the end.
///
/// What is wrong: the row outlives its holder. It does not say when it expires, and no other process may delete it.
pub(super) static UNIQUE_INDEX: Strategy = Strategy {
    name: "unique-index",
    summary: "inserts a row under a unique index, deletes it at the end",
    flaw: Some("unique-index leaves its row behind when its holder dies: nobody ever deletes it."),
    claims: Claims {
        untimed: true,
        ..Claims::OWNED
    },
    has_line: false,
    remark: Remark::FlawShowsIn("crash"),
    open: buyer_by_row,
    lock: Some(lock_by_row),
    ..OF_SESSION
};

/// A row says who holds the lock and until when, by the database's clock, as in ShedLock. Rows are never deleted.
///
/// The lock excludes others until it expires, and no longer: its holder does not check again, and the stock checks no fence.
pub(super) static LEASE: Strategy = Strategy {
    name: "lease",
    summary: "a row with an end by the database's clock, as ShedLock's; no keep-alive",
    flaw: Some(
        "A lease ends by the clock, whether or not its holder is done; the stock never asks.",
    ),
    claims: Claims::OWNED,
    has_line: false,
    open: buyer_by_lease,
    lock: Some(lock_by_lease),
    ..OF_SESSION
};

/// A session lock of a process that takes its connections from a pool, and gives them back instead of releasing.
///
/// What is wrong: the pool keeps the connection, and the connection keeps the lock.
pub(super) static KEPT_BY_POOL: Strategy = Strategy {
    name: "kept-by-pool",
    summary: "pg_advisory_lock over a pool; its connection goes back without an unlock",
    flaw: Some("The connection went back to its pool, its session lives on, and so does the lock."),
    lock: Some(|setup| misused(setup, Misuse::KeptByPool)),
    ..MISUSED
};

/// A lock of the transaction, which is rolled back while its holder works.
///
/// What is wrong: whoever handles an error rolls back, and does not know that a lock ends with that.
pub(super) static ROLLED_BACK: Strategy = Strategy {
    name: "rolled-back",
    summary: "pg_advisory_xact_lock; an error in the work is handled by ROLLBACK",
    flaw: Some(
        "A lock of the transaction ends with it, and its holder goes on after the ROLLBACK.",
    ),
    lock: Some(|setup| misused(setup, Misuse::RolledBack)),
    ..MISUSED
};

/// A session lock that is taken in a transaction, and believed to end with it.
///
/// What is wrong: a session lock outlives every transaction.
pub(super) static TRUSTS_ROLLBACK: Strategy = Strategy {
    name: "trusts-rollback",
    summary: "pg_advisory_lock in a transaction; believes that ROLLBACK releases it",
    flaw: Some("ROLLBACK releases no lock of the session: only pg_advisory_unlock does."),
    lock: Some(|setup| misused(setup, Misuse::TrustsRollback)),
    ..MISUSED
};

/// How an advisory lock can be misused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misuse {
    /// A session lock is never unlocked, because its connection goes back to a pool.
    KeptByPool,
    /// The transaction of the lock is rolled back while its holder works.
    RolledBack,
    /// A session lock is believed to end with a transaction.
    TrustsRollback,
}

/// The fields that misused locks share. They take part in lock trials only.
const MISUSED: Strategy = Strategy {
    group: Group::Flawed,
    open: |_| Box::pin(async { Err(Failure::definite(NO_SALE)) }),
    ..OF_SESSION
};

/// Why they cannot buy.
const NO_SALE: &str = "this exhibit is a lock of trials, not of sales";

/// The fields that these strategies share, with the values of `row`.
const OF_SESSION: Strategy = Strategy {
    name: "",
    origin: Origin::Ours,
    group: Group::Database,
    stores: Stores::Only(&POSTGRES),
    summary: "",
    gloss: "",
    flaw: None,
    promise: Promise::Exclusion,
    // A session gets what it has once more, and the database counts.
    claims: Claims {
        reentrant: true,
        ..Claims::OF_SESSION
    },
    has_line: true,
    remark: Remark::Nothing,
    open: |setup| buyer(setup, LockKind::Row),
    lock: Some(|setup| lock(setup, LockKind::Row)),
};

/// What the database is asked to lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockKind {
    /// A row, until the end of the transaction.
    Row,
    /// A table, until the end of the transaction.
    Table,
    /// A number, until it is released or the session ends.
    Advisory,
    /// A number, until the end of the transaction.
    AdvisoryOfTransaction,
}

#[cfg(feature = "postgres")]
mod built {
    use super::super::customer::Customer;
    use super::super::hand_made::{HandMade, Recipe};
    use super::super::{Buyer, Failure, Locking, Opening, Setup};
    use super::misused::MisusedLock;
    use super::rows::{LeaseRows, UNTIMED, UniqueRows};
    use super::session::{SessionBuyer, SessionLock, Target};
    use super::{LockKind, Misuse};
    use crate::store::Ground;

    fn endpoint(setup: &Setup) -> Result<&str, Failure> {
        match &setup.ground {
            Ground::Postgres(endpoint) => Ok(endpoint),
            Ground::Sqlite(_) | Ground::Redis(_) | Ground::Locks(_) => Err(Failure::definite(
                "this lock is a database's: it is tried on Postgres",
            )),
        }
    }

    pub(super) fn buyer(setup: Setup, kind: LockKind) -> Opening<dyn Buyer> {
        Box::pin(async move {
            let lock = SessionLock::open(endpoint(&setup)?, kind, Target::Stock)?;
            Ok(Box::new(SessionBuyer::new(lock)) as Box<dyn Buyer>)
        })
    }

    pub(super) fn lock(setup: Setup, kind: LockKind) -> Opening<dyn Locking> {
        Box::pin(async move {
            let lock = SessionLock::open(endpoint(&setup)?, kind, Target::Thing)?;
            Ok(Box::new(lock) as Box<dyn Locking>)
        })
    }

    pub(super) fn misused(setup: Setup, misuse: Misuse) -> Opening<dyn Locking> {
        Box::pin(async move {
            let kind = match misuse {
                Misuse::KeptByPool | Misuse::TrustsRollback => LockKind::Advisory,
                Misuse::RolledBack => LockKind::AdvisoryOfTransaction,
            };
            let lock = SessionLock::open(endpoint(&setup)?, kind, Target::Thing)?;
            Ok(Box::new(MisusedLock::new(lock, misuse)) as Box<dyn Locking>)
        })
    }

    fn by_row(setup: &Setup) -> Result<HandMade, Failure> {
        let rows = UniqueRows::open(endpoint(setup)?)?;
        Ok(HandMade::over(Box::new(rows), setup, UNTIMED))
    }

    pub(super) fn buyer_by_row(setup: Setup) -> Opening<dyn Buyer> {
        Box::pin(async move {
            let buyer = Customer::open(&setup, by_row(&setup)?)?;
            Ok(Box::new(buyer) as Box<dyn Buyer>)
        })
    }

    pub(super) fn lock_by_row(setup: Setup) -> Opening<dyn Locking> {
        Box::pin(async move { Ok(Box::new(by_row(&setup)?) as Box<dyn Locking>) })
    }

    fn by_lease(setup: &Setup) -> Result<HandMade, Failure> {
        let rows = LeaseRows::open(endpoint(setup)?)?;
        Ok(HandMade::over(Box::new(rows), setup, Recipe::TOKEN))
    }

    pub(super) fn buyer_by_lease(setup: Setup) -> Opening<dyn Buyer> {
        Box::pin(async move {
            let buyer = Customer::open(&setup, by_lease(&setup)?)?;
            Ok(Box::new(buyer) as Box<dyn Buyer>)
        })
    }

    pub(super) fn lock_by_lease(setup: Setup) -> Opening<dyn Locking> {
        Box::pin(async move { Ok(Box::new(by_lease(&setup)?) as Box<dyn Locking>) })
    }
}

#[cfg(not(feature = "postgres"))]
mod absent {
    use super::super::{Buyer, Failure, Locking, Opening, Setup};
    use super::{LockKind, Misuse};

    fn absent<T: ?Sized>() -> Opening<T> {
        let why = "the lab was built without Postgres (cargo feature postgres)";
        Box::pin(async move { Err(Failure::definite(why)) })
    }

    pub(super) fn buyer(_: Setup, _: LockKind) -> Opening<dyn Buyer> {
        absent()
    }

    pub(super) fn lock(_: Setup, _: LockKind) -> Opening<dyn Locking> {
        absent()
    }

    pub(super) fn misused(_: Setup, _: Misuse) -> Opening<dyn Locking> {
        absent()
    }

    pub(super) fn buyer_by_row(_: Setup) -> Opening<dyn Buyer> {
        absent()
    }

    pub(super) fn lock_by_row(_: Setup) -> Opening<dyn Locking> {
        absent()
    }

    pub(super) fn buyer_by_lease(_: Setup) -> Opening<dyn Buyer> {
        absent()
    }

    pub(super) fn lock_by_lease(_: Setup) -> Opening<dyn Locking> {
        absent()
    }
}
