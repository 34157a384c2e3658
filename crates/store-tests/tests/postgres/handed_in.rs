//! A `tokio_postgres::Config` that the user passes in, which the store uses for its connections.

use std::sync::Arc;

use fencepost::stores::postgres::Postgres;
use fencepost::{Effect, ErrorKind};
use fencepost_store_tests::test_program::{NamedTest, tests};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use crate::support::{LONG, NAME, Server, assert_error, locker, run, soon, works};

pub(crate) const TESTS: &[NamedTest] = tests![a_configuration, tls_is_as_required,];

/// Server, user, database and application name come from the configuration.
fn a_configuration() {
    run(async {
        let server = Server::start();
        let mut config = Config::new();
        let address = server.0.address();
        config.host(address.ip().to_string()).port(address.port());
        config
            .user("fencepost")
            .dbname("postgres")
            .password("secret");
        config.application_name("shop");
        let builder = Postgres::builder_from(config);
        assert!(!format!("{builder:?}").contains("secret"));
        let store = Arc::new(soon("connections", builder.open()).await.unwrap());
        assert_eq!(store.address(), format!("postgres://{address}/postgres"));
        works(&*store).await;

        let first = locker(&store, LONG).acquire(NAME).await.unwrap();
        let eyes = server.eyes().await;
        let named = "select count(*) from pg_stat_activity where application_name like 'shop/2%'";
        assert!(eyes.number(named).await > 0);
        let by_address = locker(&server.store().await, LONG);
        let busy = soon("a try", by_address.try_acquire(NAME)).await.unwrap();
        assert!(busy.is_none(), "the same lock by another road");

        // Its session ends, and the lock with it. The store opens the next connection itself.
        let ended = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name like 'shop/2%'";
        eyes.number(ended).await;
        soon("the loss", first.lost()).await;
        let next = soon("the lock", locker(&store, LONG).acquire(NAME)).await;
        assert!(next.unwrap().fence() > first.fence());
    });
}

/// TLS is used if it is required, and never by chance.
fn tls_is_as_required() {
    run(async {
        let server = Server::start();
        let config: Config = server.0.url().parse().unwrap();
        let refused = async |config: &Config| {
            let opened = soon("an error", Postgres::builder_from(config.clone()).open()).await;
            opened.expect_err("a refusal")
        };
        assert_eq!(config.get_ssl_mode(), SslMode::Prefer);
        works(&Postgres::builder_from(config.clone()).open().await.unwrap()).await;

        let mut required = config.clone();
        required.ssl_mode(SslMode::Require);
        let error = refused(&required).await;
        assert_error(&error, ErrorKind::Unusable, Effect::None, "TLS");
        let builder = Postgres::builder_from(config).root_certificate("nobody's");
        let error = builder.open().await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::InvalidInput,
            Effect::None,
            "SslMode::Require",
        );

        let error = refused(&Config::new()).await;
        assert_error(&error, ErrorKind::InvalidInput, Effect::None, "no host");
    });
}
