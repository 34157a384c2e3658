//! The whole service: what it is made of, and how it starts and ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::{Backend, Locker};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::breaker::BreakerSettings;
use crate::checkout::{Checkout, OrderPath};
use crate::events::Events;
use crate::http::{App, ExtraRoutes, HttpSettings, page};
use crate::live::{self, Lab};
use crate::locking::{Locks, Patience};
use crate::server::{self, ConnectionSettings};
use crate::storage::Storage;
use crate::{sweep, telemetry};

/// How long a lock lasts without renewal, when nobody says otherwise.
pub const TTL: Duration = Duration::from_secs(3);
/// How long the lock store may take for one answer: well within a request's deadline.
const STORE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long units stay reserved, when nobody says otherwise.
pub const RESERVE_FOR: Duration = Duration::from_secs(600);

/// How long idempotency keys are kept, when nobody says otherwise.
pub const KEEP_KEYS: Duration = Duration::from_secs(24 * 60 * 60);

/// What the service is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a lock lasts without renewal.
    pub ttl: Duration,
    /// How long to wait for locks that are taken.
    pub patience: Patience,
    /// When the lock store is left alone.
    pub breaker: BreakerSettings,
    /// What keeps two orders from the same units.
    pub path: OrderPath,
    /// How long units stay reserved.
    pub reserve_for: Duration,
    /// How long idempotency keys are kept at least; those of pending orders longer.
    pub keep_keys: Duration,
    /// Bounds and rights.
    pub http: HttpSettings,
    /// Bounds of connections.
    pub connections: ConnectionSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ttl: TTL,
            patience: Patience::default(),
            breaker: BreakerSettings::default(),
            path: OrderPath::Lock,
            reserve_for: RESERVE_FOR,
            keep_keys: KEEP_KEYS,
            http: HttpSettings::default(),
            connections: ConnectionSettings::default(),
        }
    }
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Requests that were under way when it was stopped, and were answered.
    pub finished: u64,
    /// Orders among those under way that gave up waiting: nothing was reserved.
    pub undone: u64,
    /// Requests under way that had no answer in time, or only that it comes too late. Their orders may have been made; the key tells.
    pub unfinished: u64,
    /// Locks that were held when it was stopped.
    pub released: u64,
}

/// A service that is ready to serve.
pub struct Service {
    app: App,
    checkout: Checkout,
    settings: Settings,
    metrics: Option<PrometheusHandle>,
    closing: CancellationToken,
}

impl Service {
    /// Puts the service together, with extra routes where there are any. `metrics` is what [`telemetry::install`] returned before the lock
    /// store was opened.
    ///
    /// # Errors
    /// A setting of the locks is out of range.
    pub fn new(
        storage: Arc<dyn Storage>,
        locks: Arc<dyn Backend>,
        extra: Option<ExtraRoutes>,
        settings: Settings,
        metrics: Option<PrometheusHandle>,
    ) -> fencepost::Result<Self> {
        telemetry::describe();
        let locker = Locker::builder(locks)
            .ttl(settings.ttl)
            .store_timeout(STORE_TIMEOUT)
            .build()?;
        let events = Events::default();
        let locks = Locks::new(
            locker,
            settings.breaker,
            settings.patience.clone(),
            events.clone(),
        );
        let checkout = Checkout::new(storage, locks, events, settings.path, settings.reserve_for);
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

    /// Lets the page ask this one for trials.
    #[must_use]
    pub fn with_lab(self, lab: Arc<dyn Lab>) -> Self {
        self.app.live().desk().hand_to(lab);
        self
    }

    /// Serves until told to stop; then finishes or undoes what is under way, and gives its locks back.
    ///
    /// # Cancel safety
    /// When dropped, nothing is waited for: locks end by their TTL.
    pub async fn run(self, listener: TcpListener, stop: CancellationToken) -> Report {
        let every = sweep::every(self.settings.reserve_for);
        let sweeper = sweep::run(
            self.checkout.clone(),
            every,
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
        let board = self.checkout.locks().board().clone();
        let noted = tokio::spawn(async move {
            stop.cancelled().await;
            // Streams end first: they would never end by themselves.
            let seen = (in_flight.count(), board.sums().active, Instant::now());
            closing.cancel();
            seen
        });
        let connections = self.settings.connections;
        server::serve(listener, routes, connections, &self.closing).await;
        let noted = noted.await.unwrap_or((0, 0, Instant::now()));
        let (in_flight, released, stopped) = noted;
        // Answers and orders share one time: whoever stops the service waits for no more than that, and a few last words.
        let left = connections.grace.saturating_sub(stopped.elapsed());
        self.checkout.finish(left).await;
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

    /// Shows what happens to whoever has the page open; ends with the service, and no trial outlives it.
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
            live.desk().close().await;
        }
    }
}

async fn upkeep(metrics: Option<PrometheusHandle>, closing: CancellationToken) {
    let work = async {
        loop {
            tokio::time::sleep(telemetry::UPKEEP).await;
            metrics.iter().for_each(PrometheusHandle::run_upkeep);
        }
    };
    closing.run_until_cancelled(work).await;
}
