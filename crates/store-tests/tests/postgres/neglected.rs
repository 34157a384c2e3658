//! Leases that are not renewed, in sessions that are busy with other work.

use std::sync::Arc;
use std::time::Duration;

use fencepost::backend::{Release, Renewal};
use fencepost::stores::postgres::Postgres;
use fencepost::{Backend, Claim};

use crate::support::{LONG, Server, claim, eventually, now, run};

/// Its session tries for locks that others hold. That must not keep it alive.
pub(crate) fn tries_do_not_keep_it() {
    run(async {
        let busy = claim("busy", LONG);
        let other = claim("busy", LONG);
        ends_in_time(&busy, async |store| {
            assert!(store.try_acquire(&other).await.unwrap().is_none());
        })
        .await;
    });
}

/// Its session inspects locks. That must not keep it alive.
pub(crate) fn looks_do_not_keep_it() {
    run(async {
        let busy = claim("busy", LONG);
        ends_in_time(&busy, async |store| {
            assert!(store.inspect(&busy.name).await.unwrap().is_some());
        })
        .await;
    });
}

/// Its session acquires and releases other locks. That must not keep it alive.
pub(crate) fn other_locks_do_not_keep_it() {
    run(async {
        let busy = claim("busy", LONG);
        let other = claim("other", LONG);
        ends_in_time(&busy, async |store| {
            assert!(store.try_acquire(&other).await.unwrap().is_some());
            store.release(&other).await.unwrap();
        })
        .await;
    });
}

/// A store holds one lock in each of its two connections. One of the locks is not renewed, while `at_work` keeps the store
/// busy. Another client, which holds `busy`, gets the lock after its TTL, and the renewed lock is not affected.
async fn ends_in_time(busy: &Claim, at_work: impl AsyncFn(&Postgres)) {
    let server = Server::start();
    let store = Postgres::builder(&server.0.url()).max_connections(2);
    let store = Arc::new(store.open().await.unwrap());
    let rival = server.store().await;
    assert!(rival.try_acquire(busy).await.unwrap().is_some());
    let ttl = Duration::from_secs(1);
    let (neglected, kept) = (claim("neglected", ttl), claim("kept", LONG));
    // The lease of the neglected lock begins after this.
    let since = now();
    // In the first session, which further requests share first.
    assert!(store.try_acquire(&neglected).await.unwrap().is_some());
    assert!(store.try_acquire(&kept).await.unwrap().is_some());
    let next = claim("neglected", LONG);
    while rival.try_acquire(&next).await.unwrap().is_none() {
        // Throughout the wait, the session has been used very recently.
        assert!(
            now().saturating_duration_since(since) < 10 * ttl,
            "it outlives its TTL"
        );
        at_work(&store).await;
    }
    println!(
        "free after {:?}, TTL {ttl:?}",
        now().saturating_duration_since(since)
    );
    assert!(
        now().saturating_duration_since(since) >= ttl,
        "it ended before its TTL"
    );
    for (claim, expected) in [(&neglected, Renewal::Lost), (&kept, Renewal::Extended)] {
        let renewed = store.renew(std::slice::from_ref(claim)).await;
        assert_eq!(renewed[0].as_ref().unwrap(), &expected, "{}", claim.name);
    }
}

/// A statement that should also release an overdue lock fails after granting the lock it was sent for. The overdue lock is
/// released with the next statement of the session, which another lease keeps alive.
pub(crate) fn a_failed_statement_strands_no_lock() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let store = Postgres::builder(&server.0.url()).max_connections(2);
        let store = store.open().await.unwrap();
        let rival = server.store().await;
        let (overdue, kept) = (
            claim("overdue", Duration::from_millis(200)),
            claim("kept", LONG),
        );
        // The first and the third share a session, the second and the fourth share the other, and the fifth uses the first.
        let others = ["other 1", "other 2"].map(|name| claim(name, LONG));
        for claim in [&overdue, &others[0], &kept, &others[1]] {
            assert!(store.try_acquire(claim).await.unwrap().is_some());
        }
        let since = now();
        while now().saturating_duration_since(since) < 2 * overdue.ttl {
            tokio::time::sleep(overdue.ttl / 2).await;
        }
        let last = eyes
            .text("select last_value from public.fencepost_fence")
            .await;
        eyes.text("select setval('public.fencepost_fence', 140737488355327)")
            .await;
        let failed = store.try_acquire(&claim("fails", LONG)).await;
        failed.expect_err("a sequence at its end");
        eyes.text(&format!("select setval('public.fencepost_fence', {last})"))
            .await;
        let next = claim("overdue", LONG);
        eventually("the overdue lock is given back", async || {
            let renewed = store.renew(std::slice::from_ref(&kept)).await;
            assert_eq!(renewed[0].as_ref().unwrap(), &Renewal::Extended);
            rival.try_acquire(&next).await.unwrap().is_some()
        })
        .await;
        let renewed = store.renew(std::slice::from_ref(&overdue)).await;
        assert_eq!(renewed[0].as_ref().unwrap(), &Renewal::Lost);
        assert_eq!(store.release(&overdue).await.unwrap(), Release::NotHeld);
        let renewed = store.renew(std::slice::from_ref(&kept)).await;
        assert_eq!(renewed[0].as_ref().unwrap(), &Renewal::Extended);
    });
}
