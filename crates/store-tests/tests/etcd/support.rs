//! Private etcd servers, stores connected to them, and an independent client that inspects their keys.

use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::etcd::Etcd;
use fencepost::stores::etcd::client::{Client, GetOptions};
use fencepost::{Backend, Guard, Locker};
pub(crate) use fencepost_store_tests::{
    LONG, NAME, SOON, assert_error, claim, is_soak, now, poll_at_most, run, run_within, soon,
};
use fencepost_store_tests::{eventually, until_nothing_is_left};

/// Returns how long etcd may take to notice the end of a lease, including delays of a busy machine. In a soak the tests run
/// alone.
pub(crate) fn noticed_within() -> Duration {
    Duration::from_millis(if is_soak() { 1_500 } else { 4_000 })
}

pub(crate) async fn open(url: &str) -> Arc<Etcd> {
    Arc::new(Etcd::open(url).await.unwrap())
}

/// Creates a locker whose tasks each join the store's line. Its timeouts are long, because a busy machine is not what is
/// tested.
pub(crate) fn locker(store: &Arc<Etcd>, ttl: Duration) -> Locker {
    let builder = Locker::builder(store.clone()).ttl(ttl).store_timeout(LONG);
    builder.without_hand_over().build().unwrap()
}

/// A client that is independent of the store.
pub(crate) struct Plain(pub(crate) Client);

impl Plain {
    pub(crate) async fn open(address: std::net::SocketAddr) -> Self {
        Self(Client::connect([address.to_string()], None).await.unwrap())
    }

    /// Returns all keys below `prefix`.
    pub(crate) async fn keys(&mut self, prefix: &str) -> Vec<String> {
        let options = match prefix {
            "" => GetOptions::new().with_all_keys(),
            _ => GetOptions::new().with_prefix(),
        };
        let found = self.0.get(prefix, Some(options)).await.unwrap();
        let keys = found
            .kvs()
            .iter()
            .map(|kv| kv.key_str().unwrap().to_owned());
        keys.collect()
    }

    pub(crate) async fn leases(&mut self) -> Vec<i64> {
        let found = self.0.leases().await.unwrap();
        found.leases().iter().map(|lease| lease.id()).collect()
    }

    pub(crate) async fn put(&mut self, key: &str, value: &str) {
        self.0.put(key, value, None).await.unwrap();
    }

    pub(crate) async fn get(&mut self, key: &str) -> Option<String> {
        let found = self.0.get(key, None).await.unwrap();
        let first = found.kvs().first();
        first.map(|kv| kv.value_str().unwrap().to_owned())
    }

    /// Waits until this many claims are in line, including the holder.
    pub(crate) async fn wait_for_line(&mut self, count: usize) {
        eventually(&format!("a line of {count}"), async || {
            self.keys(&format!("{NAME}/")).await.len() == count
        })
        .await;
    }

    /// Waits until no key and no lease is left, long before any of them would expire.
    pub(crate) async fn wait_until_clean(&mut self) {
        self.is_clean_within(SOON).await;
    }

    pub(crate) async fn is_clean_within(&mut self, longest: Duration) {
        until_nothing_is_left(longest, async || {
            let (keys, leases) = (self.keys("").await, self.leases().await);
            if keys.is_empty() && leases.is_empty() {
                String::new()
            } else {
                format!("{keys:?} {leases:?}")
            }
        })
        .await;
    }
}

/// Acquires and releases the lock, and checks that its fence is above `last`. Returns the fence.
pub(crate) async fn works(store: &Arc<Etcd>, last: u64) -> u64 {
    let locker = locker(store, LONG);
    let guard = soon("the lock", locker.acquire(NAME)).await.unwrap();
    let epoch = guard.fence().epoch();
    assert!(epoch > last, "{epoch} after {last}");
    released(guard).await;
    epoch
}

/// Waits until the store shows this many claims in line.
pub(crate) async fn until_waiting<B: Backend + ?Sized>(store: &Arc<B>, count: usize) {
    let name = NAME.try_into().unwrap();
    eventually(&format!("{count} in line"), async || {
        let record = store.inspect(&name).await.unwrap();
        record.is_some_and(|record| record.waiting.len() == count)
    })
    .await;
}

/// Releases a lock that must still be held.
pub(crate) async fn released(guard: Guard) {
    let outcome = guard.release().await;
    assert!(outcome.is_released(), "{outcome:?}");
}
