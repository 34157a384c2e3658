//! Timeouts of the tests, and functions that wait for a condition or a future.

use std::future::Future;
use std::time::{Duration, Instant};

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
