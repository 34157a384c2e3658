//! Assembles the checkout service from its parts, runs it, and shuts it down.

use std::sync::Arc;
use std::time::Duration;

use fencepost::{Backend, Locker};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::breaker::BreakerSettings;
use crate::checkout::{Checkout, OrderPath, Refusal};
use crate::events::Events;
use crate::http::{App, ExtraRoutes, HttpSettings, page};
use crate::live::{self, Lab};
use crate::locks::{Locks, WaitPolicy};
use crate::server::{self, ConnectionSettings};
use crate::storage::Storage;
use crate::sweep;
use crate::telemetry::{self, PrometheusHandle};

/// The default TTL of a lock.
const TTL: Duration = Duration::from_secs(3);
/// How long the lock store may take for one answer; well within the deadline of a request.
const STORE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long units stay reserved by default.
const RESERVE_FOR: Duration = Duration::from_secs(600);
/// How long idempotency keys are kept by default.
const KEEP_KEYS: Duration = Duration::from_secs(24 * 60 * 60);

/// The settings of the service.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The TTL of a lock.
    pub ttl: Duration,
    /// How long to wait for locks that are taken.
    pub wait_policy: WaitPolicy,
    /// When the circuit breaker around the lock store opens.
    pub breaker: BreakerSettings,
    /// How orders exclude each other from the same units.
    pub order_path: OrderPath,
    /// How long units stay reserved.
    pub reserve_for: Duration,
    /// How long idempotency keys are kept; those of pending orders are kept longer.
    pub keep_keys: Duration,
    /// Limits of requests, and the admin token.
    pub http: HttpSettings,
    /// Limits of connections.
    pub connections: ConnectionSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ttl: TTL,
            wait_policy: WaitPolicy::default(),
            breaker: BreakerSettings::default(),
            order_path: OrderPath::Lock,
            reserve_for: RESERVE_FOR,
            keep_keys: KEEP_KEYS,
            http: HttpSettings::default(),
            connections: ConnectionSettings::default(),
        }
    }
}

/// How the service ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Requests that were under way when the service was told to stop, and were answered.
    pub finished: u64,
    /// Orders that gave up waiting for locks; nothing was reserved for them.
    pub undone: u64,
    /// Requests under way that were not answered in time. Their orders may have been made; the idempotency key tells.
    pub unfinished: u64,
    /// Locks that were held when the service was told to stop.
    pub released: u64,
}

/// A service that is ready to serve.
pub struct Service {
    app: App,
    checkout: Checkout,
    settings: Settings,
    metrics: PrometheusHandle,
    closing: CancellationToken,
}

impl Service {
    /// Assembles the service, with extra routes. `metrics` is the handle that [`telemetry::install`] returned before the lock store
    /// was opened.
    ///
    /// # Errors
    /// Returns an error if a setting of the locks is out of range.
    pub fn new(
        storage: Arc<dyn Storage>,
        locks: Arc<dyn Backend>,
        extra: ExtraRoutes,
        settings: Settings,
        metrics: PrometheusHandle,
    ) -> fencepost::Result<Self> {
        telemetry::init_counters(&Refusal::REASONS);
        let locker = Locker::builder(locks)
            .ttl(settings.ttl)
            .store_timeout(STORE_TIMEOUT)
            .build()?;
        let events = Events::default();
        let locks = Locks::new(
            locker,
            settings.breaker,
            settings.wait_policy.clone(),
            events.clone(),
        );
        let checkout = Checkout::new(
            storage,
            locks,
            events,
            settings.order_path,
            settings.reserve_for,
        );
        let closing = CancellationToken::new();
        let app = App::new(
            checkout.clone(),
            extra,
            settings.http.clone(),
            metrics.clone(),
            closing.clone(),
        );
        Ok(Self {
            app,
            checkout,
            settings,
            metrics,
            closing,
        })
    }

    /// Sets the lab that runs trials for the page.
    #[must_use]
    pub fn with_lab(self, lab: Arc<dyn Lab>) -> Self {
        self.app.live().trials().set_lab(lab);
        self
    }

    /// Serves until it is told to stop; then finishes or undoes what is under way and releases its locks.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is awaited: the sweeper gives its lock back, connections close after the answer under way, and
    /// orders under way are made or refused. A lock that cannot be released ends with its TTL.
    pub async fn run(self, listener: TcpListener, stop: CancellationToken) -> Report {
        // What runs in tasks of its own would otherwise outlive a dropped future, and renew its locks for ever.
        let _closing = self.closing.clone().drop_guard();
        let interval = sweep::interval(self.settings.reserve_for);
        let sweeper = sweep::run(
            self.checkout.clone(),
            interval,
            self.settings.keep_keys,
            self.closing.clone(),
        );
        let sweeper = tokio::spawn(sweeper);
        let watched = tokio::spawn(self.watch());
        let upkeep = tokio::spawn(upkeep(self.metrics, self.closing.clone()));
        let routes = self.app.routes().merge(page::routes());
        let routes = self.app.layered(routes);
        let in_flight = self.app.in_flight().clone();
        let closing = self.closing.clone();
        let lock_use = self.checkout.locks().lock_use().clone();
        let noted = async move {
            stop.cancelled().await;
            // End streams first, since they never end by themselves.
            let seen = (in_flight.count(), lock_use.counts().active);
            closing.cancel();
            seen
        };
        let connections = self.settings.connections;
        let connected = async {
            server::serve(listener, routes, connections, &self.closing).await;
            self.checkout.close();
        };
        // While connections are still open, so that an order that gives up is answered.
        let orders = async {
            self.closing.cancelled().await;
            self.checkout.finish(connections.grace).await;
        };
        let ((in_flight, released), (), ()) = tokio::join!(noted, connected, orders);
        let _ = tokio::join!(sweeper, upkeep, watched);
        self.checkout.locks().locker().shutdown().await;
        let undone = self.checkout.undone();
        let requests = self.app.in_flight();
        let unfinished = requests.late_while_closing() + requests.count();
        let unfinished = unfinished.min(in_flight.saturating_sub(undone));
        Report {
            finished: in_flight.saturating_sub(undone + unfinished),
            undone,
            unfinished,
            released,
        }
    }

    /// Feeds the live page until the service ends. No trial outlives the service.
    fn watch(&self) -> impl Future<Output = ()> + use<> {
        let (live, closing) = (self.app.live().clone(), self.closing.clone());
        let frames = live::run(
            self.checkout.clone(),
            live.clone(),
            self.settings.ttl,
            closing.clone(),
        );
        async move {
            frames.await;
            live.trials().close().await;
        }
    }
}

async fn upkeep(metrics: PrometheusHandle, closing: CancellationToken) {
    let work = async {
        loop {
            tokio::time::sleep(telemetry::UPKEEP).await;
            metrics.run_upkeep();
        }
    };
    closing.run_until_cancelled(work).await;
}

#[cfg(test)]
mod tests {
    use fencepost::stores::memory::Memory;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpStream;

    use super::*;
    use crate::locks::names::SWEEP;
    use crate::storage::sqlite::SqliteStorage;

    /// A generous limit: what does not happen within this time never will.
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_service_that_is_dropped_leaves_nothing_that_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let storage = SqliteStorage::open(&folder.path().join("shop.db")).unwrap();
        let locks: Arc<dyn Backend> = Arc::new(Memory::new());
        let extra = ExtraRoutes {
            routes: axum::Router::new(),
            description: utoipa::openapi::OpenApi::default(),
        };
        let settings = Settings {
            ttl: Duration::from_secs(1),
            ..Settings::default()
        };
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let database = Arc::downgrade(&storage);
        let service = Service::new(storage, Arc::clone(&locks), extra, settings, metrics);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(service.unwrap().run(listener, stop.clone()));
        let others = Locker::builder(locks).build().unwrap();
        let taken = async {
            while others.try_acquire(SWEEP).await.unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, taken).await.expect("it sweeps");
        let mut idle = TcpStream::connect(address).await.unwrap();
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        let free = others.acquire_within(SWEEP, LONG).await.unwrap();
        assert!(free.is_some(), "the lock of the sweeper is still renewed");
        let mut byte = [0];
        let closed = tokio::time::timeout(LONG, idle.read(&mut byte));
        assert!(closed.await.is_ok(), "a connection is still open");
        let ended = async {
            while database.strong_count() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let ended = tokio::time::timeout(LONG, ended).await;
        assert!(ended.is_ok(), "something still has the database open");
        drop(stop);
    }
}
