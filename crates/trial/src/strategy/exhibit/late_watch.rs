//! `late-watch`: queues at ZooKeeper, looks up its predecessor, and then watches it without looking again.
//!
//! What is wrong: if the predecessor disappears between the lookup and the watch, there is no node left whose removal could
//! fire the watch. The process sleeps forever at the head of the line. Seen in examples of a ZooKeeper lock that call
//! `exists(previous, watch)` and wait without checking the answer; Curator and the library check it.
//!
//! In practice a slow network or a garbage collector separates the two steps. Here it is a short pause, and in `trial
//! lost-wakeup` the lab stops the process there. "Forever" means as long as the process was asked to wait.

use fencepost::stores::kinds::ZOOKEEPER;

use crate::protocol::{Claims, Promise};
use crate::strategy::{Group, Origin, Remark, Stores, Strategy};

#[cfg(feature = "zookeeper")]
mod node_queue;

/// The entry in the list of strategies.
pub static STRATEGY: Strategy = Strategy {
    name: "late-watch",
    origin: Origin::Ours,
    group: Group::Flawed,
    stores: Stores::Only(&ZOOKEEPER),
    summary: "(--store zk) looks up who is ahead of it, then watches that one: two steps",
    gloss: "",
    flaw: Some(
        "late-watch looks, then watches: if the one before it goes in between, nothing wakes it.",
    ),
    promise: Promise::Exclusion,
    // Its processes report how long their sessions outlive them.
    claims: Claims {
        looks_before_wait: true,
        ..Claims::OF_SESSION
    },
    has_line: true,
    remark: Remark::FlawShowsIn("lost-wakeup"),
    open: opening::buyer,
    lock: Some(opening::lock),
};

#[cfg(feature = "zookeeper")]
mod opening {
    use super::node_queue::NodeQueue;
    use crate::strategy::customer::Customer;
    use crate::strategy::{Buyer, Locking, Opening, Setup};

    pub(super) fn buyer(setup: Setup) -> Opening<dyn Buyer> {
        Box::pin(async move {
            let queue = NodeQueue::open(&setup).await?;
            let buyer: Box<dyn Buyer> = Box::new(Customer::open(&setup, queue)?);
            Ok(buyer)
        })
    }

    pub(super) fn lock(setup: Setup) -> Opening<dyn Locking> {
        Box::pin(async move {
            let lock: Box<dyn Locking> = Box::new(NodeQueue::open(&setup).await?);
            Ok(lock)
        })
    }
}

#[cfg(not(feature = "zookeeper"))]
mod opening {
    use crate::strategy::{Buyer, Failure, Locking, Opening, Setup};

    const ABSENT: &str = "the lab was built without ZooKeeper (cargo feature zookeeper)";

    pub(super) fn buyer(_: Setup) -> Opening<dyn Buyer> {
        Box::pin(async { Err(Failure::definite(ABSENT)) })
    }

    pub(super) fn lock(_: Setup) -> Opening<dyn Locking> {
        Box::pin(async { Err(Failure::definite(ABSENT)) })
    }
}
