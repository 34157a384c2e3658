//! A private Redis server, stores connected to it through a proxy, and an independent client that inspects its keys.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::redis::Redis;
use fencepost::{Backend, Claim, Grant, Guard, Locker, OwnerId};
use fencepost_rig::{Fate, Proxy};
pub(crate) use fencepost_store_tests::redis::{Plain, contains};
use fencepost_store_tests::until_nothing_is_left;
pub(crate) use fencepost_store_tests::{
    LONG, NAME, SOON, assert_error, claim, eventually, eventually_within, is_soak, locker, now,
    outlives_its_ttl, poll_at_most, run, run_within, soon,
};
use tokio::task::JoinHandle;

/// The lease of a grant to a waiter in line, if the TTL is longer.
pub(crate) const WAITER_LEASE: Duration = Duration::from_millis(600);
/// Less than the lifetime of a line without heartbeats.
const CLEAN_WITHIN: Duration = Duration::from_secs(6);

/// A private server.
pub(crate) struct Server(pub(crate) fencepost_rig::Redis);

impl Server {
    pub(crate) fn start() -> Self {
        Self(fencepost_rig::Redis::start().unwrap())
    }

    pub(crate) fn start_with<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Self {
        let how = fencepost_rig::Redis::builder().arguments(arguments);
        Self(how.start().unwrap())
    }

    pub(crate) fn proxy(&self) -> Proxy {
        Proxy::start(self.0.address()).unwrap()
    }

    pub(crate) async fn store(&self) -> Arc<Redis> {
        open(self.0.address()).await
    }

    /// Opens two lockers, each with its own connection.
    pub(crate) async fn two_lockers(&self) -> (Locker, Locker) {
        let (one, other) = (self.store().await, self.store().await);
        (locker(&one, LONG), locker(&other, LONG))
    }

    /// Lets a task of `locker` wait for the lock. Returns when the task is in line.
    pub(crate) async fn waiter_of(&self, locker: &Locker) -> JoinHandle<Guard> {
        let locker = locker.clone();
        let waiting = tokio::spawn(async move { locker.acquire(NAME).await.unwrap() });
        self.wait_for_line(NAME, 1).await;
        waiting
    }

    /// Opens a client that is independent of the store.
    pub(crate) fn plain(&self) -> Plain {
        Plain::open(self.0.address())
    }

    /// Returns how many claims wait for a lock.
    pub(crate) fn in_line(&self, name: &str) -> i64 {
        self.plain()
            .number(&["ZCARD", &format!("fp:{{{name}}}:line:{name}")])
    }

    pub(crate) async fn wait_for_line(&self, name: &str, length: i64) {
        let what = format!("a line of {length}");
        eventually(&what, async || self.in_line(name) == length).await;
    }

    /// Waits until this many claims have sent a heartbeat, which shows that they know they are in line.
    pub(crate) async fn wait_for_heartbeats(&self, name: &str, count: i64) {
        let key = format!("fp:{{{name}}}:wait:{name}");
        let mut plain = self.plain();
        eventually("heartbeats", async || {
            plain.number(&["HLEN", &key]) == count
        })
        .await;
    }

    /// Waits until nothing is left of any lock but fences with an expiry.
    pub(crate) async fn wait_until_clean(&self) {
        let mut plain = self.plain();
        let left = async || plain.left_besides("}:fence:");
        until_nothing_is_left(CLEAN_WITHIN, left).await;
    }
}

/// Opens a store.
pub(crate) async fn open(address: SocketAddr) -> Arc<Redis> {
    Arc::new(Redis::open(&format!("redis://{address}")).await.unwrap())
}

/// Returns how much longer a holder may believe in this grant.
pub(crate) fn belief(grant: &Grant) -> Duration {
    (grant.asked_at + grant.lease).saturating_duration_since(now())
}

/// Returns how much longer the server excludes others for this owner; zero if it does not.
pub(crate) fn kept_for(plain: &mut Plain, owner: OwnerId) -> Duration {
    let script = "local v = redis.call('GET', KEYS[1]) \
        if v and string.sub(v, 1, 32) == ARGV[1] then return redis.call('PTTL', KEYS[1]) end return 0";
    let left = plain.number(&["EVAL", script, "1", NAME, &owner.to_string()]);
    Duration::from_millis(left.max(0).cast_unsigned())
}

/// Returns a judge that applies only to grants sent to waiters.
pub(crate) fn grants(fate: Fate) -> impl Fn(&[u8]) -> Fate + Send + Sync + 'static {
    move |message| if is_grant(message) { fate } else { Fate::Pass }
}

pub(crate) fn is_grant(message: &[u8]) -> bool {
    message.starts_with(b">") && contains(message, "$7\r\nmessage\r\n")
}

/// Releases a lock with a raw request, for tests that look at single answers.
pub(crate) async fn releases(store: &Redis, claim: &Claim) -> fencepost::backend::Release {
    soon("a release", store.release(claim)).await.unwrap()
}
