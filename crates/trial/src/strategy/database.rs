//! Locks that a database keeps, beside the data they protect.
//!
//! [`session`] ones end with their transaction or their session; [`rows`] are records like those of other hand-made locks, in tables
//! that are known by that use. Without Postgres in the build there are none: then whoever asks is told so.

#[cfg(feature = "postgres")]
mod rows;
#[cfg(feature = "postgres")]
mod session;
#[cfg(feature = "postgres")]
#[cfg(test)]
mod tests;

#[cfg(not(feature = "postgres"))]
pub(super) use absent::{buyer, buyer_by_lease, buyer_by_row, lock, lock_by_lease, lock_by_row};
#[cfg(feature = "postgres")]
pub(super) use built::{buyer, buyer_by_lease, buyer_by_row, lock, lock_by_lease, lock_by_row};

/// What the database is asked to lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A row, until the end of the transaction.
    Row,
    /// A table, until the end of the transaction.
    Table,
    /// A number, until it is given back or the session ends.
    Advisory,
}

#[cfg(feature = "postgres")]
mod built {
    use super::super::customer::Customer;
    use super::super::hand_made::{HandMade, Token};
    use super::super::{Buyer, Failure, Locking, Opening, Setup};
    use super::Kind;
    use super::rows::{LeaseRows, UniqueRows, Untimed};
    use super::session::{SessionBuyer, SessionLock, Target};
    use crate::store::Ground;

    fn endpoint(setup: &Setup) -> Result<&str, Failure> {
        match &setup.ground {
            Ground::Postgres(endpoint) => Ok(endpoint),
            Ground::Sqlite(_) | Ground::Redis(_) | Ground::Locks(_) => Err(Failure::definite(
                "this lock is a database's: it is tried on Postgres",
            )),
        }
    }

    pub(in super::super) fn buyer(setup: Setup, kind: Kind) -> Opening<dyn Buyer> {
        Box::pin(async move {
            let lock = SessionLock::open(endpoint(&setup)?, kind, Target::Stock)?;
            Ok(Box::new(SessionBuyer::new(lock)) as Box<dyn Buyer>)
        })
    }

    pub(in super::super) fn lock(setup: Setup, kind: Kind) -> Opening<dyn Locking> {
        Box::pin(async move {
            let lock = SessionLock::open(endpoint(&setup)?, kind, Target::Thing)?;
            Ok(Box::new(lock) as Box<dyn Locking>)
        })
    }

    fn by_row(setup: &Setup) -> Result<HandMade<Untimed>, Failure> {
        let rows = UniqueRows::open(endpoint(setup)?)?;
        Ok(HandMade::over(Box::new(rows), setup, Untimed))
    }

    pub(in super::super) fn buyer_by_row(setup: Setup) -> Opening<dyn Buyer> {
        Box::pin(async move {
            let buyer = Customer::open(&setup, by_row(&setup)?)?;
            Ok(Box::new(buyer) as Box<dyn Buyer>)
        })
    }

    pub(in super::super) fn lock_by_row(setup: Setup) -> Opening<dyn Locking> {
        Box::pin(async move { Ok(Box::new(by_row(&setup)?) as Box<dyn Locking>) })
    }

    fn by_lease(setup: &Setup) -> Result<HandMade<Token>, Failure> {
        let rows = LeaseRows::open(endpoint(setup)?)?;
        Ok(HandMade::over(Box::new(rows), setup, Token))
    }

    pub(in super::super) fn buyer_by_lease(setup: Setup) -> Opening<dyn Buyer> {
        Box::pin(async move {
            let buyer = Customer::open(&setup, by_lease(&setup)?)?;
            Ok(Box::new(buyer) as Box<dyn Buyer>)
        })
    }

    pub(in super::super) fn lock_by_lease(setup: Setup) -> Opening<dyn Locking> {
        Box::pin(async move { Ok(Box::new(by_lease(&setup)?) as Box<dyn Locking>) })
    }
}

#[cfg(not(feature = "postgres"))]
mod absent {
    use super::super::{Buyer, Failure, Locking, Opening, Setup};
    use super::Kind;

    fn absent<T: ?Sized>() -> Opening<T> {
        let why = "the lab was built without Postgres (cargo feature postgres)";
        Box::pin(async move { Err(Failure::definite(why)) })
    }

    pub(in super::super) fn buyer(_: Setup, _: Kind) -> Opening<dyn Buyer> {
        absent()
    }

    pub(in super::super) fn lock(_: Setup, _: Kind) -> Opening<dyn Locking> {
        absent()
    }

    pub(in super::super) fn buyer_by_row(_: Setup) -> Opening<dyn Buyer> {
        absent()
    }

    pub(in super::super) fn lock_by_row(_: Setup) -> Opening<dyn Locking> {
        absent()
    }

    pub(in super::super) fn buyer_by_lease(_: Setup) -> Opening<dyn Buyer> {
        absent()
    }

    pub(in super::super) fn lock_by_lease(_: Setup) -> Opening<dyn Locking> {
        absent()
    }
}
