//! A ZooKeeper server that is killed and restarted during each kind of operation.

use fencepost::Locker;

use crate::support::{NAME, SESSION, Server, impatient, locker, now, open, run, soon, take};

/// Sessions survive, and held locks with them.
pub(crate) fn while_holding() {
    run(async {
        let mut server = Server::start();
        let session = SESSION * 4;
        let address = server.0.address();
        let (store, rival) = (open(address, session).await, open(address, session).await);
        let (ours, rival) = (locker(&store, session), locker(&rival, session));
        let guard = ours.acquire(NAME).await.unwrap();
        server.0.restart().unwrap();
        let eyes = server.eyes().await;
        assert_eq!(eyes.line().await.len(), 1, "the node is still there");
        // Once it has found the server again.
        drop(
            soon("another lock", rival.acquire("another"))
                .await
                .unwrap(),
        );
        let got = rival.acquire_within(NAME, SESSION / 2).await.unwrap();
        assert!(got.is_none(), "granted to another while it is held");
        guard.extend(session).await.unwrap();
        assert!(!guard.is_lost());
        drop(guard);
        let guard = soon("the lock", ours.acquire(NAME)).await.unwrap();
        assert!(guard.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}

/// A waiter keeps its place, and is woken nevertheless.
pub(crate) fn while_waiting() {
    run(async {
        let mut server = Server::start();
        let session = SESSION * 4;
        let address = server.0.address();
        let (store, holder) = (open(address, session).await, open(address, session).await);
        let held = locker(&holder, session).acquire(NAME).await.unwrap();
        let waiting = tokio::spawn({
            let locker = locker(&store, session);
            async move { locker.acquire(NAME).await.unwrap() }
        });
        let eyes = server.eyes().await;
        eyes.wait_for_line(2).await;
        let before = eyes.line().await;
        server.0.restart().unwrap();
        let eyes = server.eyes().await;
        assert_eq!(eyes.line().await, before, "everybody has its old place");
        assert!(held.release().await.is_released());
        let guard = soon("the waiter", waiting).await.unwrap();
        assert_eq!(eyes.line().await, before[1..]);
        assert!(guard.release().await.is_released());
        eyes.wait_until_clean().await;
    });
}

/// A release without a server is completed when the server is back.
pub(crate) fn while_releasing() {
    run(async {
        let mut server = Server::start();
        let session = SESSION * 10;
        let store = open(server.0.address(), session).await;
        let ours = Locker::builder(store).ttl(session).store_timeout(session);
        let guard = ours.build().unwrap().acquire(NAME).await.unwrap();
        server.0.crash();
        let releasing = tokio::spawn(guard.release());
        server.0.restart().unwrap();
        let outcome = releasing.await.unwrap();
        let eyes = server.eyes().await;
        eyes.wait_until_clean().await;
        assert!(outcome.is_released(), "{outcome:?}");
    });
}

/// The server does not know our session any more. The holder is notified, and everything works again.
pub(crate) fn without_its_data() {
    run(async {
        let mut server = Server::start();
        let ours = locker(&server.store().await, SESSION);
        let guard = ours.acquire(NAME).await.unwrap();
        server.0.forget().unwrap();
        server.0.restart().unwrap();
        soon("the loss", guard.lost()).await;
        let next = soon("the lock", ours.acquire(NAME)).await.unwrap();
        assert!(next.release().await.is_released());
        server.eyes().await.wait_until_clean().await;
    });
}

/// The server is away for so long that we abandoned our session. When it comes back, it remembers that session and would wait
/// for it. We end it there before we start another, so that nobody has to wait.
pub(crate) fn after_we_gave_up() {
    run(async {
        let mut server = Server::start();
        let session = SESSION * 3;
        let ours = impatient(&open(server.0.address(), session).await, session);
        let guard = take(&ours).await;
        server.0.crash();
        soon("the loss", guard.lost()).await;
        // The client abandons a session after 1.4 timeouts, and notices at its next attempt to connect.
        tokio::time::sleep(session * 3 / 2).await;
        server.0.restart().unwrap();
        let back = now();
        let next = take(&ours).await;
        let cost = now().saturating_duration_since(back);
        println!("restarted after we gave up: the next served {cost:?} after its return");
        assert!(
            cost < session / 2,
            "waited for our own old session: {cost:?}"
        );
        assert!(next.fence() > guard.fence());
        assert!(next.release().await.is_released());
        server.eyes().await.wait_until_clean().await;
    });
}
