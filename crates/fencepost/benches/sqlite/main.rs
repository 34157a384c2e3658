//! Uncontended acquire and release on SQLite, compared with the same statements without a lock library.
//!
//! There are three contenders, each with its own file in one temporary folder, opened and set up in the same way. *Ours* is
//! `Locker::acquire` and `Guard::release`. The *worker* sends the same statements to one thread over a channel and gets the answers over a
//! oneshot, as any async program has to. *Raw* calls them on the measuring thread.
//!
//! This is measured twice. On one core, waking the other thread costs the same every time; this ratio has a goal. On the cores that the
//! scheduler picks, the cost depends on how deeply each core sleeps, which says more about the machine.

mod contention;
mod core;
#[path = "../measure/mod.rs"]
mod measure;
mod statements;
mod worker;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::stores::sqlite::Sqlite;
use fencepost::{LockName, Locker};
use tokio::runtime::{Builder, Runtime};

use measure::{Effort, Samples, Table, rounds};
use statements::Statements;
use worker::Worker;

const NAME: &str = "bench:one-name";
const GOAL: f64 = 0.8;

fn main() {
    let effort = Effort::from_arguments();
    statements::are_those_of_the_library();
    let free = compare(effort);
    let contended = contention::count(effort);
    // This is permanent and inherited by threads, so it comes last.
    core::stay_on_one();
    let on_one_core = compare(effort);

    let mut table = Table::new("acquire + release on SQLite, uncontended, by pairs per second");
    on_one_core.add_to(&mut table, "on one core", Some(GOAL));
    free.add_to(&mut table, "on any core", None);
    print!("{table}{contended}");
}

/// The results of the contenders.
struct Comparison {
    ours: Samples,
    worker: Samples,
    raw: Samples,
}

fn compare(effort: Effort) -> Comparison {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name| folder.path().join(name);
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let locker = Locker::new(Arc::new(create(&path("ours.db"))));
    drop(create(&path("worker.db")));
    drop(create(&path("raw.db")));
    let worker = Worker::start(Statements::open(&path("worker.db")));
    let raw = Statements::open(&path("raw.db"));
    let pairs = effort.pick(100, 10);
    let [ours, worker, raw] = rounds(
        effort.pick(301, 1),
        [
            &mut || time_ours(&runtime, &locker, pairs),
            &mut || time_worker(&runtime, &worker, pairs),
            &mut || time_raw(&raw, pairs),
        ],
    );
    Comparison { ours, worker, raw }
}

impl Comparison {
    fn add_to(&self, table: &mut Table, place: &str, goal: Option<f64>) {
        let Self { ours, worker, raw } = self;
        let here = |other: &Samples| format!("{} / {} per pair", ours.time(), other.time());
        table.ratio(
            ours.speed_against(worker),
            goal,
            &format!("{place}, ours / the same statements through one worker thread"),
            here(worker),
        );
        table.ratio(
            ours.speed_against(raw),
            None,
            &format!("{place}, ours / the same statements on the calling thread"),
            here(raw),
        );
    }
}

/// Creates a file with the library's tables.
fn create(path: &Path) -> Sqlite {
    Sqlite::open_blocking(path).expect("a new file in a new folder")
}

fn time_ours(runtime: &Runtime, locker: &Locker, pairs: usize) -> Duration {
    let name = LockName::new(NAME).expect("a good name");
    runtime.block_on(async {
        let started = Instant::now();
        for _ in 0..pairs {
            let guard = locker.acquire(&name).await.expect("the lock is free");
            assert!(guard.release().await.is_released());
        }
        started.elapsed() / pairs as u32
    })
}

fn time_worker(runtime: &Runtime, worker: &Worker, pairs: usize) -> Duration {
    runtime.block_on(async {
        let started = Instant::now();
        for owner in 0..pairs {
            worker.acquire(NAME, owner).await;
            worker.release(NAME, owner).await;
        }
        started.elapsed() / pairs as u32
    })
}

fn time_raw(raw: &Statements, pairs: usize) -> Duration {
    let started = Instant::now();
    for owner in 0..pairs {
        raw.acquire(NAME, owner);
        raw.release(NAME, owner);
    }
    started.elapsed() / pairs as u32
}
