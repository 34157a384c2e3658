//! Dropping a future at any point leaves no key and no lease.

use std::future::Future;
use std::time::{Duration, Instant};

use fencepost::Locker;

use crate::support::{
    LONG, NAME, Plain, is_soak, locker, open, poll_at_most, released, run_within, soon,
};

#[derive(Clone, Copy, Debug)]
enum Cut {
    Polls(usize),
    After(Duration),
}

impl Cut {
    /// Returns whether the future completed first.
    async fn apply<F: Future>(self, future: F) -> bool {
        match self {
            Self::Polls(times) => soon("the future", poll_at_most(times, future))
                .await
                .is_some(),
            Self::After(delay) => tokio::time::timeout(delay, future).await.is_ok(),
        }
    }
}

struct Stage {
    server: fencepost_rig::Etcd,
    holder: Locker,
    plain: Plain,
}

impl Stage {
    async fn new() -> Self {
        let server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let plain = Plain::open(server.address()).await;
        Self {
            holder: locker(&store, LONG),
            plain,
            server,
        }
    }

    /// Acquires a free lock and releases it.
    async fn alone(&mut self, cut: Cut) -> bool {
        let mine = locker(&open(&self.server.url()).await, LONG);
        let done = cut
            .apply(async { mine.acquire(NAME).await.unwrap().release().await })
            .await;
        soon("everything to be given back", mine.shutdown()).await;
        self.plain.is_clean_within(LONG / 4).await;
        done
    }

    /// Waits for a lock that is released meanwhile, and then releases it.
    async fn contended(&mut self, cut: Cut) -> bool {
        let mine = locker(&open(&self.server.url()).await, LONG);
        let held = self.holder.acquire(NAME).await.unwrap();
        let asking = async { mine.acquire(NAME).await.unwrap().release().await };
        let releasing = async {
            // It joins the line, if it gets that far.
            let _ =
                tokio::time::timeout(Duration::from_millis(30), self.plain.wait_for_line(2)).await;
            released(held).await;
        };
        let (done, ()) = tokio::join!(cut.apply(asking), releasing);
        soon("everything to be given back", mine.shutdown()).await;
        self.plain.is_clean_within(LONG / 4).await;
        done
    }
}

pub(crate) fn after_every_poll() {
    run_within(4 * LONG, async {
        let mut stage = Stage::new().await;
        let mut polls = [0, 0];
        for left in 1.. {
            polls[0] = left;
            if stage.alone(Cut::Polls(left)).await {
                break;
            }
        }
        for left in 1.. {
            polls[1] = left;
            if stage.contended(Cut::Polls(left)).await {
                break;
            }
        }
        println!("cancelled after each of {polls:?} polls");
        assert!(polls[0] > 1 && polls[1] > 2, "{polls:?}");
    });
}

/// Requests continue in their own tasks when their future is dropped, so the timing matters too, not only the await point.
pub(crate) fn after_every_delay() {
    let steps = if is_soak() { 400 } else { 40 };
    run_within(8 * LONG, async move {
        let mut stage = Stage::new().await;
        for is_contended in [false, true] {
            let started = Instant::now();
            if is_contended {
                assert!(stage.contended(Cut::After(LONG)).await);
            } else {
                assert!(stage.alone(Cut::After(LONG)).await);
            }
            let whole = started.elapsed();
            let mut done = 0;
            for step in 0..steps {
                let cut = Cut::After(whole * step / steps);
                done += usize::from(if is_contended {
                    stage.contended(cut).await
                } else {
                    stage.alone(cut).await
                });
            }
            println!("cancelled at {steps} moments of {whole:?}; {done} were done before");
        }
    });
}

/// Many clients want the lock at the same moment, by waiting and by trying. A client that saw it free but came too late has a
/// lease and no key. Nothing of those leases is left either.
pub(crate) fn races_leave_nothing() {
    const TASKS: usize = 6;
    run_within(4 * LONG, async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let mut plain = Plain::open(server.address()).await;
        let mut lockers = Vec::new();
        for _ in 0..TASKS {
            lockers.push(locker(&open(&server.url()).await, LONG));
        }
        let mut refused = 0;
        for round in 0..30 {
            let asking = lockers.iter().enumerate().map(|(number, locker)| {
                let (locker, is_try) = (locker.clone(), (number + round) % 2 == 0);
                tokio::spawn(async move {
                    let guard = if is_try {
                        locker.try_acquire(NAME).await.unwrap()
                    } else {
                        Some(locker.acquire(NAME).await.unwrap())
                    };
                    let Some(guard) = guard else { return 1 };
                    released(guard).await;
                    0
                })
            });
            for asked in futures_util::future::join_all(asking).await {
                refused += asked.unwrap();
            }
            plain.is_clean_within(LONG / 4).await;
        }
        println!(
            "races_leave_nothing: {refused} of {} tries came too late",
            30 * TASKS / 2
        );
        assert!(refused > 0, "it was to be contended");
    });
}
