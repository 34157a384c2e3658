//! A private server, stores on it, and eyes of our own on what it holds.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::clock::{BootClock, Clock};
use fencepost::stores::postgres::Postgres;
use fencepost::{Backend, Claim, Effect, Error, ErrorKind, Locker, Moment, OwnerId};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Whatever does not happen within this time never will.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// Much less than the TTLs here, much more than what a busy machine needs.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// The lock everybody here wants.
pub(crate) const NAME: &str = "stock";
/// What a busy machine may add to what is promised.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

pub(crate) fn is_soak() -> bool {
    std::env::var_os("FENCEPOST_SOAK").is_some_and(|value| value == "1")
}

/// Runs on the thread of the test, which must outlive the server it starts.
pub(crate) fn run(test: impl Future<Output = ()>) {
    run_within(3 * LONG, test);
}

pub(crate) fn run_within(longest: Duration, test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let done = tokio::time::timeout(longest, test).await;
        done.expect("a test that ends");
    });
}

/// A server of our own.
pub(crate) struct Server(pub(crate) fencepost_rig::Postgres);

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(settings: &[&str]) -> Self {
        Self(fencepost_rig::Postgres::start_with(settings).unwrap())
    }

    pub(crate) async fn store(&self) -> Arc<Postgres> {
        open(&self.0.url()).await
    }

    pub(crate) async fn eyes(&self) -> Eyes {
        Eyes::open(&self.0.url()).await
    }

    /// The address for another user.
    pub(crate) fn url_of(&self, user: &str) -> String {
        format!("postgres://{user}@{}/postgres", self.0.address())
    }
}

/// A connection that knows nothing of ours.
pub(crate) struct Eyes(Client);

impl Eyes {
    pub(crate) async fn open(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    /// The first column of the first row; empty when there is none.
    pub(crate) async fn text(&self, statement: &str) -> String {
        let answer = self.0.simple_query(statement).await.expect(statement);
        let mut rows = answer.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        });
        rows.next().unwrap_or_default()
    }

    pub(crate) async fn number(&self, statement: &str) -> i64 {
        self.text(statement).await.parse().expect(statement)
    }

    /// Sessions that wait for any advisory lock.
    pub(crate) async fn waiting(&self) -> i64 {
        let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted";
        self.number(waiting).await
    }

    pub(crate) async fn wait_for_line(&self, length: i64) {
        eventually(&format!("a line of {length}"), async || {
            self.waiting().await == length
        })
        .await;
    }

    /// Sessions of our stores.
    pub(crate) async fn sessions(&self) -> i64 {
        let ours = "select count(*) from pg_stat_activity where application_name like 'fencepost%'";
        self.number(ours).await
    }

    /// The process that holds the lock.
    pub(crate) async fn holder(&self) -> i64 {
        self.number("select pid from pg_locks where locktype = 'advisory' and granted")
            .await
    }

    /// Nothing is left of any lock.
    pub(crate) async fn is_clean(&self) {
        eventually("no lock is left", async || {
            let left = "select count(*) from pg_locks where locktype = 'advisory'";
            self.number(left).await == 0
        })
        .await;
    }
}

pub(crate) async fn open(url: &str) -> Arc<Postgres> {
    Arc::new(Postgres::open(url).await.unwrap())
}

/// A locker whose tasks each stand in the server's line.
pub(crate) fn locker(store: &Arc<Postgres>, ttl: Duration) -> Locker {
    let builder = Locker::builder(store.clone()).ttl(ttl);
    builder.without_hand_over().build().unwrap()
}

/// A claim as a locker makes them.
pub(crate) fn claim(name: &str, ttl: Duration) -> Claim {
    Claim::new(
        name.try_into().unwrap(),
        OwnerId::random(&fencepost::random::SystemRandom),
        ttl,
    )
    .with_label("test")
}

pub(crate) fn now() -> Moment {
    BootClock.now()
}

/// Waits until it is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !is_so().await {
        assert!(started.elapsed() < SOON, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What must happen soon.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    let done = tokio::time::timeout(SOON, future).await;
    done.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"))
}

pub(crate) fn is(error: &Error, kind: ErrorKind, effect: Effect, words: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.effect(), effect, "{error}");
    assert!(error.to_string().contains(words), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

/// Takes and gives back.
pub(crate) async fn works(store: &dyn Backend) {
    let claim = claim("works", LONG);
    let granted = soon("a grant", store.try_acquire(&claim)).await.unwrap();
    assert!(granted.is_some());
    let released = soon("a release", store.release(&claim)).await.unwrap();
    assert_eq!(released, fencepost::Release::Freed);
}
