//! Sixteen tasks pass one lock around: changes of holder per second.
//!
//! All tasks are in line before the clock starts, and each goes back to the end of the line after its turn. With both locks, every release
//! therefore finds a waiter, so this measures the hand-over and not the luck of an idle lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, yield_now};

use crate::lock::{Lock, Ours, Theirs};
use crate::measure::{Effort, Table, rounds};

const TASKS: usize = 16;
const GOAL: f64 = 0.5;

/// The work under the lock.
#[derive(Clone, Copy)]
enum Work {
    /// Almost nothing: measures the hand-over alone. Printed without a goal.
    Increment,
    /// The least work that needs an async lock: the holder awaits once.
    IncrementAndYield,
}

impl Work {
    fn goal(self) -> Option<f64> {
        match self {
            Self::Increment => None,
            Self::IncrementAndYield => Some(GOAL),
        }
    }
}

pub(crate) fn compare(effort: Effort) -> Table {
    let mut table = Table::new(
        "hand-over between 16 tasks, ours / tokio::sync::Mutex, by changes of holder per second",
    );
    let two_workers = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build();
    let one_thread = Builder::new_current_thread().enable_time().build();
    for (runtime, threads) in [(one_thread, "one thread"), (two_workers, "two workers")] {
        let runtime = runtime.expect("a runtime");
        for (work, doing) in [
            (Work::IncrementAndYield, "increment and yield"),
            (Work::Increment, "increment alone"),
        ] {
            let what = format!("{threads}, {doing}");
            compare_on(&runtime, work, effort, &what, &mut table);
        }
    }
    table
}

fn compare_on(runtime: &Runtime, work: Work, effort: Effort, what: &str, table: &mut Table) {
    let turns = effort.pick(2_000, 20);
    let (ours, theirs) = (Ours::in_memory(), Theirs::default());
    let [ours, theirs] = rounds(
        effort.pick(41, 1),
        [
            &mut || runtime.block_on(pass_around(ours.clone(), work, turns)),
            &mut || runtime.block_on(pass_around(theirs.clone(), work, turns)),
        ],
    );
    let here = format!("ours {}, tokio {}", ours.rate(), theirs.rate());
    table.ratio(ours.speed_against(&theirs), work.goal(), what, here);
}

/// Returns the time per turn when each task takes the lock this many times.
async fn pass_around<L: Lock>(lock: L, work: Work, turns: usize) -> Duration {
    let counter = Arc::new(AtomicU64::new(0));
    let in_line = Arc::new(AtomicUsize::new(0));
    let gate = lock.lock().await;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (lock, counter, in_line) = (lock.clone(), counter.clone(), in_line.clone());
        tasks.spawn(async move {
            in_line.fetch_add(1, Ordering::Relaxed);
            for _ in 0..turns {
                let _guard = lock.lock().await;
                do_work(&counter, work).await;
            }
        });
    }
    while in_line.load(Ordering::Relaxed) < TASKS {
        yield_now().await;
    }
    let started = Instant::now();
    drop(gate);
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task panics");
    }
    let took = started.elapsed();
    let holds = TASKS * turns;
    assert_eq!(
        counter.load(Ordering::Relaxed),
        holds as u64,
        "two held the lock at once"
    );
    took / holds as u32
}

/// Increments with a plain read and write, so that only the lock keeps the counter correct.
async fn do_work(counter: &AtomicU64, work: Work) {
    let value = counter.load(Ordering::Relaxed);
    if let Work::IncrementAndYield = work {
        yield_now().await;
    }
    counter.store(value + 1, Ordering::Relaxed);
}
