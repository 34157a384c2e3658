//! The four workloads for any lock, in this process or in another program.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::player::{Player, monotonic_ns, nanoseconds, per_change, take_turns};

/// A contender.
pub(crate) trait Play {
    /// One task acquires and releases. Returns the time per pair.
    fn pairs(&mut self, pairs: usize) -> Duration;
    /// This many tasks do so, each with its own lock. Returns the time per pair.
    fn many(&mut self, tasks: usize, pairs: usize) -> Duration;
    /// This many tasks take turns with one lock. Returns the time per change of holder.
    fn turns(&mut self, tasks: usize, time: Duration) -> Duration;
    /// This many tasks wait for one lock, and each holds it for a millisecond. Returns the time per hold.
    fn queue(&mut self, waiters: usize) -> Duration;
}

/// A lock in this process.
pub(crate) trait Lock: Clone + Send + Sync + 'static {
    type Held: Send;

    /// Waits for lock `name` on behalf of task `seat`.
    fn lock(&self, seat: usize, name: usize) -> impl Future<Output = Self::Held> + Send;

    /// Returns when the lock is released.
    fn unlock(&self, held: Self::Held) -> impl Future<Output = ()> + Send;

    /// Returns as soon as the user of the lock can continue.
    fn let_go(&self, held: Self::Held) -> impl Future<Output = ()> + Send {
        self.unlock(held)
    }
}

/// The names of the locks in the workloads; the names of tasks follow.
const ALONE: usize = 0;
const TURNS: usize = 1;
const QUEUE: usize = 2;
const OWN: usize = 3;
/// How many names there are.
pub(crate) const NAMES: usize = OWN + 64;
/// How long it takes until everybody stands in line.
const ARRIVING: Duration = Duration::from_millis(150);

/// A contender with a lock in this process.
pub(crate) struct Here<L> {
    pub(crate) runtime: Rc<Runtime>,
    pub(crate) lock: L,
}

impl<L: Lock> Here<L> {
    /// Runs the work in a spawned task, as a server would; waking the outermost future of a runtime takes a detour.
    fn in_a_task<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let work = self.runtime.spawn(work);
        self.runtime.block_on(work).expect("no panic")
    }

    /// Returns when somebody had a turn, and who.
    pub(crate) fn turns_taken(&self, tasks: usize, time: Duration) -> Vec<(u64, usize)> {
        let seen: Arc<Mutex<Vec<(u64, usize)>>> = Arc::default();
        let end = Instant::now() + time;
        let (lock, all) = (self.lock.clone(), seen.clone());
        self.in_a_task(async move {
            let playing: Vec<_> = (0..tasks)
                .map(|seat| {
                    let (lock, seen) = (lock.clone(), all.clone());
                    tokio::spawn(async move {
                        while Instant::now() < end {
                            let held = lock.lock(seat, TURNS).await;
                            let turn = (monotonic_ns(), seat);
                            seen.lock().expect("no panic").push(turn);
                            lock.let_go(held).await;
                        }
                    })
                })
                .collect();
            for task in playing {
                task.await.expect("no panic");
            }
            // Wait for the last release before anybody else has a turn.
            let last = lock.lock(0, TURNS).await;
            lock.unlock(last).await;
        });
        std::mem::take(&mut *seen.lock().expect("no panic"))
    }
}

impl<L: Lock> Play for Here<L> {
    fn pairs(&mut self, pairs: usize) -> Duration {
        let lock = self.lock.clone();
        self.in_a_task(async move {
            let started = Instant::now();
            for _ in 0..pairs {
                let held = lock.lock(0, ALONE).await;
                lock.unlock(held).await;
            }
            started.elapsed() / pairs as u32
        })
    }

    fn many(&mut self, tasks: usize, pairs: usize) -> Duration {
        let lock = self.lock.clone();
        self.in_a_task(async move {
            let started = Instant::now();
            let playing: Vec<_> = (0..tasks)
                .map(|seat| {
                    let lock = lock.clone();
                    tokio::spawn(async move {
                        for _ in 0..pairs {
                            let held = lock.lock(seat, OWN + seat).await;
                            lock.unlock(held).await;
                        }
                    })
                })
                .collect();
            for task in playing {
                task.await.expect("no panic");
            }
            started.elapsed() / (tasks * pairs) as u32
        })
    }

    fn turns(&mut self, tasks: usize, time: Duration) -> Duration {
        let start = monotonic_ns();
        per_change(self.turns_taken(tasks, time), start, time)
    }

    fn queue(&mut self, waiters: usize) -> Duration {
        let lock = self.lock.clone();
        self.in_a_task(async move {
            let first = lock.lock(waiters, QUEUE).await;
            let mut waiting = Vec::new();
            for seat in 0..waiters {
                let lock = lock.clone();
                waiting.push(tokio::spawn(async move {
                    let held = lock.lock(seat, QUEUE).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    lock.unlock(held).await;
                }));
            }
            tokio::time::sleep(ARRIVING).await;
            let started = Instant::now();
            lock.unlock(first).await;
            for task in waiting {
                task.await.expect("no panic");
            }
            started.elapsed() / waiters as u32
        })
    }
}

/// A contender with a lock of another program.
pub(crate) struct There(pub(crate) Player);

impl Play for There {
    fn pairs(&mut self, pairs: usize) -> Duration {
        self.0.time(&format!("pairs {pairs}")) / pairs as u32
    }

    fn many(&mut self, tasks: usize, pairs: usize) -> Duration {
        self.0.time(&format!("many {tasks} {pairs}")) / (tasks * pairs) as u32
    }

    fn turns(&mut self, tasks: usize, time: Duration) -> Duration {
        take_turns(std::slice::from_mut(&mut self.0), tasks, time)
    }

    fn queue(&mut self, waiters: usize) -> Duration {
        let answer = self.0.ask(&format!("queue {waiters}"));
        let time = answer.split_whitespace().next().expect("a time");
        nanoseconds(time) / waiters as u32
    }
}
