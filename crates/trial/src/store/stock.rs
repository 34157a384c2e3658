//! The stock of a sale, in the store under test.
//!
//! Each operation is one step at the store, atomic by itself. Nothing here protects the time between two of them: that
//! is the job of the strategy on trial.

use crate::protocol::Failure;

pub(crate) mod fenced;
pub(crate) mod perishable;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod redis;
pub mod sqlite;

/// A connection to the stock.
pub trait Stock: Send {
    /// The units left. A product that was never written is an error.
    fn read(&mut self, product: &str) -> Result<i64, Failure>;

    /// Sets the units left, whatever they were.
    fn write(&mut self, product: &str, units: i64) -> Result<(), Failure>;

    /// Takes units away without a condition; returns what is left, which may be less than nothing.
    fn decrement(&mut self, product: &str, quantity: i64) -> Result<i64, Failure>;

    /// Takes units away if there are enough; returns what is left, or `None` when there were too few.
    fn decrement_if_enough(&mut self, product: &str, quantity: i64)
    -> Result<Option<i64>, Failure>;

    /// Takes units away under the store's own rule that a stock is never below zero; `None` when the store refused.
    fn decrement_constrained(
        &mut self,
        product: &str,
        quantity: i64,
    ) -> Result<Option<i64>, Failure>;

    /// The units left, and which version of them that is.
    fn read_version(&mut self, product: &str) -> Result<(i64, Version), Failure>;

    /// Sets the units left unless they were changed since `version` was read; says whether it did.
    fn write_version(
        &mut self,
        product: &str,
        units: i64,
        version: Version,
    ) -> Result<bool, Failure>;

    /// Puts a request at the end of the queue.
    fn enqueue(&mut self, product: &str, quantity: i64) -> Result<Ticket, Failure>;

    /// The oldest request that has no answer yet.
    fn next_request(&mut self, product: &str) -> Result<Option<QueuedRequest>, Failure>;

    /// Answers the oldest request, and writes the stock if it was sold: both or neither.
    fn settle(&mut self, product: &str, ticket: Ticket, answer: Settled) -> Result<(), Failure>;

    /// What became of a request, once that is known.
    fn answer(&mut self, product: &str, ticket: Ticket) -> Result<Option<Settled>, Failure>;
}

/// A state of the stock, as the store tells it apart from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version(i64);

/// A place in the queue of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(i64);

/// A request to buy that waits for the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedRequest {
    /// Its place.
    pub ticket: Ticket,
    /// How many units.
    pub quantity: i64,
}

/// The consumer's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// The stock it read.
    pub before: i64,
    /// The stock it wrote; `None` when there was too little.
    pub after: Option<i64>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const PRODUCT: &str = "product_A";

    /// What every store must do alike; `lab` and `buyer` are two connections to it.
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
        // Back to the same number: a comparison of units alone would not notice.
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
