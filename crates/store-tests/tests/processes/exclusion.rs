//! Mutual exclusion of many processes that add to one number in a plain file, which only the lock protects.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::stores::sqlite::Sqlite;
use fencepost::{Fence, Locker};
use serde::{Deserialize, Serialize};

use crate::runs;
use crate::script::{Instruction, NAME, Report, Role, instructions, say};
use crate::stage::{Performer, Stage};

const PROCESSES: usize = 8;
const ADDITIONS: usize = 500;

/// The part of a counter.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CounterPart {
    pub(crate) locks: PathBuf,
    pub(crate) number: PathBuf,
    /// Every hold appends its fence to this file, so the order of lines is the order of holds.
    pub(crate) log: PathBuf,
    pub(crate) tasks: usize,
    pub(crate) additions_per_task: usize,
}

impl CounterPart {
    pub(crate) fn new(stage: &Stage, tasks: usize, additions: usize) -> Self {
        let part = Self {
            locks: stage.locks(),
            number: stage.path("number"),
            log: stage.path("fences"),
            tasks,
            additions_per_task: additions / tasks,
        };
        fs::write(&part.number, "0").unwrap();
        part
    }

    /// Reads, gives others every chance to do the same, and writes.
    async fn add_one(&self, fence: Fence) {
        let number: u64 = fs::read_to_string(&self.number).unwrap().parse().unwrap();
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .unwrap();
        log.write_all(format!("{fence}\n").as_bytes()).unwrap();
        tokio::task::yield_now().await;
        fs::write(&self.number, (number + 1).to_string()).unwrap();
    }

    /// Checks that no addition was lost and that fences increased from hold to hold. Returns the number of leases.
    pub(crate) fn check(&self, additions: usize) -> usize {
        let number = fs::read_to_string(&self.number).unwrap();
        assert_eq!(number, additions.to_string(), "updates were lost");
        let log = fs::read_to_string(&self.log).unwrap();
        let fences: Vec<Fence> = log.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(fences.len(), additions);
        if let Some(pair) = fences.windows(2).find(|pair| pair[0] >= pair[1]) {
            panic!("fence {} was held after {}", pair[1], pair[0]);
        }
        let mut epochs: Vec<_> = fences.iter().map(|fence| fence.epoch()).collect();
        epochs.dedup();
        epochs.len()
    }
}

/// Plays the child: a locker with default settings, shared by its tasks.
pub(crate) fn play(part: CounterPart) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let locker = Locker::new(Arc::new(Sqlite::open(&part.locks).await.unwrap()));
        say(&Report::Ready);
        assert!(matches!(instructions().next(), Some(Instruction::Go)));
        let tasks: Vec<_> = (0..part.tasks)
            .map(|_| tokio::spawn(count(locker.clone(), part.clone())))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    say(&Report::Done);
}

async fn count(locker: Locker, part: CounterPart) {
    for _ in 0..part.additions_per_task {
        let guard = locker.acquire(NAME).await.unwrap();
        part.add_one(guard.fence()).await;
        let outcome = guard.release().await;
        assert!(outcome.is_released(), "{outcome:?}");
    }
}

/// Lets all of them count at once, and returns how long that took.
pub(crate) fn count_together(mut counters: Vec<Performer>) -> Duration {
    let started = Instant::now();
    for counter in &mut counters {
        counter.instruct(Instruction::Go);
    }
    for counter in &mut counters {
        assert!(matches!(
            counter.hear(Duration::from_secs(300)),
            Report::Done
        ));
    }
    let took = started.elapsed();
    for counter in counters {
        counter.assert_exited_cleanly(Duration::from_secs(60));
    }
    took
}

pub(crate) fn no_update_is_lost() {
    for run in 1..=runs() {
        // In every other run, tasks of one process hand the lock to each other.
        let tasks = if run % 2 == 0 { 5 } else { 1 };
        let stage = Stage::new();
        let part = CounterPart::new(&stage, tasks, ADDITIONS);
        let counter = |_| Performer::start(Role::Counter(part.clone()), &[]);
        let took = count_together((0..PROCESSES).map(counter).collect());
        let holds = PROCESSES * ADDITIONS;
        let leases = part.check(holds);
        println!(
            "exclusion, run {run}: {PROCESSES} processes of {tasks} task(s): {holds} holds under {leases} leases in {:.1} s, \
             {:.0} holds/s; none lost, fences in order",
            took.as_secs_f64(),
            holds as f64 / took.as_secs_f64(),
        );
    }
}
