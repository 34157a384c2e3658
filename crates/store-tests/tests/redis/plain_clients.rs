//! Mutual exclusion with clients that only use `SET key value NX PX` and `DEL`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fencepost::{Guard, Locker, LostReason};
use fencepost_rig::Direction;
use tokio::task::JoinHandle;

use crate::support::{LONG, NAME, SOON, Server, locker, now, run, soon};

fn wait(locker: &Locker) -> JoinHandle<Guard> {
    let locker = locker.clone();
    tokio::spawn(async move { locker.acquire(NAME).await.unwrap() })
}

/// A plain client releases its lock, or somebody deletes ours.
pub(crate) fn deletes() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let ours = locker(&server.store().await, Duration::from_secs(3));
        assert!(plain.takes(NAME, 60_000));
        assert!(
            ours.try_acquire(NAME).await.unwrap().is_none(),
            "it keeps us out"
        );
        let waiting = wait(&ours);
        server.wait_for_line(NAME, 1).await;
        plain.does(&["DEL", NAME]);
        let guard = soon("the lock", waiting).await.unwrap();
        assert!(!plain.takes(NAME, 1000), "we keep it out");

        let waiting = wait(&ours);
        server.wait_for_line(NAME, 1).await;
        let fence = guard.fence();
        plain.does(&["DEL", NAME]);
        let next = soon("the next one's turn", waiting).await.unwrap();
        assert!(next.fence() > fence);
        let lost = soon("the loss", guard.lost()).await;
        assert_eq!(lost.reason(), LostReason::Gone);
        assert!(next.release().await.is_released());
        drop(guard);
        server.wait_until_clean().await;
    });
}

/// Nobody is notified of an expiry. Waiters know when it comes.
pub(crate) fn expires() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let ours = locker(&server.store().await, LONG);
        for ms in [1, 40, 700] {
            assert!(plain.takes(NAME, ms));
            let asked = now();
            let waiting = wait(&ours);
            let guard = soon("the lock", waiting).await.unwrap();
            assert!(
                now().saturating_duration_since(asked)
                    < Duration::from_millis(ms) + Duration::from_secs(2)
            );
            assert!(guard.release().await.is_released());
        }
        server.wait_until_clean().await;
    });
}

/// Waiters wait without limit for a lock that never expires, until its owner deletes it.
pub(crate) fn never_expires() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let ours = locker(&server.store().await, LONG);
        assert!(plain.takes(NAME, 0));
        let timeout = Duration::from_millis(400);
        let in_vain = soon("an answer", ours.acquire_within(NAME, timeout))
            .await
            .unwrap();
        assert!(in_vain.is_none());
        let waiting = wait(&ours);
        server.wait_for_line(NAME, 1).await;
        assert_eq!(plain.number(&["PTTL", NAME]), -1, "it is not ours to end");
        plain.does(&["DEL", NAME]);
        let guard = soon("the lock", waiting).await.unwrap();
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// Plain clients try without a pause. Nobody is let in twice, and our claims are served.
pub(crate) fn barges() {
    run(async {
        let server = Server::start();
        let stop = Arc::new(AtomicBool::new(false));
        let inside = Arc::new(AtomicBool::new(false));
        let taken = Arc::new(AtomicUsize::new(0));
        let barging: Vec<_> = (0..2)
            .map(|_| barge(&server, &stop, &inside, &taken))
            .collect();
        let ours = locker(&server.store().await, LONG);
        let mut last = None;
        let mut turns = 0;
        // Until the plain clients have also had a turn, however late a busy machine lets them start.
        while turns < 20 || taken.load(Ordering::SeqCst) == 0 {
            turns += 1;
            let started = now();
            let guard = soon("a turn", ours.acquire(NAME)).await.unwrap();
            assert!(now().saturating_duration_since(started) < SOON);
            assert!(
                !inside.swap(true, Ordering::SeqCst),
                "let in beside a plain client"
            );
            assert!(last.is_none_or(|last| guard.fence() > last));
            last = Some(guard.fence());
            tokio::time::sleep(Duration::from_millis(1)).await;
            inside.store(false, Ordering::SeqCst);
            assert!(guard.release().await.is_released());
        }
        stop.store(true, Ordering::SeqCst);
        for thread in barging {
            thread.join().unwrap();
        }
        println!("{turns} turns against plain clients that took the lock {taken:?} times");
        server.wait_until_clean().await;
    });
}

/// Tries without a pause, and holds for a moment. Returns how often it got the lock.
fn barge(
    server: &Server,
    stop: &Arc<AtomicBool>,
    inside: &Arc<AtomicBool>,
    taken: &Arc<AtomicUsize>,
) -> std::thread::JoinHandle<()> {
    let (stop, inside, taken) = (stop.clone(), inside.clone(), taken.clone());
    let mut plain = server.plain();
    std::thread::spawn(move || {
        while !stop.load(Ordering::SeqCst) {
            if !plain.takes(NAME, 60_000) {
                continue;
            }
            assert!(
                !inside.swap(true, Ordering::SeqCst),
                "a plain client let in beside another holder"
            );
            std::thread::sleep(Duration::from_micros(500));
            inside.store(false, Ordering::SeqCst);
            plain.does(&["DEL", NAME]);
            taken.fetch_add(1, Ordering::SeqCst);
        }
    })
}

/// Plain clients hold many names, and latency is high. Watching all names does not delay the heartbeats; otherwise the
/// connection would be considered dead.
pub(crate) fn many_are_watched_on_a_long_road() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let mut plain = server.plain();
        let names: Vec<String> = (0..60).map(|at| format!("plain:{at}")).collect();
        for name in &names {
            assert!(plain.takes(name, 60_000));
        }
        let ours = locker(&crate::support::open(proxy.address()).await, LONG);
        for direction in [Direction::ToServer, Direction::ToClient] {
            proxy.delay(direction, Duration::from_millis(20));
        }
        let waiting: Vec<_> = names
            .iter()
            .map(|name| {
                let (ours, name) = (ours.clone(), name.clone());
                tokio::spawn(async move { ours.acquire(&*name).await.unwrap() })
            })
            .collect();
        for name in &names {
            server.wait_for_heartbeats(name, 1).await;
        }
        // Long enough for a connection to be abandoned twice.
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(proxy.counts().connections, 1, "taken for dead");
        for name in &names {
            plain.does(&["DEL", name]);
        }
        for waiting in waiting {
            let guard = soon("a lock that lies free", waiting).await.unwrap();
            assert!(guard.release().await.is_released());
        }
        server.wait_until_clean().await;
    });
}
