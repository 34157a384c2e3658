//! Grants that Redis pushes to a waiter and that arrive late, twice, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fencepost::Backend;
use fencepost::backend::{Release, Wait};
use fencepost_rig::{Direction, Fate, Proxy};

use crate::support::{
    LONG, NAME, Server, WAITER_LEASE, belief, claim, contains, eventually, grants, is_grant,
    kept_for, locker, open, releases, run, soon,
};

/// The push arrives after its lease is over. It is not mistaken for a lock, and the waiter asks again in its old place.
pub(crate) fn delayed_past_its_lease() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let (holder, waiter) = (server.store().await, open(proxy.address()).await);
        let held = claim(LONG);
        assert!(holder.try_acquire(&held).await.unwrap().is_some());
        // No heartbeat reaches the server either; its answer would deliver the grant in time.
        let late = Duration::from_millis(900);
        assert!(late > WAITER_LEASE);
        let wanted = claim(LONG);
        let waiting = {
            let (waiter, wanted) = (waiter.clone(), wanted.clone());
            tokio::spawn(async move {
                let grant = waiter.acquire(&wanted, &Wait::default()).await.unwrap();
                (belief(&grant), grant)
            })
        };
        server.wait_for_line(NAME, 1).await;
        proxy.judge(Direction::ToClient, grants(Fate::Late(late)));
        proxy.judge(Direction::ToServer, move |message| {
            if contains(message, "EVAL") {
                Fate::Late(late)
            } else {
                Fate::Pass
            }
        });
        assert_eq!(releases(&holder, &held).await, Release::Freed);
        let mut plain = server.plain();
        eventually("the grant", async || {
            !kept_for(&mut plain, wanted.owner).is_zero()
        })
        .await;
        eventually("its end", async || {
            kept_for(&mut plain, wanted.owner).is_zero()
        })
        .await;
        // Nobody else wants the lock. Only the waiter itself can acquire it again, later.
        let (_, grant) = soon("a grant that counts", waiting).await.unwrap();
        let kept = kept_for(&mut plain, wanted.owner);
        assert!(
            belief(&grant) <= kept + Duration::from_millis(1),
            "believes in {:?}, is kept for {kept:?}",
            belief(&grant)
        );
        proxy.heal();
        assert_eq!(releases(&waiter, &wanted).await, Release::Freed);
        server.wait_until_clean().await;
    });
}

/// The push is lost. The answer to the next heartbeat delivers the grant.
pub(crate) fn dropped() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let lost = Arc::new(AtomicUsize::new(0));
        let count = lost.clone();
        proxy.judge(Direction::ToClient, move |message| {
            if is_grant(message) {
                count.fetch_add(1, Ordering::Relaxed);
                Fate::Lose
            } else {
                Fate::Pass
            }
        });
        let holder = locker(&server.store().await, LONG);
        let waiter = locker(&open(proxy.address()).await, LONG);
        for turn in 1..=3 {
            let held = holder.acquire(NAME).await.unwrap();
            let waiting = server.waiter_of(&waiter).await;
            assert!(held.release().await.is_released());
            let guard = soon("the grant", waiting).await.unwrap();
            assert_eq!(
                lost.load(Ordering::Relaxed),
                turn,
                "the push was to be lost"
            );
            assert!(guard.release().await.is_released());
        }
        server.wait_until_clean().await;
    });
}

/// The push arrives twice. There is only one guard, and nothing is left of the second push.
pub(crate) fn doubled() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        proxy.judge(Direction::ToClient, grants(Fate::Twice));
        let holder = locker(&server.store().await, LONG);
        let waiter = locker(&open(proxy.address()).await, LONG);
        let mut last = None;
        for _ in 0..10 {
            let held = holder.acquire(NAME).await.unwrap();
            assert!(last.is_none_or(|last| held.fence() > last));
            let waiting = [(); 2].map(|()| {
                let waiter = waiter.clone();
                tokio::spawn(async move { waiter.acquire(NAME).await.unwrap() })
            });
            server.wait_for_line(NAME, 2).await;
            last = Some(held.fence());
            assert!(held.release().await.is_released());
            let [one, other] = waiting;
            let (first, rest) = soon("a grant", first_of(one, other)).await;
            assert!(!rest.is_finished(), "one push, two guards");
            assert!(Some(first.fence()) > last);
            last = Some(first.fence());
            assert!(first.release().await.is_released());
            let second = soon("the second", rest).await.unwrap();
            assert!(Some(second.fence()) > last);
            last = Some(second.fence());
            assert!(second.release().await.is_released());
        }
        server.wait_until_clean().await;
    });
}

type Task = tokio::task::JoinHandle<fencepost::Guard>;

async fn first_of(mut one: Task, mut other: Task) -> (fencepost::Guard, Task) {
    tokio::select! {
        guard = &mut one => (guard.unwrap(), other),
        guard = &mut other => (guard.unwrap(), one),
    }
}

/// The push of an abandoned wait arrives during the next wait for the same name. It belongs to nobody.
pub(crate) fn of_a_cancelled_wait() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        proxy.judge(Direction::ToClient, grants(Fate::Late(Proxy::FOREVER)));
        let holder = locker(&server.store().await, LONG);
        let waiter = locker(&open(proxy.address()).await, LONG);
        let held = holder.acquire(NAME).await.unwrap();
        let cancelled = tokio::spawn({
            let waiter = waiter.clone();
            async move { waiter.acquire(NAME).await.map(drop) }
        });
        server.wait_for_line(NAME, 1).await;
        assert!(held.release().await.is_released());
        cancelled.abort();
        // The holder acquires it again, and a new wait of the same process begins.
        let held = soon("the lock back", holder.acquire(NAME)).await.unwrap();
        let waiting = server.waiter_of(&waiter).await;
        proxy.heal();
        // The old push arrives before the answer to a request that is sent now.
        let other = soon("an answer", waiter.try_acquire("another")).await;
        assert!(other.unwrap().is_some());
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished(), "took somebody else's grant");
        assert!(!kept_for(&mut server.plain(), held.owner()).is_zero());
        assert!(held.release().await.is_released());
        let guard = soon("its own grant", waiting).await.unwrap();
        assert!(guard.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// The push overtakes the answer to the request that put its waiter in line. It is accepted, and the answer changes nothing.
pub(crate) fn before_the_answer() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let holder = locker(&server.store().await, LONG);
        let waiter = locker(&open(proxy.address()).await, LONG);
        let mut last = None;
        for _ in 0..3 {
            let held = soon("the lock", holder.acquire(NAME)).await.unwrap();
            // Answers keep their order; only pushes overtake them.
            proxy.judge(Direction::ToClient, |message| {
                if is_grant(message) {
                    Fate::Pass
                } else {
                    Fate::Late(Duration::from_millis(250))
                }
            });
            let waiting = server.waiter_of(&waiter).await;
            let answers = proxy.counts().to_client.messages;
            assert!(held.release().await.is_released());
            let guard = soon("the grant", waiting).await.unwrap();
            assert!(last.is_none_or(|last| guard.fence() > last));
            last = Some(guard.fence());
            let pushed = proxy.counts().to_client.messages - answers;
            assert_eq!(pushed, 1, "the push was to come first");
            proxy.heal();
            assert!(soon("a release", guard.release()).await.is_released());
        }
        server.wait_until_clean().await;
    });
}
