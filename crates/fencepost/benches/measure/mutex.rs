//! A mutex inside one process, as the fastest hand-over that a lock for several processes can be compared with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

/// Returns the time per turn if each of this many waiting tasks holds the mutex for a millisecond.
pub(crate) async fn time_per_turn(waiters: usize) -> Duration {
    let mutex = Arc::new(Mutex::new(()));
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
}
