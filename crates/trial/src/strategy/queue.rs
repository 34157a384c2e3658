//! `queue`: buyers append requests to a queue, and one consumer serves them, oldest first.
//!
//! A buyer that waits for its answer and finds the consumer's place free becomes the consumer for a while: it reads, works,
//! writes, and answers in the same step as the write. The place is a plain lock, which the consumer gives up well before its
//! TTL.

use std::time::{Duration, Instant};

use fencepost::clock::BoxFuture;

use super::customer::Onwards;
use super::hand_made::{HandMade, Recipe};
use super::{
    Buyer, Failure, Group, Locking, Order, Origin, Remark, Setup, Stores, Strategy, no_stock, sold,
};
use crate::protocol::{Claims, Promise, Purchase};
use crate::store::stock::{Settled, Stock, Ticket};

/// How often a waiting buyer checks for its answer.
const LOOK: Duration = Duration::from_millis(1);
/// A consumer serves for at most this fraction of the TTL before it steps down.
const SHARE_OF_TTL: u32 = 4;

pub(super) static STRATEGY: Strategy = Strategy {
    name: "queue",
    origin: Origin::Ours,
    group: Group::NoLock,
    stores: Stores::KeepingStock,
    summary: "requests in a queue, served by one consumer",
    gloss: "no lock around the stock",
    flaw: None,
    promise: Promise::Exactness,
    claims: Claims::PLAIN,
    has_line: false,
    remark: Remark::Requests,
    open: |setup| Box::pin(open(setup)),
    lock: None,
};

struct Queue {
    stock: Box<dyn Stock>,
    place: HandMade,
    ttl: Duration,
}

async fn open(setup: Setup) -> Result<Box<dyn Buyer>, Failure> {
    Ok(Box::new(Queue {
        stock: setup.ground.stock()?,
        place: HandMade::open(&setup, Recipe::TOKEN)?,
        ttl: setup.ttl,
    }))
}

impl Buyer for Queue {
    fn purchase<'a>(&'a mut self, order: &'a Order) -> BoxFuture<'a, Result<Purchase, Failure>> {
        Box::pin(self.buy(order))
    }
}

impl Queue {
    async fn buy(&mut self, order: &Order) -> Result<Purchase, Failure> {
        let asked = Instant::now();
        let quantity = i64::from(order.quantity);
        let ticket = self.stock.enqueue(&order.product, quantity)?;
        // From here on another process may serve this request.
        let answer = self.until_answered(order, ticket).await;
        let (answer, by_another) = answer.map_err(Failure::indefinite)?;
        let purchase = match answer.after {
            Some(after) => sold(answer.before, after),
            None => no_stock(answer.before),
        };
        Ok(Purchase {
            contended: by_another,
            waited_ms: asked.elapsed().as_secs_f64() * 1e3,
            ..purchase
        })
    }

    /// Returns the answer, and whether another process was the consumer at any time meanwhile.
    async fn until_answered(
        &mut self,
        order: &Order,
        ticket: Ticket,
    ) -> Result<(Settled, bool), Failure> {
        let place = format!("consumer of {}", order.product);
        let (mut by_another, mut by_itself) = (false, false);
        loop {
            if let Some(answer) = self.stock.answer(&order.product, ticket)? {
                return Ok((answer, by_another || !by_itself));
            }
            match self
                .place
                .acquire(&place, Duration::ZERO, &mut Onwards)
                .await?
            {
                Some(held) => {
                    by_itself = true;
                    let served = self.serve(order);
                    self.place.release(held.hold, &mut Onwards).await?;
                    served?;
                }
                None => {
                    by_another = true;
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
    }

    /// Serves until the queue is empty, or until it is time to step down.
    fn serve(&mut self, order: &Order) -> Result<(), Failure> {
        let begun = Instant::now();
        while let Some(request) = self.stock.next_request(&order.product)? {
            let before = self.stock.read(&order.product)?;
            let after = Some(before - request.quantity).filter(|after| *after >= 0);
            if after.is_some() {
                order.work();
            }
            let answer = Settled { before, after };
            self.stock.settle(&order.product, request.ticket, answer)?;
            if begun.elapsed() > self.ttl / SHARE_OF_TTL {
                break;
            }
        }
        Ok(())
    }
}
