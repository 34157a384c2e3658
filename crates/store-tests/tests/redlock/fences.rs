//! Fences of Redlock increase with every grant, with many clients and one server fault after another on real servers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost::random::{Random, SeededRandom, SystemRandom};
use fencepost::{ErrorKind, Fence, Guard, Locker};
use fencepost_rig::{Direction, Proxy};

use crate::support::{LONG, NAME, Roads, Servers, is_soak, locker, run_within};

const CLIENTS: usize = 4;
const TTL: Duration = Duration::from_secs(2);

/// The fences of all grants, in the order of the grants.
#[derive(Default)]
struct Log {
    fences: Mutex<Vec<Fence>>,
    /// The number that the lock protects.
    count: AtomicU64,
    counted: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
}

impl Log {
    /// A guard that still holds when it is recorded was recorded before the next was granted.
    fn note(&self, guard: &Guard) {
        let mut fences = self.fences.lock().unwrap();
        if guard.is_lost() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        } else {
            fences.push(guard.fence());
        }
    }

    /// Adds one, with a pause between read and write.
    async fn add(&self) {
        let seen = self.count.load(Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.count.store(seen + 1, Ordering::Relaxed);
        self.counted.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn rise_under_contention_and_faults() {
    let grants = if is_soak() { 4000 } else { 150 };
    let longest = if is_soak() { 20 * LONG } else { 2 * LONG };
    run_within(longest, async move {
        let mut servers = Servers::start_durable();
        let roads = servers.roads();
        let log = Arc::new(Log::default());
        let stop = Arc::new(AtomicBool::new(false));
        let (mut lockers, mut tasks) = (Vec::new(), Vec::new());
        for _ in 0..CLIENTS {
            let locker = locker(&roads.store().await, TTL);
            lockers.push(locker.clone());
            for _ in 0..2 {
                let (locker, log, stop) = (locker.clone(), log.clone(), stop.clone());
                tasks.push(tokio::spawn(contend(locker, log, stop)));
            }
        }
        let seed = SystemRandom.next_u64();
        println!("seed {seed}");
        let random = SeededRandom::new(seed);
        let mut faults = 0;
        while log.fences.lock().unwrap().len() < grants {
            strike(&mut servers, &roads, &random).await;
            faults += 1;
        }
        stop.store(true, Ordering::SeqCst);
        for task in tasks {
            task.await.unwrap();
        }
        for locker in lockers {
            locker.shutdown().await;
        }
        let fences = log.fences.lock().unwrap().clone();
        println!(
            "{} grants under {faults} faults, {} requests failed, {} locks lost; fences {} to {}",
            fences.len(),
            log.failed.load(Ordering::Relaxed),
            log.lost.load(Ordering::Relaxed),
            fences.first().unwrap(),
            fences.last().unwrap(),
        );
        for pair in fences.windows(2) {
            assert!(pair[0] < pair[1], "{} after {}", pair[1], pair[0]);
        }
        if log.lost.load(Ordering::Relaxed) == 0 {
            let counted = log.counted.load(Ordering::Relaxed);
            assert_eq!(log.count.load(Ordering::Relaxed), counted);
        }
        servers.are_clean().await;
    });
}

async fn contend(locker: Locker, log: Arc<Log>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        let guard = match locker.acquire(NAME).await {
            Ok(guard) => guard,
            Err(error) => {
                // One server fails before the clients have reconnected to the previous one.
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                if log.failed.fetch_add(1, Ordering::Relaxed) < 3 {
                    println!("{error}");
                }
                continue;
            }
        };
        log.note(&guard);
        if guard.run(log.add()).await.is_err() {
            log.lost.fetch_add(1, Ordering::Relaxed);
        }
        drop(guard.release().await);
    }
}

/// Injects one fault into one server, for a moment.
async fn strike(servers: &mut Servers, roads: &Roads, random: &SeededRandom) {
    let at = random.next_u64() as usize % 3;
    let road: &Proxy = &roads.0[at];
    let moment = Duration::from_millis(20 + random.next_u64() % 120);
    match random.next_u64() % 6 {
        0 => road.cut(),
        1 => road.delay(Direction::ToServer, moment / 4),
        2 => road.delay(Direction::ToClient, moment / 4),
        3 => road.delay(Direction::ToServer, Proxy::FOREVER),
        4 => road.swallow(Direction::ToClient),
        _ => servers.0[at].restart().unwrap(),
    }
    tokio::time::sleep(moment).await;
    road.heal();
    // Requests that were swallowed are never answered.
    road.cut();
    tokio::time::sleep(moment / 2).await;
}
