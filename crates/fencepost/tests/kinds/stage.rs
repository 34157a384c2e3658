//! A memory store that fails on demand, on a clock that the test moves.

use std::sync::Arc;
use std::time::Duration;

use fencepost::Locker;
use fencepost::stores::memory::Memory;
use fencepost::testing::{FakeClock, FlakyStore};

pub(crate) const TTL: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(100);

pub(crate) struct Stage {
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) store: Arc<FlakyStore>,
    /// The store inside, which never fails.
    pub(crate) memory: Arc<Memory>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let clock = FakeClock::new();
        let memory = Arc::new(Memory::with_clock(clock.clone()));
        Self {
            store: FlakyStore::new(memory.clone()),
            clock,
            memory,
        }
    }

    pub(crate) fn locker(&self) -> Locker {
        let builder = Locker::builder(self.store.clone());
        builder.ttl(TTL).build().unwrap()
    }

    /// Lets this much time pass, and the tasks of the test act.
    pub(crate) async fn pass(&self, time: Duration) {
        self.clock.advance_in_steps(time, STEP).await;
    }

    /// Lets time pass until the future completes.
    pub(crate) async fn in_time<F: Future>(&self, future: F) -> F::Output {
        let passing = async {
            for _ in 0..10_000 {
                self.pass(STEP).await;
            }
        };
        tokio::select! {
            biased;
            output = future => output,
            () = passing => panic!("not within 1000 s"),
        }
    }
}
