//! A private Postgres server, stores on it, and an independent session that inspects its locks.

use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::postgres::Postgres;
use fencepost::{Backend, ErrorKind};
pub(crate) use fencepost_store_tests::{
    LONG, NAME, SOON, assert_error, claim_on as claim, is_soak, locker, now, outlives_its_ttl,
    poll_at_most, run, run_within, soon,
};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// The delay that a busy machine may add to what is promised.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// A private server.
pub(crate) struct Server(pub(crate) fencepost_rig::Postgres);

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Its data must survive a crash of the server, but not of the machine.
    pub(crate) fn start_with(settings: &[&str]) -> Self {
        let settings = [&["fsync=off"], settings].concat();
        Self(fencepost_rig::Postgres::start_with(&settings).unwrap())
    }

    pub(crate) async fn store(&self) -> Arc<Postgres> {
        open(&self.0.url()).await
    }

    pub(crate) async fn impatient_store(&self) -> Arc<Postgres> {
        open_impatient(&self.0.url()).await
    }

    pub(crate) async fn eyes(&self) -> Eyes {
        Eyes::open(&self.0.url()).await
    }

    /// Returns the address for another user.
    pub(crate) fn url_of(&self, user: &str) -> String {
        format!("postgres://{user}@{}/postgres", self.0.address())
    }
}

/// A session that is independent of the store.
pub(crate) struct Eyes(Client);

impl Eyes {
    pub(crate) async fn open(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    /// Returns the first column of the first row; empty if there is no row.
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

    /// Returns the number of sessions that wait for an advisory lock.
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

    /// Returns the number of sessions of our stores.
    pub(crate) async fn sessions(&self) -> i64 {
        let ours = "select count(*) from pg_stat_activity where application_name like 'fencepost%'";
        self.number(ours).await
    }

    /// Returns the process id of the holder.
    pub(crate) async fn holder(&self) -> i64 {
        self.number("select pid from pg_locks where locktype = 'advisory' and granted")
            .await
    }

    /// Waits until nothing is left of any lock.
    pub(crate) async fn wait_until_clean(&self) {
        eventually("no lock is left", async || {
            let left = "select count(*) from pg_locks where locktype = 'advisory'";
            self.number(left).await == 0
        })
        .await;
    }
}

/// Opens a store that may take longer to connect than it does by default, as on a busy machine.
pub(crate) async fn open(url: &str) -> Arc<Postgres> {
    let store = Postgres::builder(url).connect_timeout(SOON / 2).open();
    Arc::new(store.await.unwrap())
}

/// Opens a store with the default limit for connecting, for tests that cut connections or stop the server: a longer limit would change what
/// they see. If a busy machine takes longer, it is tried again.
pub(crate) async fn open_impatient(url: &str) -> Arc<Postgres> {
    for _ in 0..4 {
        match Postgres::open(url).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                println!("opening the store again: {error}");
            }
            opened => return Arc::new(opened.unwrap()),
        }
    }
    Arc::new(Postgres::open(url).await.unwrap())
}

/// Waits until the condition holds, long before a TTL of a minute is over.
pub(crate) async fn eventually(what: &str, is_so: impl AsyncFnMut() -> bool) {
    fencepost_store_tests::eventually_within(SOON, what, is_so).await;
}

/// Acquires and releases a lock.
pub(crate) async fn works(store: &dyn Backend) {
    let claim = claim("works", LONG);
    let granted = soon("a grant", store.try_acquire(&claim)).await.unwrap();
    assert!(granted.is_some());
    let released = soon("a release", store.release(&claim)).await.unwrap();
    assert_eq!(released, fencepost::backend::Release::Freed);
}
