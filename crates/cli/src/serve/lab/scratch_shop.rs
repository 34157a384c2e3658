//! The scratch shop: products for load tests, bought under whichever of the lab's locks a request asks for.
//!
//! The lab's buyers block while they work, so each has its own thread. Threads are started as needed and then wait for the next
//! purchase. Nothing here touches the products and orders of the checkout.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use fencepost_rig::{TempDir, folder};
use fencepost_trial::protocol::{Purchase, PurchaseOutcome};
use fencepost_trial::store::{Ground, TrialStore};
use fencepost_trial::strategy::{self, Buyer, Failure, Order, Setup, Strategy};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::lock_strategy::LockStrategy;

/// The most buyers of one strategy.
const BUYERS: usize = 32;
/// How often the expiry of the stock is extended.
const KEEP_EVERY: Duration = Duration::from_secs(60);
/// How long a purchase works between reading and writing the stock.
const WORK: Duration = Duration::from_micros(1_000);
/// The TTL of the locks.
const TTL: Duration = Duration::from_secs(5);
/// The product of a request that names none.
pub(super) const DEFAULT_PRODUCT: &str = "default";

/// The outcome of a purchase.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bought {
    /// Which purchase it was: no other one has this number while the service runs.
    pub(super) number: u64,
    /// Whether it was sold, and if not, why.
    pub(super) purchase: Purchase,
    /// How long it took.
    pub(super) took: Duration,
}

/// The scratch shop. Its products disappear when the service stops.
pub(super) struct ScratchShop {
    ground: Ground,
    known: Arc<Mutex<HashSet<String>>>,
    pools: HashMap<&'static str, BuyerPool>,
    /// How many purchases were asked for.
    asked: AtomicU64,
    /// Dropping it ends the thread that keeps the stock from expiring.
    _keeper: mpsc::Sender<()>,
    // Dropped after everything that uses it.
    _folder: TempDir,
}

/// The buyers of one strategy.
struct BuyerPool {
    strategy: &'static Strategy,
    /// A purchase keeps its permit until it is over, even if the client has left: its thread and its connections go on.
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<IdleBuyer>>>,
}

/// A purchase for a buyer to make.
struct Request {
    order: Order,
    answer: oneshot::Sender<Result<Purchase, Failure>>,
    /// What the purchase occupies until it is over.
    permits: (OwnedSemaphorePermit, Box<dyn Send>),
    /// The buyer that makes it, to be idle again afterwards.
    buyer: IdleBuyer,
}

/// A buyer that waits for the next purchase.
#[derive(Clone)]
struct IdleBuyer {
    requests: mpsc::Sender<Request>,
}

impl ScratchShop {
    /// Opens an empty shop in this store. Blocks until it is ready.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    pub(super) fn open(store: &TrialStore) -> Result<Self, Failure> {
        let folder = folder().map_err(Failure::definite)?;
        let ground = store.scratch(folder.path());
        ground.prepare()?;
        let pools = LockStrategy::ALL.iter().filter_map(|lock| {
            let strategy = strategy::find(lock.name())?;
            let pool = BuyerPool {
                strategy,
                permits: Arc::new(Semaphore::new(BUYERS)),
                idle: Arc::default(),
            };
            Some((strategy.name, pool))
        });
        let known: Arc<Mutex<HashSet<String>>> = Arc::default();
        let keeper = keep(ground.clone(), Arc::clone(&known))?;
        let shop = Self {
            ground,
            known,
            pools: pools.collect(),
            asked: AtomicU64::new(0),
            _keeper: keeper,
            _folder: folder,
        };
        shop.write(DEFAULT_PRODUCT, 0)?;
        Ok(shop)
    }

    fn write(&self, product: &str, units: i64) -> Result<(), Failure> {
        self.ground.stock()?.write(product, units)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(product.to_owned());
        Ok(())
    }

    fn knows(&self, product: &str) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.contains(product)
    }

    /// Sets the stock of a product.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    ///
    /// # Cancel safety
    /// If the future is dropped, the stock is set all the same.
    pub(super) async fn reset(
        self: &Arc<Self>,
        product: String,
        units: i64,
    ) -> Result<(), Failure> {
        let this = Arc::clone(self);
        blocking(move || this.write(&product, units)).await
    }

    /// Returns the stock of a product; `None` if it was never set.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(super) async fn stock(self: &Arc<Self>, product: String) -> Result<Option<i64>, Failure> {
        if !self.knows(&product) {
            return Ok(None);
        }
        let this = Arc::clone(self);
        blocking(move || this.ground.stock()?.read(&product).map(Some)).await
    }

    /// Buys under this lock. Returns `None` if there is no such product.
    ///
    /// The purchase holds `permit` until it is over, even if the client has left before, and then drops it.
    ///
    /// # Errors
    /// Returns an error if the store fails.
    ///
    /// # Cancel safety
    /// If the future is dropped, the purchase may still happen.
    pub(super) async fn purchase(
        &self,
        lock: LockStrategy,
        product: String,
        quantity: u32,
        wait: Duration,
        permit: impl Send + 'static,
    ) -> Result<Option<Bought>, Failure> {
        let Some(pool) = self.pools.get(lock.name()).filter(|_| self.knows(&product)) else {
            return Ok(None);
        };
        let order = Order {
            product,
            quantity,
            wait,
            in_line: false,
            delay: WORK,
        };
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        let place = Arc::clone(&pool.permits).acquire_owned().await;
        let place = place.map_err(Failure::definite)?;
        let idle_buyer = pool.buyer(&self.ground)?;
        let (answer, answered) = oneshot::channel();
        let request = Request {
            order,
            answer,
            permits: (place, Box::new(permit)),
            buyer: idle_buyer.clone(),
        };
        let sent = idle_buyer.requests.send(request);
        sent.map_err(|_| Failure::definite("a buyer of the scratch shop has ended"))?;
        let purchase = answered.await.map_err(Failure::indefinite)?;
        Ok(Some(Bought {
            number,
            purchase: purchase?,
            took: began.elapsed(),
        }))
    }
}

impl BuyerPool {
    /// Returns a waiting buyer, or creates one.
    fn buyer(&self, ground: &Ground) -> Result<IdleBuyer, Failure> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(idle_buyer) = idle.pop() {
            return Ok(idle_buyer);
        }
        drop(idle);
        let (requests, inbox) = mpsc::channel();
        let setup = Setup {
            ground: ground.clone(),
            ttl: TTL,
        };
        let (strategy, runtime) = (self.strategy, Handle::current());
        let idle = Arc::downgrade(&self.idle);
        std::thread::Builder::new()
            .name("checkout-buyer".into())
            .spawn(move || buy(strategy, setup, &runtime, &inbox, &idle))
            .map_err(Failure::definite)?;
        Ok(IdleBuyer { requests })
    }
}

/// Starts a thread that keeps the stock of these products from expiring until the returned sender is dropped. After a kill the stock
/// expires.
fn keep(ground: Ground, known: Arc<Mutex<HashSet<String>>>) -> Result<mpsc::Sender<()>, Failure> {
    let (keeper, ended) = mpsc::channel();
    let work = move || {
        while ended.recv_timeout(KEEP_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            let products: Vec<String> = known.iter().cloned().collect();
            drop(known);
            if let Err(failure) = ground.keep(&products) {
                tracing::warn!(%failure, "the shop for load tests may vanish");
            }
        }
    };
    let thread = std::thread::Builder::new().name("checkout-keeper".into());
    thread.spawn(work).map_err(Failure::definite)?;
    Ok(keeper)
}

/// Makes the purchases of one buyer until its pool is dropped.
fn buy(
    strategy: &'static Strategy,
    setup: Setup,
    runtime: &Handle,
    inbox: &mpsc::Receiver<Request>,
    idle: &Weak<Mutex<Vec<IdleBuyer>>>,
) {
    let mut buyer: Option<Box<dyn Buyer>> = None;
    while let Ok(request) = inbox.recv() {
        let bought = runtime.block_on(async {
            let ready = match buyer.take() {
                Some(ready) => buyer.insert(ready),
                None => buyer.insert((strategy.open)(setup.clone()).await?),
            };
            ready.purchase(&request.order).await
        });
        if let Some(idle) = idle.upgrade() {
            let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(request.buyer);
        }
        // Before the answer, so that there is room for whoever has read it.
        drop(request.permits);
        // The client may have left.
        let _ = request.answer.send(bought);
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(Failure::indefinite)?
}

impl Bought {
    /// Returns whether the product was sold.
    pub(super) fn is_success(&self) -> bool {
        self.purchase.outcome == PurchaseOutcome::Sold
    }

    /// Returns why it was not sold, in the words that the load tests expect.
    pub(super) fn error(&self) -> Option<&'static str> {
        match self.purchase.outcome {
            PurchaseOutcome::Sold => None,
            PurchaseOutcome::NoStock => Some("Insufficient stock"),
            PurchaseOutcome::Busy => Some("Failed to acquire lock"),
            PurchaseOutcome::Unknown => Some("Unknown outcome"),
        }
    }
}

impl Drop for ScratchShop {
    fn drop(&mut self) {
        // If the server is gone, there is nothing to clean up; a file is removed with its folder.
        let _ = self.ground.clear();
    }
}
