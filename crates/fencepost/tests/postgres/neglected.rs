//! Leases that nobody renews, in sessions that are busy with something else.

use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::postgres::Postgres;
use fencepost::{Backend, Claim, Renewal};

use crate::support::{LONG, Server, claim, now, run};

/// Its session is used to try for locks that others hold. That is no sign of life for it.
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

/// Its session is used to look at locks. That is no sign of life for it.
pub(crate) fn looks_do_not_keep_it() {
    run(async {
        let busy = claim("busy", LONG);
        ends_in_time(&busy, async |store| {
            assert!(store.inspect(&busy.name).await.unwrap().is_some());
        })
        .await;
    });
}

/// Its session is used to take and give back other locks. That is no sign of life for it.
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

/// A store with two connections holds a lock in each; one of the locks is not renewed, and the store is kept `at_work`. Another client,
/// which holds `busy`, gets the lock when its TTL has passed, and nothing happens to the lock that is renewed.
async fn ends_in_time(busy: &Claim, at_work: impl AsyncFn(&Postgres)) {
    let server = Server::start();
    let store = Postgres::builder(&server.0.url()).connections(2);
    let store = Arc::new(store.open().await.unwrap());
    let rival = server.store().await;
    assert!(rival.try_acquire(busy).await.unwrap().is_some());
    let ttl = Duration::from_secs(1);
    let (neglected, kept) = (claim("neglected", ttl), claim("kept", LONG));
    // In the first session, which is the first that further requests share.
    assert!(store.try_acquire(&neglected).await.unwrap().is_some());
    assert!(store.try_acquire(&kept).await.unwrap().is_some());
    let since = now();
    let next = claim("neglected", LONG);
    while rival.try_acquire(&next).await.unwrap().is_none() {
        // At every moment of the wait the session has been used a moment ago.
        assert!(now().since(since) < 10 * ttl, "it outlives its TTL");
        at_work(&store).await;
    }
    println!("free after {:?}, TTL {ttl:?}", now().since(since));
    assert!(now().since(since) > ttl / 2, "it ended before its TTL");
    for (claim, expected) in [(&neglected, Renewal::Lost), (&kept, Renewal::Extended)] {
        let renewed = store.renew(std::slice::from_ref(claim)).await;
        assert_eq!(renewed[0].as_ref().unwrap(), &expected, "{}", claim.name);
    }
}
