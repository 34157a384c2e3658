//! `redis::Client`s that the user passes in, one per Redlock server.

use std::sync::Arc;

use fencepost::stores::redlock::Redlock;
use fencepost::{Effect, ErrorKind};
use fencepost_rig::Redis;
use fencepost_store_tests::test_program::{NamedTest, tests};
use redis::Client;

use crate::support::{LONG, NAME, Servers, assert_error, locker, run, soon};

pub(crate) const TESTS: &[NamedTest] = tests![three_clients];

fn three_clients() {
    run(async {
        let servers = Servers::start();
        let clients = servers.0.each_ref().map(Redis::url);
        let clients = clients.map(|url| Client::open(url).unwrap());
        let builder = Redlock::builder_from(clients.clone());
        let store = Arc::new(soon("connections", builder.open()).await.unwrap());
        assert_eq!(store.address(), servers.address());
        let guard = soon("the lock", locker(&store, LONG).acquire(NAME)).await;
        let guard = guard.unwrap();
        let by_address = locker(&servers.store().await, LONG);
        let busy = soon("a try", by_address.try_acquire(NAME)).await.unwrap();
        assert!(busy.is_none(), "the same lock by another road");
        let fence = guard.fence();
        assert!(guard.release().await.is_released());
        let next = soon("the lock", by_address.acquire(NAME)).await.unwrap();
        assert!(next.fence() > fence);

        let [one, two, _] = clients;
        for (clients, word) in [
            (vec![one.clone(), two.clone()], "too few"),
            (vec![one.clone(), two, one], "vote twice"),
        ] {
            let opened = soon("an error", Redlock::builder_from(clients).open()).await;
            assert_error(
                &opened.unwrap_err(),
                ErrorKind::InvalidInput,
                Effect::None,
                word,
            );
        }
    });
}
