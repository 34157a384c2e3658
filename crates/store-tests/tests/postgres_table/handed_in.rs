//! A `tokio_postgres::Config` that the user passes in, which the lease table uses for its connection.

use std::sync::Arc;

use fencepost::ErrorKind;
use fencepost::stores::postgres_table::PostgresTable;
use fencepost_store_tests::test_program::{NamedTest, tests};
use tokio_postgres::Config;

use crate::support::{LONG, NAME, Server, locker, run, soon};

pub(crate) const TESTS: &[NamedTest] = tests![a_configuration];

fn a_configuration() {
    run(async {
        let server = Server::start().await;
        let mut config: Config = server.0.url().parse().unwrap();
        config.password("secret").application_name("shop");
        let builder = PostgresTable::builder_from(config.clone()).connect_timeout(LONG / 3);
        assert!(!format!("{builder:?}").contains("secret"));
        let store = Arc::new(soon("a connection", builder.open()).await.unwrap());
        let address = server.0.address();
        assert_eq!(store.address(), format!("postgres://{address}/postgres"));
        let guard = soon("the lock", locker(&store, LONG).acquire(NAME)).await;
        let guard = guard.unwrap();
        let by_address = locker(&server.store().await, LONG);
        let busy = soon("a try", by_address.try_acquire(NAME)).await.unwrap();
        assert!(busy.is_none(), "the same lock by another road");

        // When the first connection has ended, the store opens a new one itself.
        let plain = server.plain().await;
        let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'shop'";
        assert_eq!(plain.number(ended).await, 1);
        let fence = guard.fence();
        // A request that meets the end of its connection fails, and the next one has a new connection. A release is repeated in the
        // background, long before the lease would end.
        let _ = soon("a release", guard.release()).await;
        let again = locker(&store, LONG);
        let next = soon("the lock", async {
            loop {
                match again.acquire(NAME).await {
                    Err(error) if error.kind() == ErrorKind::Unavailable => {}
                    asked => break asked.unwrap(),
                }
            }
        });
        assert!(next.await.fence() > fence);

        let elsewhere = PostgresTable::builder_from(config).table("jobs");
        let made = elsewhere.connect_timeout(LONG / 3).create_table(true);
        assert_eq!(made.open().await.unwrap().table(), "public.jobs");
    });
}
