//! The task that repeats the releases that a server has not confirmed yet.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::server::Server;
use crate::clock::{BootClock, Clock, within};

/// The pause between two attempts.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How long one attempt may take.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// Makes sure that a task repeats the releases that this server has not confirmed.
pub(super) fn collect(server: &Arc<Server>) {
    if server.debts.begin_collecting() {
        tokio::spawn(collecting(Collector(Arc::downgrade(server))));
    }
}

/// Clears the mark when the task ends, including when its runtime ends.
struct Collector(Weak<Server>);

impl Drop for Collector {
    fn drop(&mut self) {
        if let Some(server) = self.0.upgrade() {
            server.debts.end_collecting();
        }
    }
}

async fn collecting(collector: Collector) {
    let mut pause = FIRST_RETRY_PAUSE;
    loop {
        BootClock.sleep_until(BootClock.now() + pause).await;
        let Some(server) = collector.0.upgrade() else {
            return;
        };
        let now = BootClock.now();
        let Some((owner, debt)) = server.debts.next(now) else {
            return;
        };
        let release = server.clone().release(debt.name, owner, debt.span, None);
        pause = match within(&BootClock, now + RELEASE_TIMEOUT, release).await {
            Some(Ok(_)) => {
                server.debts.paid(owner, debt.span);
                // The server is back, so send the others at once.
                Duration::ZERO
            }
            _ => (pause * 2).clamp(FIRST_RETRY_PAUSE, LONGEST_RETRY_PAUSE),
        };
    }
}
