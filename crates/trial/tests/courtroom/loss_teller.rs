//! Keeps a grant on Redis alive in the background, and says so when it is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use fencepost_trial::protocol::Reply;

use crate::flaw::Flaw;
use crate::latch::Grant;
use crate::redis_latch::RedisLatch;

/// How much later than it claims a lock tells its loss, if it is late.
const LATE: Duration = Duration::from_secs(4);

/// What the process knows about one of its grants.
#[derive(Default, Clone)]
pub(crate) struct Teller {
    is_lost: Arc<AtomicBool>,
    is_released: Arc<AtomicBool>,
}

impl Teller {
    /// Starts to renew the grant. It ends with the grant, or with its process.
    pub(crate) fn start(redis: RedisLatch, grant: &Grant, hold: u64, ttl: Duration) -> Self {
        let teller = Self::default();
        let (own, key, token) = (teller.clone(), grant.key.clone(), grant.token.clone());
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(ttl / 5);
                if own.is_released.load(Relaxed) {
                    return;
                }
                if !redis.renew(&key, &token, ttl) {
                    break own.tell(hold, redis.flaw());
                }
            }
        });
        teller
    }

    fn tell(&self, hold: u64, flaw: Option<Flaw>) {
        if flaw == Some(Flaw::TellsLate) {
            std::thread::sleep(LATE);
        }
        // Whoever takes it back says so, and knows nothing of it when it is asked.
        self.is_lost
            .store(flaw != Some(Flaw::TakesLossBack), Relaxed);
        let lost = serde_json::to_string(&Reply::Lost { hold }).unwrap();
        println!("{lost}");
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Relaxed)
    }

    /// Ends the renewal before the grant is released.
    pub(crate) fn end(&self) {
        self.is_released.store(true, Relaxed);
    }
}
