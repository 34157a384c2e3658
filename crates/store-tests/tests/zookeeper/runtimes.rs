//! A ZooKeeper store that outlives the runtime in which its session was opened.

use std::time::{Duration, Instant};

use fencepost::backend::{Release, Wait};
use fencepost::{Backend, Locker};
use tokio::runtime::Runtime;

use crate::support::{LONG, NAME, SESSION, SOON, Server, claim, locker, open};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Acquires and releases the lock, promptly.
fn works(runtime: &Runtime, locker: &Locker, name: &str) {
    let taken = runtime.block_on(locker.acquire_within(name, SOON));
    let guard = taken.unwrap().expect("a lock that is free in time");
    assert!(runtime.block_on(guard.release()).is_released());
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LONG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The session ends with its runtime. What was held in it is lost, and waiters elsewhere continue in a new session.
pub(crate) fn the_next_one_goes_on() {
    let server = Server::start();
    let (first, second) = (runtime(), runtime());
    let store = first.block_on(server.store());
    let ours = locker(&store, SESSION);
    let rival = locker(&second.block_on(server.store()), SESSION);
    let eyes = second.block_on(server.eyes());
    let blocked = second.block_on(rival.acquire(NAME)).unwrap();
    let kept = first.block_on(ours.acquire("kept")).unwrap();
    let waiting = second.spawn({
        let ours = ours.clone();
        async move { ours.acquire(NAME).await.unwrap().release().await }
    });
    second.block_on(eyes.wait_for_line(2));
    let before = second.block_on(eyes.line());

    drop(first);
    works(&second, &ours, "another");
    wait_for("a new place", || {
        let line = second.block_on(eyes.line());
        line.len() == 2 && line[1] != before[1]
    });
    wait_for("the loss", || kept.is_lost());
    assert!(second.block_on(blocked.release()).is_released());
    let released = second.block_on(async { tokio::time::timeout(SOON, waiting).await });
    assert!(released.unwrap().unwrap().is_released());
    // As soon as the old session is over.
    works(&second, &ours, "kept");
    second.block_on(eyes.wait_until_clean());
}

/// A claim that returns in a new session finds its node of the old one, which lives on for a while. The node is not mistaken
/// for a place of the new session, and nobody has to wait for its end.
pub(crate) fn an_old_place_is_given_up() {
    let server = Server::start();
    let (first, second) = (runtime(), runtime());
    let address = server.0.address();
    let store = first.block_on(open(address, LONG));
    let rival = locker(&second.block_on(open(address, LONG)), LONG);
    let eyes = second.block_on(server.eyes());
    let held = second.block_on(rival.acquire(NAME)).unwrap();
    let claim = claim(LONG);
    let asking = || {
        let (store, claim) = (store.clone(), claim.clone());
        async move { store.acquire(&claim, &Wait::default()).await.unwrap() }
    };
    first.spawn(asking());
    second.block_on(eyes.wait_for_line(2));
    let before = second.block_on(eyes.line());
    drop(first);
    let again = second.spawn(asking());
    wait_for("a new place instead of the old", || {
        let line = second.block_on(eyes.line());
        line.len() == 2 && line[1] != before[1]
    });
    assert!(second.block_on(held.release()).is_released());
    let granted = second.block_on(async { tokio::time::timeout(SOON, again).await });
    granted.unwrap().unwrap();
    let released = second.block_on(store.release(&claim)).unwrap();
    assert_eq!(released, Release::Freed);
    second.block_on(eyes.wait_until_clean());
}

/// The store is opened and used without a runtime of the caller.
pub(crate) fn none_at_all() {
    use fencepost::stores::zookeeper::Zookeeper;
    use std::sync::Arc;

    let server = Server::start();
    let address = format!("zk://{}/locks", server.0.address());
    let store = Zookeeper::open_blocking(&address).unwrap();
    let locker = fencepost::blocking::Locker::new(Arc::new(store)).unwrap();
    for _ in 0..2 {
        let guard = locker.acquire(NAME).unwrap();
        assert!(locker.try_acquire(NAME).unwrap().is_none());
        assert!(guard.release().is_released());
    }
    locker.shutdown().unwrap();
    let second = runtime();
    let eyes = second.block_on(server.eyes());
    second.block_on(eyes.wait_until_clean());
}
