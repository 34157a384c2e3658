//! The stock of a sale, kept in the store under test.
//!
//! Each operation is one atomic step at the store. Nothing here protects the time between two of them; that is the job of the
//! strategy on trial.

use crate::protocol::Failure;

pub(crate) mod fenced;
pub(crate) mod perishable;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod sqlite;

/// A connection to the stock.
pub trait Stock: Send {
    /// Returns the units left. Fails for a product that was never written.
    fn read(&mut self, product: &str) -> Result<i64, Failure>;

    /// Sets the units left, whatever they were.
    fn write(&mut self, product: &str, units: i64) -> Result<(), Failure>;

    /// Subtracts units unconditionally. Returns what is left, which may be negative.
    fn decrement(&mut self, product: &str, quantity: i64) -> Result<i64, Failure>;

    /// Subtracts units if there are enough. Returns what is left, or `None` if there were too few.
    fn decrement_if_enough(&mut self, product: &str, quantity: i64)
    -> Result<Option<i64>, Failure>;

    /// Subtracts units under the store's own constraint that a stock is never negative. Returns `None` if the store refused.
    fn decrement_constrained(
        &mut self,
        product: &str,
        quantity: i64,
    ) -> Result<Option<i64>, Failure>;

    /// Returns the units left, with their version.
    fn read_version(&mut self, product: &str) -> Result<(i64, Version), Failure>;

    /// Sets the units left unless they changed since `version` was read. Returns whether it did.
    fn write_version(
        &mut self,
        product: &str,
        units: i64,
        version: Version,
    ) -> Result<bool, Failure>;

    /// Appends a request to the queue.
    fn enqueue(&mut self, product: &str, quantity: i64) -> Result<Ticket, Failure>;

    /// Returns the oldest request without an answer.
    fn next_request(&mut self, product: &str) -> Result<Option<QueuedRequest>, Failure>;

    /// Answers the oldest request and, if it was sold, writes the stock, both in one transaction.
    fn settle(&mut self, product: &str, ticket: Ticket, answer: Settled) -> Result<(), Failure>;

    /// Returns the answer to a request, if there is one yet.
    fn answer(&mut self, product: &str, ticket: Ticket) -> Result<Option<Settled>, Failure>;
}

/// A version of the stock, as the store distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version(i64);

/// A position in the queue of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(i64);

/// A queued request to buy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedRequest {
    /// Its position in the queue.
    pub ticket: Ticket,
    /// How many units.
    pub quantity: i64,
}

/// The consumer's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// The stock it read.
    pub before: i64,
    /// The stock it wrote; `None` if there was too little.
    pub after: Option<i64>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const PRODUCT: &str = "product_A";

    /// Tests the behaviour that all stores share. `lab` and `buyer` are two connections to one store.
    pub(crate) fn keeps_its_promises(lab: &mut dyn Stock, buyer: &mut dyn Stock) {
        assert!(lab.read(PRODUCT).is_err(), "never written");
        lab.write(PRODUCT, 3).unwrap();
        buyer.write(PRODUCT, 2).unwrap();
        assert_eq!(lab.read(PRODUCT).unwrap(), 2);

        assert_eq!(buyer.decrement_if_enough(PRODUCT, 2).unwrap(), Some(0));
        assert_eq!(buyer.decrement_if_enough(PRODUCT, 1).unwrap(), None);
        assert_eq!(buyer.decrement_constrained(PRODUCT, 1).unwrap(), None);
        assert_eq!(lab.read(PRODUCT).unwrap(), 0, "refused: as it was");
        assert_eq!(buyer.decrement(PRODUCT, 1).unwrap(), -1);
        lab.write(PRODUCT, 2).unwrap();
        assert_eq!(buyer.decrement_constrained(PRODUCT, 1).unwrap(), Some(1));

        versions_tell_changes(lab, buyer);
        a_queue_is_answered_in_order(lab, buyer);
    }

    fn versions_tell_changes(lab: &mut dyn Stock, buyer: &mut dyn Stock) {
        lab.write(PRODUCT, 5).unwrap();
        let (units, version) = buyer.read_version(PRODUCT).unwrap();
        assert_eq!(units, 5);
        // The number is the same again, so comparing units alone would not notice the change.
        lab.decrement(PRODUCT, 1).unwrap();
        lab.write(PRODUCT, 5).unwrap();
        assert!(!buyer.write_version(PRODUCT, 4, version).unwrap());
        let (_, version) = buyer.read_version(PRODUCT).unwrap();
        assert!(buyer.write_version(PRODUCT, 4, version).unwrap());
        assert_eq!(lab.read(PRODUCT).unwrap(), 4);
    }

    fn a_queue_is_answered_in_order(lab: &mut dyn Stock, buyer: &mut dyn Stock) {
        assert_eq!(lab.next_request(PRODUCT).unwrap(), None);
        let first = buyer.enqueue(PRODUCT, 1).unwrap();
        let second = lab.enqueue(PRODUCT, 2).unwrap();
        assert_ne!(first, second);
        let next = lab.next_request(PRODUCT).unwrap().unwrap();
        assert_eq!((next.ticket, next.quantity), (first, 1));
        assert_eq!(buyer.answer(PRODUCT, first).unwrap(), None);
        let sold = Settled {
            before: 4,
            after: Some(3),
        };
        lab.settle(PRODUCT, first, sold).unwrap();
        assert_eq!(buyer.answer(PRODUCT, first).unwrap(), Some(sold));
        assert_eq!(buyer.read(PRODUCT).unwrap(), 3);
        let refused = Settled {
            before: 1,
            after: None,
        };
        let next = lab.next_request(PRODUCT).unwrap().unwrap();
        assert_eq!((next.ticket, next.quantity), (second, 2));
        lab.settle(PRODUCT, second, refused).unwrap();
        assert_eq!(lab.answer(PRODUCT, second).unwrap(), Some(refused));
        assert_eq!(lab.next_request(PRODUCT).unwrap(), None);
        assert_eq!(buyer.read(PRODUCT).unwrap(), 3);
    }
}
