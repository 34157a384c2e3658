//! W1, W1d and W2: nobody else wants the lock.

use std::time::{Duration, Instant};

use fencepost::{LockName, Locker};
use tokio::runtime::Runtime;

use crate::raw::Raw;

fn name(number: usize) -> LockName {
    LockName::new(&format!("bench:{number}")).expect("a good name")
}

/// In a task of its own, as a server would; the outermost future of a runtime is woken in a roundabout way.
fn in_a_task(runtime: &Runtime, work: impl Future<Output = Duration> + Send + 'static) -> Duration {
    let work = runtime.spawn(work);
    runtime.block_on(work).expect("no panic")
}

/// One task: acquire, release, and again.
pub(crate) fn ours(runtime: &Runtime, locker: &Locker, pairs: usize) -> Duration {
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

/// One task: acquire, drop, and again; the release is under way while the next is asked for.
pub(crate) fn dropped(runtime: &Runtime, locker: &Locker, pairs: usize) -> Duration {
    let name = name(0);
    let locker = locker.clone();
    in_a_task(runtime, async move {
        let started = Instant::now();
        for _ in 0..pairs {
            drop(locker.acquire(&name).await.expect("a free lock"));
        }
        started.elapsed() / pairs as u32
    })
}

/// The same on the wire: two round trips.
pub(crate) fn raw(raw: &mut Raw, pairs: usize) -> Duration {
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

/// So many tasks, each with a name of its own.
pub(crate) fn many_ours(
    runtime: &Runtime,
    locker: &Locker,
    tasks: usize,
    pairs: usize,
) -> Duration {
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

/// The same on the wire: all of them in one write, twice.
pub(crate) fn many_raw(raw: &mut Raw, names: usize, pairs: usize) -> Duration {
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
