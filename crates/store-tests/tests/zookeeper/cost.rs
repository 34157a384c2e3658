//! What locks cost the server: wake-ups, transactions and round trips.

use std::time::Duration;

use fencepost::backend::Renewal;
use fencepost::{Backend, Claim};
use fencepost_rig::{Direction, Proxy};
use fencepost_store_tests::claim_on;
use futures_util::future::join_all;

use crate::support::{
    BASE, NAME, SESSION, Server, eventually, locker, open, run, soon, until_quiet,
};

/// A release wakes only the next waiter: all others send nothing.
pub(crate) fn one_waiter_is_woken() {
    run(async {
        let server = Server::start();
        let session = Duration::from_secs(60);
        let holder = crate::support::open(server.0.address(), session).await;
        let held = locker(&holder, session).acquire(NAME).await.unwrap();
        let eyes = server.eyes().await;
        let mut waiters = Vec::new();
        for length in 2..=6 {
            // A long session sends no heartbeat during the test.
            let proxy = server.proxy();
            let store = crate::support::open(proxy.address(), session).await;
            let locker = locker(&store, session);
            let task = tokio::spawn(async move { locker.acquire(NAME).await.unwrap() });
            eyes.wait_for_line(length).await;
            waiters.push((proxy, task));
        }
        // Until they have set their watches.
        let sent = sent_when_quiet(waiters.iter().map(|(proxy, _)| proxy)).await;
        assert!(held.release().await.is_released());
        eventually("the first waiter", async || waiters[0].1.is_finished()).await;
        let now = sent_when_quiet(waiters.iter().map(|(proxy, _)| proxy)).await;
        // The second looks once more, because the first has noted in its node that it now holds the lock.
        assert!(now[0] > sent[0]);
        assert_eq!(now[2..], sent[2..], "a herd was woken");
        for (_, task) in waiters {
            let guard = soon("its turn", task).await.unwrap();
            assert!(guard.release().await.is_released());
        }
        eyes.wait_until_clean().await;
    });
}

async fn sent_when_quiet<'a>(roads: impl Iterator<Item = &'a Proxy>) -> Vec<u64> {
    let looks = roads.map(|road| async {
        until_quiet(road).await;
        road.counts().to_server.bytes
    });
    futures_util::future::join_all(looks).await
}

/// Two transactions for an uncontended lock, three for one that was waited for. Fences count them.
pub(crate) fn transactions_are_few() {
    run(async {
        let server = Server::start_with(&["-Dznode.container.checkIntervalMs=3600000"]);
        let locker = locker(&server.store().await, SESSION);
        // Creates the folder.
        drop(locker.acquire(NAME).await.unwrap());
        let eyes = server.eyes().await;
        eyes.wait_for_line(0).await;
        let first = locker.acquire(NAME).await.unwrap();
        let before = first.fence().epoch();
        assert!(first.release().await.is_released());
        let second = locker.acquire(NAME).await.unwrap();
        assert_eq!(second.fence().epoch() - before, 2, "make, delete");
        let waiting = tokio::spawn({
            let locker = locker.clone();
            async move { locker.acquire(NAME).await.unwrap().release().await }
        });
        eyes.wait_for_line(2).await;
        let before = second.fence().epoch();
        assert!(second.release().await.is_released());
        assert!(soon("its turn", waiting).await.unwrap().is_released());
        let last = locker.acquire(NAME).await.unwrap();
        assert_eq!(last.fence().epoch() - before, 2 + 3, "make, note, delete");
        assert!(last.release().await.is_released());
    });
}

/// More leases than one transaction renews: the second transaction does not wait for the answer to the first. The answers are in the order of
/// the claims.
pub(crate) fn batches_are_renewed_side_by_side() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let session = SESSION * 10;
        let store = open(proxy.address(), session).await;
        let eyes = server.eyes().await;
        let ttl = session / 2;
        let mut claims: Vec<Claim> = (0..store.renew_batch_size() + 1)
            .map(|number| claim_on(&format!("lock-{number}"), ttl))
            .collect();
        let granted = join_all(claims.iter().map(|claim| store.try_acquire(claim))).await;
        assert!(granted.into_iter().all(|grant| grant.unwrap().is_some()));
        let [gone, .., last] = &claims[..] else {
            unreachable!("at least two claims")
        };
        let node = async |claim: &Claim| {
            let folder = format!("{BASE}/{}", claim.name);
            format!("{folder}/{}", eyes.children(&folder).await[0])
        };
        eyes.0.delete(&node(gone).await, None).await.unwrap();
        let last = node(last).await;
        // A longer lease is written to its node, where it can be seen.
        claims.iter_mut().for_each(|claim| claim.ttl = session);
        proxy.delay(Direction::ToClient, Proxy::FOREVER);
        let renewing = tokio::spawn(async move { store.renew(&claims).await });
        eventually("the second transaction", async || {
            let stat = eyes.0.check_stat(&last).await.unwrap();
            stat.is_some_and(|stat| stat.version > 0)
        })
        .await;
        proxy.heal();
        for (at, answer) in soon("answers", renewing)
            .await
            .unwrap()
            .into_iter()
            .enumerate()
        {
            let expected = if at == 0 {
                Renewal::Lost
            } else {
                Renewal::Extended
            };
            assert_eq!(answer.unwrap(), expected, "{at}");
        }
    });
}
