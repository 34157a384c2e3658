//! Forced releases of Postgres locks that another process holds.

use std::sync::Arc;

use fencepost::Backend;
use fencepost::backend::{Release, Renewal};
use fencepost::stores::postgres::Postgres;
use fencepost_rig::{Direction, Proxy};

use crate::support::{LONG, NAME, Server, claim, eventually, run, soon};

/// A forced release first looks up the owner's session and then terminates it. In between, the owner releases the lock, and
/// another claim acquires it in the same session. That lock must survive.
pub(crate) fn the_owner_changes_between_look_and_end() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let proxy = Proxy::start(server.0.address()).unwrap();
        let address = format!(
            "postgres://fencepost@{}/postgres?application_name=elsewhere",
            proxy.address()
        );
        let elsewhere = Postgres::builder(&address).connect_timeout(LONG);
        let elsewhere = Arc::new(elsewhere.open().await.unwrap());
        let store = server.store().await;
        let (old, new) = (claim(NAME, LONG), claim(NAME, LONG));
        assert!(store.try_acquire(&old).await.unwrap().is_some());
        let pid = eyes.holder().await;

        // The answer to the lookup is held back.
        proxy.delay(Direction::ToClient, Proxy::FOREVER);
        let releasing = tokio::spawn({
            let (elsewhere, old) = (elsewhere.clone(), old.clone());
            async move { elsewhere.release(&old).await }
        });
        eventually("the look is over", async || {
            let looked = "select count(*) from pg_stat_activity \
                          where application_name like 'elsewhere%' and state = 'idle' and query like '%from pg_locks l %'";
            eyes.number(looked).await == 1
        })
        .await;
        assert_eq!(store.release(&old).await.unwrap(), Release::Freed);
        assert!(store.try_acquire(&new).await.unwrap().is_some());
        assert_eq!(eyes.holder().await, pid, "the same session");
        proxy.heal();
        let released = soon("the forced release", releasing).await.unwrap();
        assert_eq!(released.unwrap(), Release::NotHeld);

        let renewed = store.renew(std::slice::from_ref(&new)).await;
        assert_eq!(renewed[0].as_ref().unwrap(), &Renewal::Extended);
        // The named claim is released.
        let released = soon("the forced release", elsewhere.release(&new)).await;
        assert_eq!(released.unwrap(), Release::Freed);
        eyes.wait_until_clean().await;
    });
}
