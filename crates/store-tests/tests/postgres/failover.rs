//! A Postgres standby takes over: fences increase, and no holder keeps believing in the replaced primary.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost::Backend;
use fencepost::backend::Renewal;
use fencepost::stores::postgres::Postgres;
use futures_util::poll;

use crate::support::{
    GRACE, LONG, NAME, Server, claim, eventually, locker, outlives_its_ttl, run, soon,
};

async fn grant(server: &Server) -> u64 {
    let (store, claim) = (server.store().await, claim(NAME, LONG));
    let grant = soon("a grant", store.try_acquire(&claim)).await.unwrap();
    let epoch = grant.expect("a free lock").epoch;
    store.release(&claim).await.unwrap();
    epoch
}

/// Starts a primary with a standby that follows it.
async fn pair() -> (Server, Server) {
    let primary = Server::start();
    let standby = Server(primary.0.standby().unwrap());
    let eyes = primary.eyes().await;
    let following = "select count(*) from pg_stat_replication where state = 'streaming'";
    eventually("it follows", async || eyes.number(following).await == 1).await;
    (primary, standby)
}

/// Starts a primary whose commits wait for its standby.
async fn synchronous_pair() -> (Server, Server) {
    let (primary, standby) = pair().await;
    let eyes = primary.eyes().await;
    eyes.text("alter system set synchronous_standby_names = '*'")
        .await;
    eyes.text("select pg_reload_conf()").await;
    let waited_for = "select count(*) from pg_stat_replication where sync_state = 'sync'";
    eventually("it is waited for", async || {
        eyes.number(waited_for).await == 1
    })
    .await;
    (primary, standby)
}

/// Replication is asynchronous by default. The new primary does not know the last grants, and all locks are free there.
pub(crate) fn a_lagging_standby_takes_over() {
    run(async {
        let (mut primary, standby) = pair().await;
        let known = grant(&primary).await;
        let eyes = primary.eyes().await;
        let replayed =
            "select count(*) from pg_stat_replication where replay_lsn = pg_current_wal_lsn()";
        eventually("it has that", async || eyes.number(replayed).await == 1).await;
        // The standby receives nothing from here on.
        let other = standby.eyes().await;
        other.text("alter system set primary_conninfo = ''").await;
        other.text("select pg_reload_conf()").await;
        let receivers = "select count(*) from pg_stat_wal_receiver";
        eventually("it is cut off", async || other.number(receivers).await == 0).await;
        let mut last = known;
        for _ in 0..5 {
            last = last.max(grant(&primary).await);
        }
        primary.0.crash();
        assert_eq!(other.text("select pg_promote()").await, "t");
        for _ in 0..5 {
            let epoch = grant(&standby).await;
            assert!(epoch > last, "{epoch} after {last}");
            last = epoch;
        }
    });
}

/// A synchronous standby takes over, and the old primary continues without knowing it. Its holder gets no renewal confirmed,
/// and must stop believing within its TTL.
pub(crate) fn a_deposed_primary_keeps_nobody_believing() {
    run(async {
        let (primary, standby) = synchronous_pair().await;
        let ttl = Duration::from_secs(6);
        let held = locker(&primary.store().await, ttl)
            .acquire(NAME)
            .await
            .unwrap();
        // Renewals are confirmed as long as the standby is there.
        outlives_its_ttl(&held, ttl).await;
        let other = standby.eyes().await;
        assert_eq!(other.text("select pg_promote()").await, "t");
        let promoted = Instant::now();
        let next = locker(&standby.store().await, ttl)
            .acquire(NAME)
            .await
            .unwrap();
        assert!(next.fence() > held.fence());
        let lost = tokio::time::timeout(ttl + GRACE, held.lost()).await;
        lost.expect("the old holder has to be told within its TTL");
        println!(
            "failover: lost {:?} after the promotion",
            promoted.elapsed()
        );
        assert!(!next.is_lost());
    });
}

/// If somebody cancels a wait for the standby by hand, the server answers as if the commit were confirmed, with a warning. The
/// holder relies on the warning.
pub(crate) fn a_cancelled_confirmation_is_none() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let held = locker(&server.store().await, LONG / 10)
            .acquire(NAME)
            .await
            .unwrap();
        let holder = eyes.holder().await;
        eyes.text("alter system set synchronous_standby_names = 'nobody'")
            .await;
        eyes.text("select pg_reload_conf()").await;
        let hangs = format!(
            "select count(*) from pg_stat_activity where pid = {holder} and wait_event = 'SyncRep'"
        );
        eventually("a renewal hangs", async || eyes.number(&hangs).await == 1).await;
        eyes.text(&format!("select pg_cancel_backend({holder})"))
            .await;
        let asked = Instant::now();
        soon("the loss", held.lost()).await;
        println!("failover: lost {:?} after the cancel", asked.elapsed());
        eyes.wait_until_clean().await;
    });
}

/// Concurrent renewals of one session share a few commits instead of using one per lease. A commit that waits for a standby
/// takes a while, and a session has one at a time.
pub(crate) fn renewals_share_a_commit() {
    run(async {
        let (primary, _standby) = synchronous_pair().await;
        let store = Postgres::builder(&primary.0.url()).max_connections(2);
        let store = Arc::new(store.open().await.unwrap());
        let claims: Vec<_> = (0..60).map(|at| claim(&format!("{at}"), LONG)).collect();
        for claim in &claims {
            assert!(store.try_acquire(claim).await.unwrap().is_some());
        }
        let eyes = primary.eyes().await;
        // Each of our commits has a transaction number.
        let commits = "select pg_snapshot_xmax(pg_current_snapshot())";
        for _ in 0..3 {
            let before = eyes.number(commits).await;
            // In separate tasks, as in a locker.
            let tasks = claims.iter().cloned().map(|claim| {
                let store = store.clone();
                tokio::spawn(async move { store.renew(&[claim]).await.remove(0) })
            });
            for task in tasks.collect::<Vec<_>>() {
                let renewed = soon("a renewal", task).await.unwrap();
                assert_eq!(renewed.unwrap(), Renewal::Extended);
            }
            let used = eyes.number(commits).await - before;
            println!("failover: {used} commits for {} leases", claims.len());
            assert!(used >= 2, "both sessions have to be renewed");
            assert!(used < 30, "{used} commits for {} leases", claims.len());
        }
    });
}

/// A renewal hangs, and another lease of the same session waits to be renewed after it, when the session is terminated. Both
/// are lost, even the one for which nothing was sent.
pub(crate) fn a_renewal_that_was_not_sent_is_none() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let store = Postgres::builder(&server.0.url()).max_connections(2);
        let store = store.open().await.unwrap();
        // The first and the third share a session.
        let claims = ["a", "b", "c"].map(|name| claim(name, LONG));
        for claim in &claims {
            assert!(store.try_acquire(claim).await.unwrap().is_some());
        }
        eyes.text("alter system set synchronous_standby_names = 'nobody'")
            .await;
        eyes.text("select pg_reload_conf()").await;
        let reloaded = "select count(*) from pg_settings where name = 'synchronous_standby_names' and setting = 'nobody'";
        eventually("the setting", async || eyes.number(reloaded).await == 1).await;
        let hangs = "select pid from pg_stat_activity where wait_event = 'SyncRep'";
        // The server's processes take the setting over one after the other. Until the last of them has, a renewal is answered.
        let (sent, pid) = soon("a renewal hangs", async {
            loop {
                let mut sent = Box::pin(store.renew(&claims[..1]));
                while poll!(&mut sent).is_pending() {
                    let pid = eyes.text(hangs).await;
                    if !pid.is_empty() {
                        return (sent, pid);
                    }
                }
            }
        })
        .await;
        let mut waits = Box::pin(store.renew(&claims[2..]));
        assert!(poll!(&mut waits).is_pending());
        eyes.text(&format!("select pg_terminate_backend({pid})"))
            .await;
        for renewal in [sent, waits] {
            let renewed = soon("an answer", renewal).await.remove(0);
            assert_eq!(renewed.unwrap(), Renewal::Lost);
        }
    });
}
