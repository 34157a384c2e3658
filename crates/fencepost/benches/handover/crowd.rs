//! Ten thousand tasks wait for one name: the memory of each, the order in which they are served, and the cost of a hand-over and of a
//! cancellation in a crowd compared with a small group.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, unconstrained, yield_now};

use crate::allocation::bytes_kept;
use crate::lock::{Lock, Nothing, Ours, Theirs};
use crate::measure::{Effort, Table, rounds};

type Waiter = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Which end of the line leaves first when all give up.
#[derive(Clone, Copy)]
enum Leaving {
    InOrder,
    Reversed,
}

fn one_thread() -> Runtime {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime")
}

/// Measures the bytes per waiting task.
pub(crate) fn weigh(effort: Effort) -> Table {
    let crowd = effort.pick(10_000, 100);
    let mut table = Table::new("bytes on the heap per waiting task, ours / tokio::sync::Mutex");
    let bare = weigh_tasks(crowd, Nothing);
    let theirs = weigh_waiters(crowd, Theirs::default());
    let ours = weigh_waiters(crowd, Ours::in_memory());
    let ratio = |ours: i64, theirs: i64| ours as f64 / theirs as f64;
    table.counts(
        ratio(ours, theirs),
        "with the task itself",
        format!("ours {ours}, tokio {theirs}"),
    );
    let (ours, theirs) = (ours - bare, theirs - bare);
    table.counts(
        ratio(ours, theirs),
        "beyond a task that waits for nothing",
        format!("ours {ours}, tokio {theirs}, such a task {bare}"),
    );
    table
}

fn weigh_waiters<L: Lock>(crowd: usize, lock: L) -> i64 {
    let runtime = one_thread();
    let gate = runtime.block_on(lock.lock());
    let bytes = weigh_tasks(crowd, lock.clone());
    drop(gate);
    bytes
}

/// Returns the heap per task that `crowd` tasks take while they wait. Weighs the second crowd, because the first one has grown the
/// scheduler's own queues to their full size.
fn weigh_tasks<L: Lock>(crowd: usize, lock: L) -> i64 {
    let runtime = one_thread();
    let started = Arc::new(AtomicUsize::new(0));
    let mut bytes = 0;
    for _ in 0..2 {
        started.store(0, Ordering::Relaxed);
        let mut tasks = Vec::with_capacity(crowd);
        (bytes, ()) = bytes_kept(|| {
            for _ in 0..crowd {
                let (started, lock) = (started.clone(), lock.clone());
                tasks.push(runtime.spawn(async move {
                    started.fetch_add(1, Ordering::Relaxed);
                    drop(lock.lock().await);
                }));
            }
            runtime.block_on(until_all(&started, crowd));
        });
        runtime.block_on(async {
            for task in tasks {
                task.abort();
                let _ = task.await;
            }
        });
    }
    bytes / crowd as i64
}

async fn until_all(count: &AtomicUsize, all: usize) {
    while count.load(Ordering::Relaxed) < all {
        yield_now().await;
    }
}

/// Compares ten thousand with a thousand.
pub(crate) fn serve_and_leave(effort: Effort) -> Table {
    let mut table = Table::new(
        "10,000 tasks waiting on one name, served first come first served: time per task, 10,000 / 1,000",
    );
    let runtime = one_thread();
    let folder = tempfile::tempdir().expect("a temporary folder");
    compare_sizes(&runtime, effort, "memory", Ours::in_memory(), &mut table);
    let in_file = Ours::in_file(&folder.path().join("locks.db"));
    compare_sizes(&runtime, effort, "SQLite", in_file, &mut table);
    compare_sizes(
        &runtime,
        effort,
        "tokio::sync::Mutex",
        Theirs::default(),
        &mut table,
    );
    table
}

fn compare_sizes<L: Lock>(
    runtime: &Runtime,
    effort: Effort,
    name: &str,
    lock: L,
    table: &mut Table,
) {
    let (small, large) = (effort.pick(1_000, 10), effort.pick(10_000, 100));
    let count = effort.pick(11, 1);
    let serve = |crowd| runtime.block_on(serve(lock.clone(), crowd));
    let [few, many] = rounds(count, [&mut || serve(small), &mut || serve(large)]);
    let here = format!("{} per task, {} all", many.time(), many.times(large).time());
    table.ratio(
        many.time_against(&few),
        None,
        &format!("{name}, served"),
        here,
    );
    for (leaving, how) in [
        (Leaving::InOrder, "cancelled in order"),
        (Leaving::Reversed, "cancelled in reverse"),
    ] {
        let leave = |crowd| runtime.block_on(leave(lock.clone(), crowd, leaving));
        let [few, many] = rounds(count, [&mut || leave(small), &mut || leave(large)]);
        let here = format!("{} per task", many.time());
        table.ratio(
            many.time_against(&few),
            None,
            &format!("{name}, {how}"),
            here,
        );
    }
}

/// Returns the time per task until everybody was served. The tasks join the line one after the other, at their first poll.
async fn serve<L: Lock>(lock: L, crowd: usize) -> Duration {
    let order = Arc::new(Mutex::new(Vec::with_capacity(crowd)));
    let started = Arc::new(AtomicUsize::new(0));
    let gate = lock.lock().await;
    let waiters = join_line(crowd, |index| {
        let (lock, order) = (lock.clone(), order.clone());
        Box::pin(async move {
            let _guard = lock.lock().await;
            order.lock().expect("no task panics").push(index);
        })
    })
    .await;
    let mut tasks = JoinSet::new();
    for waiter in waiters {
        let started = started.clone();
        tasks.spawn(async move {
            started.fetch_add(1, Ordering::Relaxed);
            waiter.await;
        });
    }
    until_all(&started, crowd).await;
    let clock = Instant::now();
    drop(gate);
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task panics");
    }
    let took = clock.elapsed();
    let order = order.lock().expect("no task panics");
    assert!(
        order.iter().copied().eq(0..crowd),
        "served in another order than that of joining"
    );
    took / crowd as u32
}

/// Returns the time per task to leave the line when all give up.
async fn leave<L: Lock>(lock: L, crowd: usize, leaving: Leaving) -> Duration {
    let gate = lock.lock().await;
    let mut waiters = join_line(crowd, |_| {
        let lock = lock.clone();
        Box::pin(async move { drop(lock.lock().await) })
    })
    .await;
    if let Leaving::Reversed = leaving {
        waiters.reverse();
    }
    let clock = Instant::now();
    for waiter in waiters {
        drop(waiter);
    }
    let took = clock.elapsed();
    drop(gate);
    // A task that stayed in line would get the lock now, and keep it.
    drop(lock.lock().await);
    took / crowd as u32
}

async fn join_line(crowd: usize, wait: impl Fn(usize) -> Waiter) -> Vec<Waiter> {
    let mut waiters: Vec<_> = (0..crowd).map(wait).collect();
    let join = poll_fn(|context| {
        for waiter in &mut waiters {
            assert!(
                waiter.as_mut().poll(context).is_pending(),
                "the lock is held"
            );
        }
        Poll::Ready(())
    });
    // Otherwise Tokio would make all but the first hundred yield before they have joined.
    unconstrained(join).await;
    waiters
}
