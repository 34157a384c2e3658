//! The checkout itself: review, order, confirm, cancel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use metrics::{counter, histogram};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::events::{Event, Events};
use crate::id::Id;
use crate::locking::{Locks, NotTaken};
use crate::order::{Basket, Checkout as Priced, NotPriced, Order, OrderStatus};
use crate::storage::{
    Ending, Guarding, Key, Placed, Placement, Replay, Settled, Storage, StorageError,
};

/// How often an order is tried again whose locks were lost under it.
const FRESH_STARTS: u32 = 3;
/// How long a transaction that has begun may take when the service is stopped.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long beyond its deadline an order keeps its locks for a database that does not answer. Its customer has been told by then.
const OVERTIME: Duration = Duration::from_secs(1);
/// When somebody who found a product taken may come back.
const COME_BACK: Duration = Duration::from_secs(1);

/// What keeps two orders from the same units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderPath {
    /// A lock per product, and its fence in the transaction.
    Lock,
    /// No lock: the version of each product, compared in the transaction.
    Optimistic,
    /// No lock of ours: the database's own, `SELECT … FOR UPDATE` or `BEGIN IMMEDIATE`.
    Row,
}

impl OrderPath {
    /// What `--order-path` calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Optimistic => "optimistic",
            Self::Row => "row",
        }
    }
}

/// Why there is no order. Nothing was reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Something else was ordered under the same key.
    KeyReused,
    /// These are not for sale.
    Unknown(Vec<Id>),
    /// These are another shop's.
    OtherShop(Vec<Id>),
    /// There is too little of these.
    OutOfStock(Vec<Id>),
    /// Others kept buying these; come back after this time.
    Contended(Vec<Id>, Duration),
    /// The store of the locks does not serve; come back after this time.
    StoreDown(Duration),
    /// The service is being stopped.
    Closing,
    /// The file of the database is no longer at its place.
    DatabaseGone,
    /// The database failed; the text is for the log. Here alone it is not certain that nothing was reserved.
    Database(String),
}

impl Refusal {
    /// A word for metrics and events.
    pub fn word(&self) -> &'static str {
        match self {
            Self::KeyReused => "key_reused",
            Self::Unknown(_) => "unknown_product",
            Self::OtherShop(_) => "other_shop",
            Self::OutOfStock(_) => "out_of_stock",
            Self::Contended(..) => "contended",
            Self::StoreDown(_) => "store_down",
            Self::Closing => "closing",
            Self::DatabaseGone => "database_gone",
            Self::Database(_) => "database",
        }
    }

    /// The products that are to blame.
    pub fn products(&self) -> &[Id] {
        match self {
            Self::Unknown(ids)
            | Self::OtherShop(ids)
            | Self::OutOfStock(ids)
            | Self::Contended(ids, _) => ids,
            _ => &[],
        }
    }
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Self {
        tracing::error!(%error, "the database failed");
        match error {
            StorageError::Displaced => Self::DatabaseGone,
            other => Self::Database(other.to_string()),
        }
    }
}

impl From<NotPriced> for Refusal {
    fn from(reason: NotPriced) -> Self {
        match reason {
            NotPriced::Unknown(ids) => Self::Unknown(ids),
            NotPriced::OtherShop(ids) => Self::OtherShop(ids),
        }
    }
}

/// What `writing` comes to, if that is known by then. It goes on all the same, and without a lock: from then on the fence in its
/// transaction keeps it apart from those who hold the lock later.
async fn in_time<T>(
    writing: impl Future<Output = Result<T, StorageError>>,
    until: Instant,
) -> Result<T, StorageError> {
    let written = tokio::time::timeout_at(until.into(), writing).await;
    written.unwrap_or_else(|_| {
        let words =
            "no answer in time: its locks go back, its key tells whether the order was made";
        Err(StorageError::Unavailable(words.into()))
    })
}

/// An order that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered {
    /// The order.
    pub order: Order,
    /// It was there before: somebody asked twice.
    pub is_replay: bool,
}

/// The checkout. Cheap to clone.
#[derive(Clone)]
pub struct Checkout(Arc<Inner>);

struct Inner {
    storage: Arc<dyn Storage>,
    locks: Locks,
    events: Events,
    path: OrderPath,
    reserve_for: Duration,
    /// Orders under way; they are not dropped with the connection of the one who asked.
    under_way: TaskTracker,
    /// Whoever still waits for a lock is to give up.
    give_up: CancellationToken,
    undone: AtomicU64,
}

impl Checkout {
    /// A checkout of these products, with these locks.
    pub fn new(
        storage: Arc<dyn Storage>,
        locks: Locks,
        events: Events,
        path: OrderPath,
        reserve_for: Duration,
    ) -> Self {
        Self(Arc::new(Inner {
            storage,
            locks,
            events,
            path,
            reserve_for,
            under_way: TaskTracker::new(),
            give_up: CancellationToken::new(),
            undone: AtomicU64::new(0),
        }))
    }

    /// Where products and orders are.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.0.storage
    }

    /// The locks of orders.
    pub fn locks(&self) -> &Locks {
        &self.0.locks
    }

    /// Where it tells what happens.
    pub fn events(&self) -> &Events {
        &self.0.events
    }

    /// What an order would cost, if it can be made at all.
    ///
    /// # Errors
    /// [`Refusal`].
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn review(&self, basket: &Basket) -> Result<Priced, Refusal> {
        let products = self.0.storage.products_of(basket).await?;
        let priced = Priced::price(basket, &products)?;
        let lines = basket.lines().iter().zip(&products);
        let short = lines.filter(|(line, product)| product.stock < line.quantity);
        let short: Vec<Id> = short.map(|(line, _)| line.product_id.clone()).collect();
        match short.is_empty() {
            true => Ok(priced),
            false => Err(Refusal::OutOfStock(short)),
        }
    }

    /// Reserves everything in the basket and makes the order, or does neither. Waits for locks no longer than until then.
    /// `keep` is dropped when it is over, however early the one who asks has left.
    ///
    /// # Errors
    /// [`Refusal`].
    ///
    /// # Cancel safety
    /// When dropped, the order is made or refused all the same: whoever asks again with the same key learns which.
    pub async fn order(
        &self,
        basket: Basket,
        key: Option<Key>,
        until: Instant,
        keep: impl Send + 'static,
    ) -> Result<Ordered, Refusal> {
        let this = self.clone();
        let work = async move {
            let _kept = keep;
            this.place(basket, key, until).await
        };
        let span = tracing::Span::current();
        let task = tracing::Instrument::instrument(work, span);
        let placed = self.0.under_way.spawn(task).await;
        placed.unwrap_or_else(|error| {
            tracing::error!(%error, "an order ended in the middle");
            Err(Refusal::Database("an order ended in the middle".into()))
        })
    }

    async fn place(
        &self,
        basket: Basket,
        key: Option<Key>,
        until: Instant,
    ) -> Result<Ordered, Refusal> {
        let began = Instant::now();
        let placed = self.place_once(&basket, key.as_ref(), until).await;
        let outcome = match &placed {
            Ok(Ordered {
                is_replay: false, ..
            }) => "created",
            Ok(_) => "replayed",
            Err(refusal) => refusal.word(),
        };
        counter!("checkout_orders_total", "outcome" => outcome).increment(1);
        histogram!("checkout_order_seconds").record(began.elapsed());
        match &placed {
            Ok(Ordered { order, is_replay }) if !is_replay => self.tell_change(order),
            Ok(_) => {}
            Err(refusal) => self.0.events.tell(|| Event::OrderRefused {
                reason: refusal.word(),
                products: refusal.products().to_vec(),
            }),
        }
        placed
    }

    async fn place_once(
        &self,
        basket: &Basket,
        key: Option<&Key>,
        until: Instant,
    ) -> Result<Ordered, Refusal> {
        // Known already: no lock is needed to say the same again.
        if let Some(key) = key {
            match self.0.storage.replay(key).await? {
                Replay::New => {}
                Replay::Made(order) => {
                    return Ok(Ordered {
                        order: *order,
                        is_replay: true,
                    });
                }
                Replay::Reused => return Err(Refusal::KeyReused),
            }
        }
        let placed = match self.0.path {
            OrderPath::Lock => self.under_locks(basket, key, until).await?,
            OrderPath::Optimistic => self.by_version(basket, key, until).await?,
            OrderPath::Row => self.write(basket, key, Guarding::Rows).await?,
        };
        let all = || basket.lines().iter().map(|line| line.product_id.clone());
        match placed {
            Placed::Created(order) => Ok(Ordered {
                order,
                is_replay: false,
            }),
            Placed::Replayed(order) => Ok(Ordered {
                order,
                is_replay: true,
            }),
            Placed::KeyReused => Err(Refusal::KeyReused),
            Placed::Unknown(ids) => Err(Refusal::Unknown(ids)),
            Placed::OtherShop(ids) => Err(Refusal::OtherShop(ids)),
            Placed::OutOfStock(ids) => Err(Refusal::OutOfStock(ids)),
            Placed::LateFence(_) | Placed::Conflict => {
                Err(Refusal::Contended(all().collect(), COME_BACK))
            }
        }
    }

    async fn under_locks(
        &self,
        basket: &Basket,
        key: Option<&Key>,
        until: Instant,
    ) -> Result<Placed, Refusal> {
        let mut placed = Placed::Conflict;
        for _ in 0..FRESH_STARTS {
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
                Err(NotTaken::Busy) => return Ok(Placed::Conflict),
                Err(NotTaken::StoreDown(time)) => return Err(Refusal::StoreDown(time)),
            };
            // The commit comes first, the release after it. If a lock is lost meanwhile, the fence in the transaction tells.
            let written = match held.is_lost() {
                true => Ok(Placed::Conflict),
                false => {
                    let guarding = Guarding::Fenced(held.credentials());
                    let writing = self.write(basket, key, guarding);
                    in_time(writing, until + OVERTIME).await
                }
            };
            held.release(&self.0.events).await;
            placed = written?;
            match &placed {
                Placed::LateFence(product) => {
                    counter!("checkout_fences_refused_total").increment(1);
                    tracing::warn!(%product, "the database refused a late lock");
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
        let mut pauses = self.0.locks.patience().pauses().into_iter();
        loop {
            let products = self.0.storage.products_of(basket).await?;
            Priced::price(basket, &products)?;
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
            order_id: Id::random(now),
            key: key.cloned(),
            basket: basket.clone(),
            reserve_for: self.0.reserve_for,
            guarding,
        };
        self.0.storage.place(placement).await
    }

    /// Ends a pending order one way or the other. `keep` is dropped when it is over, however early the one who asks has left.
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancel safety
    /// When dropped, it ends all the same.
    pub async fn settle(
        &self,
        id: Id,
        ending: Ending,
        keep: impl Send + 'static,
    ) -> Result<Settled, StorageError> {
        let this = self.clone();
        let task = async move {
            let _kept = keep;
            let settled = this.0.storage.settle(id, ending).await?;
            let ended = |word: &'static str| {
                counter!("checkout_reservations_ended_total", "ending" => word).increment(1);
            };
            match &settled {
                Settled::Done(order) => {
                    ended(order.order_status.word());
                    this.tell_change(order);
                }
                Settled::Unread => ended(OrderStatus::Expired.word()),
                Settled::Before(_) | Settled::Unknown | Settled::LateFence => {}
            }
            Ok(settled)
        };
        let settled = self.0.under_way.spawn(task).await;
        settled.unwrap_or_else(|_| Err(StorageError::Broken("ended in the middle".into())))
    }

    /// Tells those who watch about an order and the stock of its products.
    fn tell_change(&self, order: &Order) {
        if !self.0.events.is_watched() {
            return;
        }
        self.0.events.tell(|| Event::OrderChanged {
            order: order.order_id.clone(),
            status: order.order_status,
        });
        let shops = order.order_checkout.shop_order_ids.iter();
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

    /// Orders that gave up waiting because the service was stopped.
    pub fn undone(&self) -> u64 {
        self.0.undone.load(Ordering::Relaxed)
    }

    /// Waits until no order is under way. Those that wait for a lock give up when the time is over: nothing was reserved for them.
    ///
    /// # Cancel safety
    /// When dropped, orders go on.
    pub async fn finish(&self, within: Duration) {
        self.0.under_way.close();
        if tokio::time::timeout(within, self.0.under_way.wait())
            .await
            .is_err()
        {
            self.0.give_up.cancel();
            // A transaction that has begun ends; the database has timeouts of its own.
            let _ = tokio::time::timeout(LAST_WORDS, self.0.under_way.wait()).await;
        }
    }
}
