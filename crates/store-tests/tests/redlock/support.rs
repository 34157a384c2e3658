//! Three private Redis servers, proxies that fail on demand, and independent clients that inspect each server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::backend::Renewal;
use fencepost::stores::redlock::{Redlock, RedlockBuilder};
use fencepost::{Backend, Claim, Effect, Error, ErrorKind, Guard, Locker, OwnerId};
use fencepost_rig::{Proxy, Redis};
pub(crate) use fencepost_store_tests::redis::{Plain, contains};
use fencepost_store_tests::until_nothing_is_left;
pub(crate) use fencepost_store_tests::{
    LONG, NAME, SOON, claim, eventually, eventually_within, is_soak, locker, now, poll_at_most,
    run, run_within, soon,
};

/// The counter of the lock, on each server.
pub(crate) const COUNTER: &str = "fp:{stock}:quorum:stock";

pub(crate) struct Servers(pub(crate) [Redis; 3]);

impl Servers {
    pub(crate) fn start() -> Self {
        Self([(); 3].map(|()| Redis::start().unwrap()))
    }

    /// Starts servers that write to disk before they answer.
    pub(crate) fn start_durable() -> Self {
        let how = Redis::builder().arguments(["--appendonly", "yes", "--appendfsync", "always"]);
        Self([(); 3].map(|()| how.start().unwrap()))
    }

    pub(crate) fn address(&self) -> String {
        address_of(self.0.each_ref().map(Redis::address))
    }

    pub(crate) async fn store(&self) -> Arc<Redlock> {
        open(&self.address()).await
    }

    pub(crate) async fn patient_store(&self) -> Arc<Redlock> {
        open_patient(&self.address()).await
    }

    pub(crate) fn roads(&self) -> Roads {
        Roads(
            self.0
                .each_ref()
                .map(|server| Proxy::start(server.address()).unwrap()),
        )
    }

    pub(crate) fn plain(&self, at: usize) -> Plain {
        Plain::open(self.0[at].address())
    }

    /// Returns the lock's value on one server.
    pub(crate) fn value(&self, at: usize) -> Option<String> {
        self.plain(at).text(&["GET", NAME])
    }

    /// Returns the servers on which this owner has the key.
    pub(crate) fn held_by(&self, owner: OwnerId) -> Vec<usize> {
        let owner = owner.to_string();
        let is_his = |at: &usize| {
            self.value(*at)
                .is_some_and(|value| value.starts_with(&owner))
        };
        (0..3).filter(is_his).collect()
    }

    /// Sets the counter, as if another client had drawn this count.
    pub(crate) fn set_count(&self, at: usize, count: u64) {
        let count = count.to_string();
        let mut plain = self.plain(at);
        plain.does(&["HSET", COUNTER, "layout", "2", "count", &count]);
        plain.does(&["PEXPIRE", COUNTER, "600000"]);
    }

    /// Extends the lease until every server has the key and has executed one more extension. Then each of them votes, and no
    /// extension is under way.
    pub(crate) async fn spread(&self, store: &Redlock, claim: &Claim) {
        let started = Instant::now();
        loop {
            let before = self.ends();
            tokio::time::sleep(Duration::from_millis(20)).await;
            let renewed = store.renew(std::slice::from_ref(claim)).await.remove(0);
            let is_extended = matches!(renewed, Ok(Renewal::Extended));
            let was_everywhere = before.iter().all(|end| *end > 0);
            if is_extended && was_everywhere && self.are_extended(before).await {
                return;
            }
            let values = [0, 1, 2].map(|at| self.value(at));
            let is_late = started.elapsed() > LONG;
            assert!(
                !is_late,
                "never on all servers for {}: {values:?}, {renewed:?}",
                claim.owner
            );
        }
    }

    /// Returns whether every server has extended a key that ended at that time. A server that was not waited for may not have
    /// been asked.
    async fn are_extended(&self, before: [i64; 3]) -> bool {
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(2) {
            let mut ends = self.ends().into_iter().zip(before);
            if ends.all(|(now, before)| now > before) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        false
    }

    /// Returns when the lock's key expires on each server, in milliseconds of its clock; negative if there is none.
    fn ends(&self) -> [i64; 3] {
        [0, 1, 2].map(|at| self.plain(at).number(&["PEXPIRETIME", NAME]))
    }

    /// Acquires the lock repeatedly until its key is on every server.
    pub(crate) async fn held_everywhere(&self, locker: &Locker) -> Guard {
        let started = Instant::now();
        loop {
            let guard = soon("a lock", locker.acquire(NAME)).await.unwrap();
            if self.held_by(guard.owner()).len() == self.0.len() {
                return guard;
            }
            assert!(guard.release().await.is_released());
            assert!(started.elapsed() < LONG, "never on all servers");
        }
    }

    /// Waits until nothing is left on any server but counters with an expiry.
    pub(crate) async fn are_clean(&self) {
        for at in 0..3 {
            self.wait_until_clean(at).await;
        }
    }

    pub(crate) async fn wait_until_clean(&self, at: usize) {
        let mut plain = self.plain(at);
        let left = async || plain.left_besides("}:quorum:");
        until_nothing_is_left(SOON, left).await;
    }
}

/// A proxy in front of each server.
pub(crate) struct Roads(pub(crate) [Proxy; 3]);

impl Roads {
    pub(crate) fn address(&self) -> String {
        address_of(self.0.each_ref().map(Proxy::address))
    }

    pub(crate) async fn store(&self) -> Arc<Redlock> {
        open(&self.address()).await
    }

    pub(crate) async fn patient_store(&self) -> Arc<Redlock> {
        open_patient(&self.address()).await
    }
}

fn address_of(servers: [SocketAddr; 3]) -> String {
    let servers = servers.map(|address| address.to_string());
    format!("redlock://{}", servers.join(","))
}

/// Returns settings whose timeouts suit a busy machine.
pub(crate) fn patient(address: &str) -> RedlockBuilder {
    Redlock::builder(address).server_timeout(Duration::from_secs(5))
}

/// Opens a store whose timeouts suit a busy machine.
async fn open_patient(address: &str) -> Arc<Redlock> {
    Arc::new(patient(address).open().await.unwrap())
}

pub(crate) async fn open(address: &str) -> Arc<Redlock> {
    Arc::new(Redlock::open(address).await.unwrap())
}

/// Renews until a majority decides.
pub(crate) async fn renewed(store: &Redlock, claim: &Claim) -> Renewal {
    let renewed = store.renew(std::slice::from_ref(claim)).await.remove(0);
    renewed.unwrap()
}

/// Asserts what an error is, and that it is the store's own and not one of a single server.
#[track_caller]
pub(crate) fn assert_error(error: &Error, kind: ErrorKind, effect: Effect, words: &str) {
    assert_eq!(error.store(), Some("redlock"));
    fencepost_store_tests::assert_error(error, kind, effect, words);
}

/// Asserts the same, whatever the effect: it is none only if every server that was asked for its key answered the release in time.
#[track_caller]
pub(crate) fn assert_kind(error: &Error, kind: ErrorKind, words: &str) {
    assert_eq!(error.store(), Some("redlock"));
    fencepost_store_tests::assert_kind(error, kind, words);
}
