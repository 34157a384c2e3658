//! Timeouts of the tests, and functions that wait for a condition or a future.

use std::future::Future;
use std::time::{Duration, Instant};

use fencepost::Guard;
use fencepost_rig::is_soak;

/// The time after which a test gives up. Also the TTL of locks that must not expire during a test.
pub const LONG: Duration = Duration::from_secs(60);

/// Much shorter than a TTL of [`LONG`], so that nothing has expired, and much longer than a busy machine needs.
pub const SOON: Duration = Duration::from_secs(15);

/// Returns the delay that a busy machine may add to what a store promises. In a soak the tests run alone, and it is `alone`.
pub fn grace(alone: Duration) -> Duration {
    if is_soak() {
        alone
    } else {
        Duration::from_secs(3)
    }
}

/// Runs a test to its end on the calling thread, which must outlive the servers that the test starts.
pub fn run(test: impl Future<Output = ()>) {
    run_within(3 * LONG, test);
}

/// Runs a test that may take longer.
pub fn run_within(longest: Duration, test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(within(longest, "the end of the test", test));
}

/// Waits until a condition holds.
pub async fn eventually(what: &str, is_so: impl AsyncFnMut() -> bool) {
    eventually_within(LONG, what, is_so).await;
}

/// Waits until a condition holds. Panics if that takes too long.
pub async fn eventually_within(
    longest: Duration,
    what: &str,
    mut is_so: impl AsyncFnMut() -> bool,
) {
    let started = Instant::now();
    while !is_so().await {
        assert!(started.elapsed() < longest, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Waits until a store contains nothing of what the test has done. Panics with what is left if that takes too long.
pub async fn until_nothing_is_left(longest: Duration, mut left: impl AsyncFnMut() -> String) {
    let started = Instant::now();
    loop {
        let left = left().await;
        if left.is_empty() {
            return;
        }
        assert!(started.elapsed() < longest, "left at the server: {left}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for a future that must complete within [`SOON`].
pub async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    within(SOON, what, future).await
}

/// Waits for a future that must complete within this time.
pub async fn within<F: Future>(longest: Duration, what: &str, future: F) -> F::Output {
    let done = tokio::time::timeout(longest, future).await;
    done.unwrap_or_else(|_| panic!("not within {longest:?}: {what}"))
}

/// Waits until a lock has been held for one TTL and renewed twice. Panics at once if it is lost.
pub async fn outlives_its_ttl(guard: &Guard, ttl: Duration) {
    let started = Instant::now();
    let (mut renewals, mut valid_for) = (0, guard.valid_for());
    while started.elapsed() < ttl || renewals < 2 {
        tokio::time::sleep(Duration::from_millis(3)).await;
        if guard.is_lost() {
            panic!("{}", guard.lost().await);
        }
        assert!(started.elapsed() < LONG.max(ttl * 2), "not renewed twice");
        let left = guard.valid_for();
        renewals += u32::from(left > valid_for);
        valid_for = left;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fencepost::Locker;
    use fencepost::stores::memory::Memory;

    use super::*;

    const TTL: Duration = Duration::from_secs(1);

    fn guard_for_a_ttl(keep_alive: bool) {
        run(async {
            let builder = Locker::builder(Arc::new(Memory::new())).ttl(TTL);
            let locker = builder.keep_alive(keep_alive).build().expect("settings");
            let guard = locker.acquire("a").await.expect("the lock");
            let started = Instant::now();
            outlives_its_ttl(&guard, TTL).await;
            assert!(started.elapsed() >= TTL);
        });
    }

    #[test]
    fn a_lock_that_is_renewed_outlives_its_ttl() {
        guard_for_a_ttl(true);
    }

    #[test]
    #[should_panic(expected = "the lock a was lost: its lease ended without renewal")]
    fn a_lock_that_is_not_renewed_does_not() {
        guard_for_a_ttl(false);
    }
}
