//! W1, W1d and W2: nobody else wants the lock.

use std::time::{Duration, Instant};

use fencepost::{LockName, Locker};
use tokio::runtime::Runtime;

use crate::Bench;
use crate::measure::{Contender, rounds_of};
use crate::raw::Raw;
use crate::report::{Against, Contest, Goal, Row, Shown};

const TWO_ROUND_TRIPS: Against = Against::speed_of("two round trips on a blocking socket");
const ONE_WRITE: Against = Against::speed_of("the commands of all in one write");

const RELEASED: Contest<'_> = Contest {
    workload: "W1",
    what: "one task acquires and releases",
    against: TWO_ROUND_TRIPS,
    goal: Some(Goal::AtLeast(0.85)),
    shown: Shown::Time("per pair"),
};
const DROPPED: Contest<'_> = Contest {
    workload: "W1d",
    what: "one task acquires and drops",
    goal: Some(Goal::AtLeast(1.5)),
    ..RELEASED
};
const MANY: Contest<'_> = Contest {
    workload: "W2",
    what: "64 tasks, a name each",
    against: ONE_WRITE,
    goal: Some(Goal::AtLeast(0.8)),
    ..RELEASED
};

/// W1, and W1d in the same rounds.
pub(crate) fn one_task(bench: &Bench) -> Vec<Row> {
    let (locker, mut wire) = (bench.locker(), bench.wire());
    let pairs = bench.effort.pick(200, 5);
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|| dropped(&bench.runtime, &locker, pairs)),
        Box::new(|| raw(&mut wire, pairs)),
        Box::new(|| ours(&bench.runtime, &locker, pairs)),
    ];
    for peer in &bench.peers.list {
        let request = format!("pairs {pairs}");
        contenders.push(Box::new(move || peer.time(&request) / pairs as u32));
    }
    let samples = rounds_of(bench.effort.pick(101, 1), &mut contenders);
    let [dropped, limit, others @ ..] = samples.as_slice() else {
        unreachable!("one for each contender");
    };
    let mut rows = RELEASED.rows(&bench.names(), limit, others);
    let mut last = DROPPED.ours(dropped, limit);
    let work = bench.server_work(&mut contenders);
    last.server_us = Some([work[0], work[1]]);
    bench.add_work(&mut rows, &work[1..]);
    rows.push(last);
    rows
}

pub(crate) fn many_names(bench: &Bench) -> Vec<Row> {
    let (locker, mut wire) = (bench.locker(), bench.wire());
    let (tasks, pairs) = (64, bench.effort.pick(10, 1));
    let mut contenders: Vec<Contender<'_>> = vec![
        Box::new(|| many_raw(&mut wire, tasks, pairs)),
        Box::new(|| many_ours(&bench.runtime, &locker, tasks, pairs)),
    ];
    for peer in &bench.peers.list {
        let request = format!("many {tasks} {pairs}");
        let count = (tasks * pairs) as u32;
        contenders.push(Box::new(move || peer.time(&request) / count));
    }
    let samples = rounds_of(bench.effort.pick(51, 1), &mut contenders);
    let mut rows = MANY.rows(&bench.names(), &samples[0], &samples[1..]);
    bench.add_work(&mut rows, &bench.server_work(&mut contenders));
    rows
}

fn name(number: usize) -> LockName {
    LockName::new(&format!("bench:{number}")).expect("a good name")
}

/// Runs the work in a spawned task, as a server would; waking the outermost future of a runtime takes a detour.
pub(crate) fn in_a_task<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let work = runtime.spawn(work);
    runtime.block_on(work).expect("no panic")
}

/// One task acquires and releases in a loop.
fn ours(runtime: &Runtime, locker: &Locker, pairs: usize) -> Duration {
    let name = name(0);
    let locker = locker.clone();
    in_a_task(runtime, async move {
        let started = Instant::now();
        for _ in 0..pairs {
            let guard = locker.acquire(&name).await.expect("a free lock");
            assert!(guard.release().await.is_released());
        }
        started.elapsed() / pairs as u32
    })
}

/// One task acquires and drops in a loop; a release is still in progress when the next acquisition starts.
fn dropped(runtime: &Runtime, locker: &Locker, pairs: usize) -> Duration {
    let name = name(0);
    let locker = locker.clone();
    in_a_task(runtime, async move {
        let started = Instant::now();
        for _ in 0..pairs {
            drop(locker.acquire(&name).await.expect("a free lock"));
        }
        let elapsed = started.elapsed();
        // Wait for the last release before another contender has its turn.
        let last = locker.acquire(&name).await.expect("a free lock");
        assert!(last.release().await.is_released());
        elapsed / pairs as u32
    })
}

/// Does the same on the wire: two round trips.
fn raw(raw: &mut Raw, pairs: usize) -> Duration {
    let (set, delete) = (raw.set("bench:raw"), raw.delete("bench:raw"));
    let started = Instant::now();
    for _ in 0..pairs {
        raw.send(&set);
        raw.answer();
        raw.send(&delete);
        raw.answer();
    }
    started.elapsed() / pairs as u32
}

/// Runs this many tasks, each with its own name.
fn many_ours(runtime: &Runtime, locker: &Locker, tasks: usize, pairs: usize) -> Duration {
    runtime.block_on(async {
        let started = Instant::now();
        let tasks: Vec<_> = (0..tasks)
            .map(|number| {
                let (locker, name) = (locker.clone(), name(number));
                tokio::spawn(async move {
                    for _ in 0..pairs {
                        let guard = locker.acquire(&name).await.expect("a free lock");
                        assert!(guard.release().await.is_released());
                    }
                })
            })
            .collect();
        let count = (tasks.len() * pairs) as u32;
        for task in tasks {
            task.await.expect("no panic");
        }
        started.elapsed() / count
    })
}

/// Does the same on the wire: all commands in one write, twice.
fn many_raw(raw: &mut Raw, names: usize, pairs: usize) -> Duration {
    let of_each = |make: &dyn Fn(&Raw, &str) -> Vec<u8>, raw: &Raw| {
        (0..names)
            .flat_map(|number| make(raw, &format!("bench:raw:{number}")))
            .collect::<Vec<u8>>()
    };
    let sets = of_each(&Raw::set, raw);
    let deletes = of_each(&Raw::delete, raw);
    let started = Instant::now();
    for _ in 0..pairs {
        for batch in [&sets, &deletes] {
            raw.send(batch);
            for _ in 0..names {
                raw.answer();
            }
        }
    }
    started.elapsed() / (names * pairs) as u32
}
