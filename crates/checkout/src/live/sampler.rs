//! Samples locks, products and events while somebody watches, and publishes frames with them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::recent_events::{Entry, Made, RecentEvents, SECONDS, Sum};
use super::recount::Recount;
use super::{Live, Topic};
use crate::breaker::BreakerState;
use crate::checkout::Checkout;
use crate::id::Id;
use crate::locks::view::{self, ListingFailed, LockView};
use crate::order::OrderStatus;
use crate::product::Product;
use crate::storage::StorageError;

/// How often locks are sampled.
const TICK: Duration = Duration::from_millis(250);
/// Everything else is sampled every this many ticks.
const SLOW: u32 = 4;
/// How long events are remembered after the last watcher has left, so that a page that is reloaded still shows the recent past.
const LINGER: Duration = Duration::from_secs(120);
/// How long the database may take to answer all queries of a frame. A frame that is late holds up the next one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of locks in a frame.
const MAX_LOCKS: usize = 40;
/// The maximum number of products in a frame.
const MAX_PRODUCTS: usize = 16;

#[derive(Serialize)]
struct LocksFrame {
    ttl_ms: u64,
    /// The first locks that are held or waited for.
    locks: Vec<LockView>,
    /// How many locks are left out.
    more: usize,
    /// How many locks are held, with those that are left out.
    held: usize,
    /// Whether the lock store is unavailable.
    is_down: bool,
}

impl LocksFrame {
    fn new(ttl_ms: u64, listed: Result<Vec<LockView>, ListingFailed>) -> Self {
        let is_down = listed.is_err();
        let mut locks = listed.unwrap_or_default();
        let held = locks.iter().filter(|lock| lock.is_held()).count();
        let more = locks.len().saturating_sub(MAX_LOCKS);
        locks.truncate(MAX_LOCKS);
        Self {
            ttl_ms,
            locks,
            more,
            held,
            is_down,
        }
    }
}

#[derive(Serialize)]
struct ActivityFrame<'a> {
    at_ms: i64,
    waiting: u64,
    breaker: BreakerState,
    minute: Sum,
    products: Vec<ActivityProduct>,
    /// How many products there are.
    all_products: i64,
    /// How many orders are pending.
    open_orders: i64,
    /// Whether the database is unavailable.
    is_down: bool,
    entries: Vec<&'a Entry>,
    orders: Vec<ActivityOrder>,
    missed: u64,
}

#[derive(Serialize)]
struct ActivityProduct {
    #[serde(flatten)]
    product: Product,
    shares: Vec<i32>,
    minute: Sum,
    /// Whether its units agree with its orders; `null` if they were not counted yet.
    adds_up: Option<bool>,
}

#[derive(Serialize)]
struct ActivityOrder {
    at_ms: i64,
    /// The end of its id, since whoever knows the whole id may see the order.
    id: String,
    status: OrderStatus,
    items: Vec<ActivityItem>,
    total_cents: i64,
}

#[derive(Serialize)]
struct ActivityItem {
    product: Id,
    quantity: i64,
}

/// Publishes frames while somebody watches, until it is told to stop.
///
/// # Cancel safety
/// Changes nothing but the frames.
pub async fn run(checkout: Checkout, live: Live, ttl: Duration, stop: CancellationToken) {
    let work = async {
        loop {
            while !live.latest_frames.is_watched() {
                live.watcher_arrived.notified().await;
            }
            let sampler = Sampler {
                checkout: &checkout,
                live: &live,
                ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
                recent: RecentEvents::new(now_ms()),
                recount: Recount::of(checkout.audit()),
            };
            sampler.attend().await;
        }
    };
    stop.run_until_cancelled(work).await;
}

struct Sampler<'a> {
    checkout: &'a Checkout,
    live: &'a Live,
    ttl_ms: u64,
    recent: RecentEvents,
    recount: Recount,
}

impl Sampler<'_> {
    /// Samples until nobody has watched for a while.
    async fn attend(mut self) {
        let mut events = self.checkout.events().watch();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut count = 0;
        let mut watched_at = Instant::now();
        loop {
            tokio::select! {
                // Sample everything at once for a new watcher.
                () = self.live.watcher_arrived.notified() => count = 0,
                _ = ticks.tick() => {
                    if self.live.latest_frames.is_watched() {
                        watched_at = Instant::now();
                        self.sample(count % SLOW == 0).await;
                        count = count.wrapping_add(1);
                    } else if watched_at.elapsed() > LINGER {
                        return;
                    }
                }
                event = events.recv() => match event {
                    Ok(event) => self.recent.learn(&event, now_ms()),
                    Err(RecvError::Lagged(missed)) => self.recent.missed += missed,
                    Err(RecvError::Closed) => return,
                },
            }
        }
    }

    async fn sample(&mut self, with_activity: bool) {
        self.put(Topic::Locks, &self.locks().await);
        if with_activity {
            self.recount.sample().await;
            self.put(Topic::Activity, &self.activity().await);
        }
    }

    fn put(&self, topic: Topic, frame: &impl Serialize) {
        match serde_json::to_string(frame) {
            Ok(text) => self.live.latest_frames.put(topic, text),
            Err(error) => tracing::error!(%error, "a frame cannot be serialized"),
        }
    }

    async fn locks(&self) -> LocksFrame {
        let listed = view::of_products(self.checkout.locks()).await;
        LocksFrame::new(self.ttl_ms, listed)
    }

    async fn activity(&self) -> ActivityFrame<'_> {
        let at_ms = now_ms();
        let locks = self.checkout.locks();
        let counts = locks.lock_use().counts();
        let read = tokio::time::timeout(ANSWER_TIMEOUT, self.read(at_ms / 1_000)).await;
        let read = read.ok().and_then(Result::ok);
        let is_down = read.is_none();
        let (products, orders, (all_products, open_orders)) = read.unwrap_or_default();
        ActivityFrame {
            at_ms,
            waiting: counts.waiting,
            breaker: locks.breaker_state(),
            minute: self.recent.all.sum(at_ms / 1_000),
            products,
            all_products,
            open_orders,
            is_down,
            entries: self.recent.entries.iter().collect(),
            orders,
            missed: self.recent.missed,
        }
    }

    async fn read(
        &self,
        now: i64,
    ) -> Result<(Vec<ActivityProduct>, Vec<ActivityOrder>, (i64, i64)), StorageError> {
        let mut orders = Vec::new();
        for made in &self.recent.orders {
            orders.extend(self.order(made).await?);
        }
        let counts = self.checkout.storage().counts().await?;
        Ok((self.products(now).await?, orders, counts))
    }

    /// Returns the products that were ordered most in the last minute, filled up with the first of the others. Sorted by id, so that rows
    /// stay in place.
    async fn products(&self, now: i64) -> Result<Vec<ActivityProduct>, StorageError> {
        let storage = self.checkout.storage();
        let mut busy: Vec<(u64, &Id)> = self
            .recent
            .products
            .iter()
            .map(|(id, minute)| (minute.sum(now).asked, id))
            .filter(|(asked, _)| *asked > 0)
            .collect();
        busy.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        busy.truncate(MAX_PRODUCTS);
        let first = storage.products(None, MAX_PRODUCTS as i64).await?;
        let mut shown: BTreeMap<Id, Product> = BTreeMap::new();
        for (_, id) in busy {
            let known = first.iter().find(|product| product.product_id == *id);
            let product = match known {
                Some(product) => Some(product.clone()),
                None => storage.product(id).await?,
            };
            shown.extend(product.map(|product| (id.clone(), product)));
        }
        for product in first {
            if shown.len() < MAX_PRODUCTS {
                shown.insert(product.product_id.clone(), product);
            }
        }
        let row = |product: Product| {
            let minute = self.recent.products.get(&product.product_id);
            ActivityProduct {
                shares: minute.map_or_else(|| vec![-1; SECONDS], |minute| minute.shares(now)),
                minute: minute.map_or_else(Sum::default, |minute| minute.sum(now)),
                adds_up: self.recount.adds_up(&product.product_id),
                product,
            }
        };
        Ok(shown.into_values().map(row).collect())
    }

    async fn order(&self, made: &Made) -> Result<Option<ActivityOrder>, StorageError> {
        let Some(order) = self.checkout.storage().order(&made.order).await? else {
            return Ok(None);
        };
        let shops = order.order_checkout.shop_orders.iter();
        let items: Vec<ActivityItem> = shops
            .clone()
            .flat_map(|shop| &shop.item_products)
            .map(|item| ActivityItem {
                product: item.product_id.clone(),
                quantity: item.quantity,
            })
            .collect();
        Ok(Some(ActivityOrder {
            at_ms: made.at_ms,
            id: made.order.public_suffix().to_owned(),
            status: made.status,
            items,
            total_cents: shops.map(|shop| shop.total_cents).sum(),
        }))
    }
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use fencepost::Locker;
    use fencepost::resource::Credential;
    use fencepost::stores::memory::Memory;

    use super::*;
    use crate::breaker::BreakerSettings;
    use crate::checkout::OrderPath;
    use crate::events::Events;
    use crate::locks::{Locks, WaitPolicy};
    use crate::order::{Basket, Order};
    use crate::product::{Balance, NewProduct};
    use crate::storage::{Ending, Key, Placed, Placement, Replay, Settled, Storage, StorageFuture};

    /// A database that never answers.
    struct Silent;

    impl Storage for Silent {
        fn add_product(&self, _: NewProduct, _: Id) -> StorageFuture<'_, Option<Product>> {
            Box::pin(pending())
        }
        fn product<'a>(&'a self, _: &'a Id) -> StorageFuture<'a, Option<Product>> {
            Box::pin(pending())
        }
        fn products(&self, _: Option<Id>, _: i64) -> StorageFuture<'_, Vec<Product>> {
            Box::pin(pending())
        }
        fn products_of<'a>(&'a self, _: &'a Basket) -> StorageFuture<'a, Vec<Product>> {
            Box::pin(pending())
        }
        fn place(&self, _: Placement) -> StorageFuture<'_, Placed> {
            Box::pin(pending())
        }
        fn replay<'a>(&'a self, _: &'a Key) -> StorageFuture<'a, Replay> {
            Box::pin(pending())
        }
        fn order<'a>(&'a self, _: &'a Id) -> StorageFuture<'a, Option<Order>> {
            Box::pin(pending())
        }
        fn settle(&self, _: Id, _: Ending) -> StorageFuture<'_, Settled> {
            Box::pin(pending())
        }
        fn overdue(&self, _: i64) -> StorageFuture<'_, Vec<Id>> {
            Box::pin(pending())
        }
        fn forget_keys(
            &self,
            _: Duration,
            _: i64,
            _: Credential,
        ) -> StorageFuture<'_, Option<u64>> {
            Box::pin(pending())
        }
        fn balances(&self) -> StorageFuture<'_, Vec<Balance>> {
            Box::pin(pending())
        }
        fn counts(&self) -> StorageFuture<'_, (i64, i64)> {
            Box::pin(pending())
        }
        fn ping(&self) -> StorageFuture<'_, ()> {
            Box::pin(pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_never_answers_is_shown_as_down_within_a_short_time() {
        let locker = Locker::builder(Arc::new(Memory::new())).build().unwrap();
        let (breaker, policy) = (BreakerSettings::default(), WaitPolicy::default());
        let events = Events::default();
        let locks = Locks::new(locker, breaker, policy, events.clone());
        let (path, long) = (OrderPath::Lock, Duration::from_secs(60));
        let checkout = Checkout::new(Arc::new(Silent), locks, events, path, long);
        let live = Live::default();
        let sampler = Sampler {
            checkout: &checkout,
            live: &live,
            ttl_ms: 2_000,
            recent: RecentEvents::new(now_ms()),
            recount: Recount::of(checkout.audit()),
        };
        let began = Instant::now();
        let activity = tokio::time::timeout(long, sampler.activity()).await;
        assert!(activity.expect("it waits for the database").is_down);
        assert!(
            began.elapsed() <= Duration::from_secs(3),
            "{:?}",
            began.elapsed()
        );
    }

    #[test]
    fn a_lock_that_is_left_out_counts_as_held_only_if_it_is() {
        let lock = |number: usize| {
            // Every other one is between two holders.
            let holder = number.is_multiple_of(2).then(|| "host:1".to_owned());
            LockView::of(format!("lock:product:p{number:03}"), holder)
        };
        let frame = LocksFrame::new(2_000, Ok((0..MAX_LOCKS + 10).map(lock).collect()));
        assert_eq!((frame.locks.len(), frame.more), (MAX_LOCKS, 10));
        assert_eq!(frame.held, (MAX_LOCKS + 10) / 2);
        let down = LocksFrame::new(2_000, Err(ListingFailed));
        assert_eq!((down.held, down.is_down), (0, true));
    }
}
