//! `watchdog`: the library's lock as it is meant to be used, with keep-alive and a holder that learns of the loss of its lock.

use super::customer::Customer;
use super::library::Library;
use super::{Buyer, Failure, Group, Locking, Origin, Remark, Setup, Stores, Strategy};
use crate::protocol::{Claims, Promise};

pub(super) static STRATEGY: Strategy = Strategy {
    name: "watchdog",
    origin: Origin::Ours,
    group: Group::Locks,
    stores: Stores::All,
    summary: "as safe, and kept alive while its holder lives",
    gloss: "",
    flaw: None,
    promise: Promise::Exclusion,
    claims: Claims {
        keep_alive: true,
        ..Claims::OWNED
    },
    has_line: true,
    remark: Remark::Nothing,
    open: |setup| Box::pin(open(setup)),
    lock: Some(|setup| Box::pin(lock(setup))),
};

/// The same lock, and it claims the order of its line, where its store has one. Only `trial order` is about that.
pub(super) static IN_LINE: Strategy = Strategy {
    name: "in-line",
    summary: "as watchdog, and it claims that waiters are served in order",
    claims: Claims {
        fair: true,
        ..STRATEGY.claims
    },
    ..STRATEGY
};

async fn open(setup: Setup) -> Result<Box<dyn Buyer>, Failure> {
    let lock = Library::open(&setup, true).await?;
    Ok(Box::new(Customer::open(&setup, lock)?))
}

async fn lock(setup: Setup) -> Result<Box<dyn Locking>, Failure> {
    Ok(Box::new(Library::open(&setup, true).await?))
}
