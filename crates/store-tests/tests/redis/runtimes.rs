//! A Redis store that outlives the runtime in which its connection was opened.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::Locker;
use fencepost::stores::redis::Redis;
use fencepost_rig::{Direction, Proxy};
use tokio::runtime::Runtime;

use crate::support::{LONG, NAME, SOON, Server, locker};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LONG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Acquires and releases the lock, promptly.
fn works(runtime: &Runtime, locker: &Locker, name: &str) {
    let taken = runtime.block_on(locker.acquire_within(name, SOON));
    let guard = taken.unwrap().expect("a lock that is free in time");
    assert!(runtime.block_on(guard.release()).is_released());
}

/// With held guards and waiters in line: in the next runtime the same store and locker work, renew and release.
pub(crate) fn the_next_one_goes_on() {
    let server = Server::start();
    let (first, second) = (runtime(), runtime());
    let store = first.block_on(server.store());
    let ttl = Duration::from_secs(2);
    let ours = locker(&store, ttl);
    let rival = locker(&second.block_on(server.store()), LONG);
    let blocked = second.block_on(rival.acquire("blocked")).unwrap();
    let kept = first.block_on(ours.acquire("kept")).unwrap();
    let kept_since = Instant::now();
    first.spawn({
        let ours = ours.clone();
        async move { ours.acquire("blocked").await.map(drop) }
    });
    wait_for("a waiter", || server.in_line("blocked") == 1);

    drop(first);
    works(&second, &ours, NAME);
    assert!(second.block_on(blocked.release()).is_released());
    works(&second, &ours, "blocked");
    std::thread::sleep((ttl * 3 / 2).saturating_sub(kept_since.elapsed()));
    assert!(!kept.is_lost(), "nobody renews it");
    assert!(second.block_on(kept.release()).is_released());
    second.block_on(server.wait_until_clean());
}

/// The runtime ends during a connection attempt that others also wait for.
pub(crate) fn ended_while_connecting() {
    let server = Server::start();
    let proxy = server.proxy();
    let (first, second) = (runtime(), runtime());
    let url = format!("redis://{}", proxy.address());
    let store: Arc<Redis> = Arc::new(first.block_on(Redis::open(&url)).unwrap());
    let ours = locker(&store, LONG);
    works(&first, &ours, NAME);
    proxy.cut();
    proxy.delay(Direction::ToClient, Proxy::FOREVER);
    let attempts = |runtime: &Runtime| {
        let ours = ours.clone();
        runtime.spawn(async move { ours.acquire_within(NAME, SOON).await })
    };
    let before = proxy.counts().connections;
    let lost = attempts(&first);
    wait_for("an attempt", || proxy.counts().connections > before);
    let going_on = attempts(&second);
    drop(first);
    proxy.heal();
    // At worst its request fails, and it says so.
    if let Ok(Some(guard)) = second.block_on(going_on).unwrap() {
        assert!(second.block_on(guard.release()).is_released());
    }
    drop(lost);
    works(&second, &ours, NAME);
    second.block_on(server.wait_until_clean());
}

/// For programs without a runtime. The store may outlive the locker, which does not wait for it to end.
pub(crate) fn none_at_all() {
    let server = Server::start();
    let store = Arc::new(Redis::open_blocking(&server.0.url()).unwrap());
    let locker = fencepost::blocking::Locker::builder(store.clone())
        .ttl(2 * LONG)
        .build()
        .unwrap();
    let guard = locker.acquire_within(NAME, SOON).unwrap().unwrap();
    let waiting = std::thread::spawn({
        let other = Arc::new(Redis::open_blocking(&server.0.url()).unwrap());
        let locker = fencepost::blocking::Locker::builder(other)
            .ttl(2 * LONG)
            .build()
            .unwrap();
        move || locker.acquire_within(NAME, LONG).unwrap().unwrap().fence()
    });
    wait_for("a waiter", || server.in_line(NAME) == 1);
    server.plain().does(&["CLIENT", "KILL", "TYPE", "normal"]);
    server.plain().does(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let fence = guard.fence();
    // The connection may just be breaking. Then the release continues in the background.
    let _outcome = guard.release();
    assert!(waiting.join().unwrap() > fence);
    let dropped = locker.acquire_within(NAME, SOON).unwrap().unwrap();
    let started = Instant::now();
    drop((locker, dropped));
    let took = started.elapsed();
    assert!(took < fencepost::DEFAULT_STORE_TIMEOUT, "{took:?}");
    assert_eq!(server.plain().number(&["EXISTS", NAME]), 0);
    drop(store);
}
