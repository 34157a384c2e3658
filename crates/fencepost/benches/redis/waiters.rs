//! W4: two hundred wait, and each holds the lock for a millisecond.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost::{Fence, Locker};

use crate::Bench;
use crate::measure::{Table, rounds};

const NAME: &str = "bench:waiters";

pub(crate) fn all(bench: &Bench, table: &mut Table) {
    let waiters = bench.effort.pick(200, 10);
    let handing_over = bench.locker();
    let alone = Locker::builder(bench.store()).without_hand_over().build();
    let alone = alone.expect("valid settings");
    let mut wire = bench.wire();
    let (mut calls_handing, mut calls_alone) = (Vec::new(), Vec::new());
    let [ours, apart, floor] = {
        let wire = std::cell::RefCell::new(&mut wire);
        let counted = |locker: &Locker, calls: &mut Vec<f64>| {
            let before = wire.borrow_mut().script_calls();
            let time = queue(bench, locker, waiters);
            let after = wire.borrow_mut().script_calls();
            calls.push((after - before) as f64 / waiters as f64);
            time
        };
        rounds(
            bench.effort.pick(9, 1),
            [
                &mut || counted(&handing_over, &mut calls_handing),
                &mut || counted(&alone, &mut calls_alone),
                &mut || mutex(bench, waiters),
            ],
        )
    };
    let commands = |calls: &[f64]| calls.iter().sum::<f64>() / calls.len().max(1) as f64;
    let here = |time: String, calls: &[f64]| {
        let floor = floor.time();
        format!(
            "{time} / {floor} per hold, {:.2} commands each, in order",
            commands(calls)
        )
    };
    let what = "W4 200 wait, hand-over on: total time / tokio's mutex (at most 1.05)";
    table.ratio(
        ours.time_against(&floor),
        None,
        what,
        here(ours.time(), &calls_handing),
    );
    let what = "W4 200 wait at the server: total time / tokio's mutex (at most 1.05)";
    table.ratio(
        apart.time_against(&floor),
        None,
        what,
        here(apart.time(), &calls_alone),
    );
}

/// The time per hold. Everybody stands in line before the first gets its turn; served in that order.
fn queue(bench: &Bench, locker: &Locker, waiters: usize) -> Duration {
    bench.runtime.block_on(async {
        let first = locker.acquire(NAME).await.expect("a free lock");
        let served: Arc<Mutex<Vec<(usize, Fence)>>> = Arc::default();
        let mut tasks = Vec::new();
        for number in 0..waiters {
            let (locker, served) = (locker.clone(), served.clone());
            tasks.push(tokio::spawn(async move {
                let guard = locker.acquire(NAME).await.expect("a turn");
                let turn = (number, guard.fence());
                served.lock().expect("no panic").push(turn);
                tokio::time::sleep(Duration::from_millis(1)).await;
                let _ = guard.release().await;
            }));
            tokio::task::yield_now().await;
        }
        let started = Instant::now();
        let _ = first.release().await;
        for task in tasks {
            task.await.expect("no panic");
        }
        let elapsed = started.elapsed();
        let served = served.lock().expect("no panic");
        assert!(
            served.is_sorted(),
            "not first come, first served: {served:?}"
        );
        elapsed / waiters as u32
    })
}

fn mutex(bench: &Bench, waiters: usize) -> Duration {
    bench.runtime.block_on(async {
        let mutex = Arc::new(tokio::sync::Mutex::new(()));
        let first = mutex.lock().await;
        let mut tasks = Vec::new();
        for _ in 0..waiters {
            let mutex = mutex.clone();
            tasks.push(tokio::spawn(async move {
                let _guard = mutex.lock().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }));
            tokio::task::yield_now().await;
        }
        let started = Instant::now();
        drop(first);
        for task in tasks {
            task.await.expect("no panic");
        }
        started.elapsed() / waiters as u32
    })
}
