//! The health check of a candidate: its limits, and the task that repeats it while the candidate leads.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinHandle;

use crate::clock::{BoxFuture, Clock, within};
use crate::guard::LossHandle;
use crate::lease::LostReason;

/// A check of the user's.
pub(super) struct HealthCheck {
    pub(super) every: Duration,
    check: Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
}

impl HealthCheck {
    pub(super) fn new<C, F>(every: Duration, check: C) -> Self
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = bool> + Send + 'static,
    {
        Self {
            every,
            check: Box::new(move || Box::pin(check())),
        }
    }

    /// Makes the check once. A check that panics or takes too long has failed.
    pub(super) async fn passes(&self, clock: &dyn Clock) -> bool {
        let until = clock.now() + self.every;
        // The future is created inside, because the function that creates it may panic, too.
        let check = AssertUnwindSafe(async { (self.check)().await }).catch_unwind();
        matches!(within(clock, until, check).await, Some(Ok(true)))
    }
}

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthCheck")
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}

/// The task that repeats a check. Dropping this ends it.
#[derive(Debug)]
pub(super) struct Checking(JoinHandle<()>);

impl Checking {
    /// Repeats the check until it fails, which loses the lock, or until the lock is lost for another reason.
    pub(super) fn start(health: Arc<HealthCheck>, lock: LossHandle) -> Self {
        Self(tokio::spawn(async move {
            tokio::select! {
                () = until_unhealthy(&health, lock.clock()) => lock.lose(LostReason::Unhealthy),
                () = lock.lost() => {}
            }
        }))
    }
}

impl Drop for Checking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn until_unhealthy(health: &HealthCheck, clock: &dyn Clock) {
    loop {
        clock.sleep_until(clock.now() + health.every).await;
        if !health.passes(clock).await {
            return;
        }
    }
}
