//! `safe`: a lock with an owner token, a TTL set in the same step, and a release that checks the owner.
//!
//! This is the library's lock without its keep-alive, used as such locks usually are: the holder does not check the clock while
//! it works. A holder that works longer than the TTL is no longer protected, and does not know it. On Redis it is handmade from
//! the same parts: `SET NX PX` and a script that compares and deletes. There, waiters poll. When `retry` measures the cost of a
//! line, the library's lock takes its place, on the same key.

use fencepost::clock::BoxFuture;

use super::customer::Customer;
use super::hand_made::{self, HandMade, Recipe};
use super::library::Library;
use super::{Buyer, Failure, Group, Locking, Order, Origin, Remark, Setup, Stores, Strategy};
use crate::protocol::{Claims, Promise, Purchase};
use crate::store::Ground;

pub(super) static STRATEGY: Strategy = Strategy {
    name: "safe",
    origin: Origin::Ours,
    group: Group::Locks,
    stores: Stores::All,
    summary: "owner's token, TTL in the same step, release checks the owner; no keep-alive",
    gloss: "",
    flaw: Some(
        "A token guards the release, not the work: its holder never asks whether it still holds.",
    ),
    promise: Promise::Exclusion,
    claims: Claims::OWNED,
    has_line: true,
    remark: Remark::Nothing,
    open: |setup| Box::pin(open(setup)),
    lock: Some(|setup| Box::pin(lock(setup))),
};

async fn open(setup: Setup) -> Result<Box<dyn Buyer>, Failure> {
    if matches!(setup.ground, Ground::Redis(_)) {
        return Ok(Box::new(OnRedis::open(&setup).await?));
    }
    let lock = Library::open(&setup, false).await?;
    Ok(Box::new(Customer::open(&setup, lock)?))
}

async fn lock(setup: Setup) -> Result<Box<dyn Locking>, Failure> {
    if matches!(setup.ground, Ground::Redis(_)) {
        return hand_made::lock(setup, Recipe::TOKEN).await;
    }
    Ok(Box::new(Library::open(&setup, false).await?))
}

/// Polls or waits in line, as requested.
struct OnRedis {
    asking: Customer<HandMade>,
    in_line: Customer<Library>,
}

impl OnRedis {
    async fn open(setup: &Setup) -> Result<Self, Failure> {
        let library = Library::open(setup, false).await?;
        Ok(Self {
            asking: Customer::open(setup, HandMade::open(setup, Recipe::TOKEN)?)?,
            in_line: Customer::open(setup, library)?,
        })
    }
}

impl Buyer for OnRedis {
    fn purchase<'a>(&'a mut self, order: &'a Order) -> BoxFuture<'a, Result<Purchase, Failure>> {
        if order.in_line {
            self.in_line.purchase(order)
        } else {
            self.asking.purchase(order)
        }
    }

    fn lock_commands(&self, order: &Order) -> Option<u64> {
        if order.in_line {
            self.in_line.lock_commands(order)
        } else {
            None
        }
    }
}
