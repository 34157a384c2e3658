//! Two lockers compete for one lock, each with its own connection, as two processes would.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::stores::sqlite::Sqlite;
use fencepost::{Fence, Locker};
use tokio::runtime::Builder;

use crate::NAME;
use crate::measure::{Effort, Table, rounds};

/// Measures changes of holder per second; printed without a comparison.
pub(crate) fn count(effort: Effort) -> Table {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("contended.db");
    let open = || Locker::new(Arc::new(Sqlite::open_blocking(&path).expect("a good path")));
    let lockers = [open(), open()];
    let holds = effort.pick(200, 5);
    let [samples] = rounds(effort.pick(9, 1), [&mut || time_change(&lockers, holds)]);
    let mut table = Table::new("two lockers contending for one lock on SQLite, a connection each");
    table.figure("changes of holder", samples.rate());
    table
}

/// Returns the time per change of holder while both take the lock `holds` times.
fn time_change(lockers: &[Locker; 2], holds: usize) -> Duration {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build();
    let runtime = runtime.expect("a runtime");
    let started = Instant::now();
    let tasks: Vec<_> = lockers
        .iter()
        .map(|locker| runtime.spawn(hold_again_and_again(locker.clone(), holds)))
        .collect();
    let fences = tasks.into_iter().zip(0..).flat_map(|(task, who)| {
        let fences = runtime.block_on(task).expect("no task panics");
        fences.into_iter().map(move |fence| (fence, who))
    });
    let mut holders: Vec<(Fence, usize)> = fences.collect();
    let took = started.elapsed();
    // Fences are in the order of the holds.
    holders.sort();
    let changes = holders.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    took / u32::try_from(changes.count().max(1)).unwrap_or(u32::MAX)
}

async fn hold_again_and_again(locker: Locker, holds: usize) -> Vec<Fence> {
    let mut fences = Vec::with_capacity(holds);
    for _ in 0..holds {
        let guard = locker.acquire(NAME).await.expect("the store works");
        fences.push(guard.fence());
        assert!(guard.release().await.is_released());
    }
    fences
}
