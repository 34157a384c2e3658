//! A claim for an advisory lock waits while a standby replaces the primary.

use fencepost_rig::Proxy;

use crate::support::{Eyes, LONG, NAME, Server, eventually, locker, open_impatient, run, soon};

/// The address leads to the standby before it is promoted. A waiter retries until then.
pub(crate) fn a_waiter_meets_a_standby() {
    run(async {
        let mut primary = Server::start();
        let standby = primary.0.standby().unwrap();
        let proxy = Proxy::start(primary.0.address()).unwrap();
        let through = format!("postgres://fencepost@{}/postgres", proxy.address());
        let holder = locker(&primary.store().await, LONG);
        let waiter = locker(&open_impatient(&through).await, LONG);
        let eyes = primary.eyes().await;
        let held = holder.acquire(NAME).await.unwrap();
        let waiting = tokio::spawn(async move { waiter.acquire(NAME).await });
        eyes.wait_for_line(1).await;
        primary.0.crash();
        proxy.point_at(standby.address());
        let before = proxy.counts().connections;
        eventually("the waiter has met the standby", async || {
            waiting.is_finished() || proxy.counts().connections >= before + 3
        })
        .await;
        if waiting.is_finished() {
            panic!("it was thrown out: {:?}", waiting.await);
        }
        let promoted = Eyes::open(&standby.url()).await;
        assert_eq!(promoted.text("select pg_promote()").await, "t");
        let guard = soon("the waiter's turn", waiting).await.unwrap().unwrap();
        assert!(guard.release().await.is_released());
        promoted.wait_until_clean().await;
        drop(held);
    });
}
