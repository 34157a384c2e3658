//! The use cases of the checkout: review, order, confirm and cancel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use metrics::{counter, histogram};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit::Audit;
use crate::events::{Event, Events};
use crate::id::Id;
use crate::locks::{Locks, NotGranted};
use crate::order::{Basket, Order, OrderStatus, PricedBasket};
use crate::storage::{
    Ending, Guarding, Key, Placed, Placement, Replay, Settled, Storage, StorageError,
};

mod answer;

use answer::answer;
pub use answer::{NotReviewed, Ordered, Refusal};

/// How often an order is tried when it loses its locks.
const ATTEMPTS_MAX: u32 = 3;
/// How long transactions under way may take after orders that wait have been told to give up.
const COMMIT_GRACE: Duration = Duration::from_secs(5);
/// How long after its deadline an order keeps its locks if the database does not answer. The customer has an answer by then.
const OVERTIME: Duration = Duration::from_secs(1);

/// How orders exclude each other from the same units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderPath {
    /// A lock for each product, whose fence the transaction checks.
    Lock,
    /// No lock; the transaction compares the version of each product.
    Optimistic,
    /// The locks of the database: `SELECT … FOR UPDATE` or `BEGIN IMMEDIATE`.
    Row,
}

impl OrderPath {
    /// Returns the name of this path in `--order-path`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Optimistic => "optimistic",
            Self::Row => "row",
        }
    }
}

/// The checkout, a shared handle. Cheap to clone.
#[derive(Clone)]
pub struct Checkout(Arc<Inner>);

struct Inner {
    storage: Arc<dyn Storage>,
    audit: Audit,
    locks: Locks,
    events: Events,
    order_path: OrderPath,
    reserve_for: Duration,
    /// Orders under way. They are not dropped with the connection of the customer.
    under_way: TaskTracker,
    /// Tells orders that still wait for a lock to give up.
    give_up: CancellationToken,
    undone: AtomicU64,
}

impl Checkout {
    /// Creates a checkout with this storage and these locks.
    pub fn new(
        storage: Arc<dyn Storage>,
        locks: Locks,
        events: Events,
        order_path: OrderPath,
        reserve_for: Duration,
    ) -> Self {
        Self(Arc::new(Inner {
            audit: Audit::new(Arc::clone(&storage)),
            storage,
            locks,
            events,
            order_path,
            reserve_for,
            under_way: TaskTracker::new(),
            give_up: CancellationToken::new(),
            undone: AtomicU64::new(0),
        }))
    }

    /// Returns the storage of products and orders.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.0.storage
    }

    /// Returns the last count of all units.
    pub(crate) fn audit(&self) -> &Audit {
        &self.0.audit
    }

    /// Returns the locks of orders.
    pub fn locks(&self) -> &Locks {
        &self.0.locks
    }

    /// Returns the channel for events.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// Prices an order without making it.
    ///
    /// # Errors
    /// Returns [`NotReviewed`] if the order would be refused, or if the database fails.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn review(&self, basket: &Basket) -> Result<PricedBasket, NotReviewed> {
        let products = self.0.storage.products_of(basket).await?;
        let priced = PricedBasket::price(basket, &products)?;
        let short = basket.short_of(&products);
        if short.is_empty() {
            Ok(priced)
        } else {
            Err(NotReviewed::Refused(Refusal::OutOfStock(short)))
        }
    }

    /// Reserves everything in the basket and makes the order, or does neither. Waits for locks until the deadline at most.
    ///
    /// The order holds `permit` until the work is over, even if the customer has left before, and then drops it. Pass `()` if there is none.
    ///
    /// # Errors
    /// Returns a [`Refusal`] that says why.
    ///
    /// # Cancel safety
    /// If the future is dropped, the order is still made or refused; a repeated request with the same key tells which.
    pub async fn order(
        &self,
        basket: Basket,
        key: Option<Key>,
        until: Instant,
        permit: impl Send + 'static,
    ) -> Result<Ordered, Refusal> {
        let this = self.clone();
        let work = async move {
            let _permit = permit;
            this.place_and_report(basket, key, until).await
        };
        let span = tracing::Span::current();
        let task = tracing::Instrument::instrument(work, span);
        let placed = self.0.under_way.spawn(task).await;
        placed.unwrap_or_else(|error| {
            tracing::error!(%error, "an order ended in the middle");
            Err(Refusal::Database("an order ended in the middle".into()))
        })
    }

    async fn place_and_report(
        &self,
        basket: Basket,
        key: Option<Key>,
        until: Instant,
    ) -> Result<Ordered, Refusal> {
        let began = Instant::now();
        let placed = self.find_or_place(&basket, key.as_ref(), until).await;
        let outcome = match &placed {
            Ok(Ordered {
                is_replay: false, ..
            }) => "created",
            Ok(_) => "replayed",
            Err(refusal) => refusal.as_str(),
        };
        counter!("checkout_orders_total", "outcome" => outcome).increment(1);
        histogram!("checkout_order_seconds").record(began.elapsed());
        match &placed {
            Ok(Ordered { order, is_replay }) if !is_replay => self.tell_change(order),
            Ok(_) => {}
            Err(refusal) => {
                refusal.log();
                self.0.events.tell(|| Event::OrderRefused {
                    reason: refusal.as_str(),
                    products: refusal.products().to_vec(),
                });
            }
        }
        placed
    }

    async fn find_or_place(
        &self,
        basket: &Basket,
        key: Option<&Key>,
        until: Instant,
    ) -> Result<Ordered, Refusal> {
        if let Some(key) = key {
            match self.0.storage.replay(key).await? {
                Replay::New => {}
                Replay::Made(order) => {
                    // The order exists already, so the answer needs no lock.
                    return Ok(Ordered {
                        order: *order,
                        is_replay: true,
                    });
                }
                Replay::Reused => return Err(Refusal::KeyReused),
            }
        }
        let placed = match self.0.order_path {
            OrderPath::Lock => self.under_locks(basket, key, until).await?,
            OrderPath::Optimistic => self.by_version(basket, key, until).await?,
            OrderPath::Row => self.write(basket, key, Guarding::Rows).await?,
        };
        answer(placed, basket)
    }

    async fn under_locks(
        &self,
        basket: &Basket,
        key: Option<&Key>,
        until: Instant,
    ) -> Result<Placed, Refusal> {
        let mut placed = Placed::Conflict;
        for _ in 0..ATTEMPTS_MAX {
            let held = tokio::select! {
                biased;
                held = self.0.locks.take(basket, until) => held,
                () = self.0.give_up.cancelled() => {
                    self.0.undone.fetch_add(1, Ordering::Relaxed);
                    return Err(Refusal::Closing);
                }
            };
            let held = match held {
                Ok(held) => held,
                Err(NotGranted::Busy) => return Ok(Placed::Conflict),
                Err(NotGranted::StoreDown(time)) => return Err(Refusal::StoreDown(time)),
            };
            // Commit first, then release. If a lock is lost in between, the fence check in the transaction fails.
            let written = if held.is_lost() {
                Ok(Placed::Conflict)
            } else {
                let guarding = Guarding::Fenced(held.credentials());
                let writing = self.write(basket, key, guarding);
                in_time(writing, until + OVERTIME).await
            };
            held.release(&self.0.events).await;
            placed = written?;
            match &placed {
                Placed::StaleFence(product) => {
                    counter!("checkout_fences_refused_total").increment(1);
                    tracing::warn!(%product, "the database refused a stale lock");
                    self.0.events.tell(|| Event::FenceRefused {
                        product: product.clone(),
                    });
                }
                Placed::Conflict => {}
                _ => break,
            }
        }
        Ok(placed)
    }

    async fn by_version(
        &self,
        basket: &Basket,
        key: Option<&Key>,
        until: Instant,
    ) -> Result<Placed, Refusal> {
        let mut pauses = self.0.locks.wait_policy().pauses().into_iter();
        loop {
            let products = self.0.storage.products_of(basket).await?;
            PricedBasket::price(basket, &products)?;
            let versions = products.iter().map(|product| product.version);
            let guarding = Guarding::Versions(versions.collect());
            let placed = self.write(basket, key, guarding).await?;
            match pauses.next() {
                Some(pause) if placed == Placed::Conflict && Instant::now() + pause < until => {
                    counter!("checkout_lock_retries_total").increment(1);
                    tokio::time::sleep(pause).await;
                }
                _ => return Ok(placed),
            }
        }
    }

    async fn write(
        &self,
        basket: &Basket,
        key: Option<&Key>,
        guarding: Guarding,
    ) -> Result<Placed, StorageError> {
        let now = jiff::Timestamp::now().as_millisecond();
        let placement = Placement {
            order_id: Id::random(now)?,
            key: key.cloned(),
            basket: basket.clone(),
            reserve_for: self.0.reserve_for,
            guarding,
        };
        self.0.storage.place(placement).await
    }

    /// Confirms, cancels or expires a pending order.
    ///
    /// Like [`order`](Self::order), it holds `permit` until the work is over.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    ///
    /// # Cancel safety
    /// If the future is dropped, the order still ends.
    pub async fn settle(
        &self,
        id: Id,
        ending: Ending,
        permit: impl Send + 'static,
    ) -> Result<Settled, StorageError> {
        let this = self.clone();
        let task = async move {
            let _permit = permit;
            let settled = this.0.storage.settle(id, ending).await?;
            let ended = |word: &'static str| {
                counter!("checkout_reservations_ended_total", "ending" => word).increment(1);
            };
            match &settled {
                Settled::Done(order) => {
                    ended(order.order_status.as_str());
                    this.tell_change(order);
                }
                Settled::Unread => ended(OrderStatus::Expired.as_str()),
                Settled::Unchanged(_) | Settled::Unknown | Settled::StaleFence => {}
            }
            Ok(settled)
        };
        let settled = self.0.under_way.spawn(task).await;
        settled.unwrap_or_else(|_| Err(StorageError::Broken("ended in the middle".into())))
    }

    /// Emits events for an order and for the stock of its products.
    fn tell_change(&self, order: &Order) {
        if !self.0.events.is_watched() {
            return;
        }
        self.0.events.tell(|| Event::OrderChanged {
            order: order.order_id.clone(),
            status: order.order_status,
        });
        let shops = order.order_checkout.shop_orders.iter();
        let items = shops.flat_map(|shop| &shop.item_products);
        let products: Vec<Id> = items.map(|item| item.product_id.clone()).collect();
        let this = self.clone();
        self.0.under_way.spawn(async move {
            for id in products {
                if let Ok(Some(product)) = this.0.storage.product(&id).await {
                    this.0.events.tell(|| Event::Stock {
                        product: id,
                        stock: product.stock,
                        reserved: product.reserved,
                        sold: product.sold,
                    });
                }
            }
        });
    }

    /// Returns how many orders gave up waiting because the service was stopped.
    pub fn undone(&self) -> u64 {
        self.0.undone.load(Ordering::Relaxed)
    }

    /// Says that no further order comes, for [`finish`](Self::finish).
    pub fn close(&self) {
        self.0.under_way.close();
    }

    /// Waits until the checkout is [closed](Self::close) and no order is under way. When the time is over, orders that wait for a lock give
    /// up; nothing was reserved for them.
    ///
    /// # Cancel safety
    /// If the future is dropped, orders go on.
    pub async fn finish(&self, within: Duration) {
        if tokio::time::timeout(within, self.0.under_way.wait())
            .await
            .is_err()
        {
            self.0.give_up.cancel();
            // A transaction under way ends by itself, since the database has its own timeouts.
            let _ = tokio::time::timeout(COMMIT_GRACE, self.0.under_way.wait()).await;
        }
    }
}

/// Waits for `writing` until the deadline. After that, the transaction goes on without a lock, and its fence keeps it from interfering with
/// later holders.
async fn in_time<T>(
    writing: impl Future<Output = Result<T, StorageError>>,
    until: Instant,
) -> Result<T, StorageError> {
    let written = tokio::time::timeout_at(until.into(), writing).await;
    written.unwrap_or_else(|_| {
        let words =
            "no answer in time: releasing the locks; the idempotency key tells whether the order was made";
        Err(StorageError::Unavailable(words.into()))
    })
}

#[cfg(test)]
mod tests;
