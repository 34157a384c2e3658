//! A `redis::Client` that the user passes in, which opens the connections.

use std::sync::Arc;
use std::time::Duration;

use fencepost::ErrorKind;
use fencepost::stores::redis::Redis;
use fencepost_store_tests::test_program::{NamedTest, tests};
use redis::{Client, IntoConnectionInfo};

use crate::addresses::works;
use crate::support::{LONG, NAME, Server, locker, run, soon};

pub(crate) const TESTS: &[NamedTest] = tests![
    a_client,
    the_first_request_of_a_connection_lifts_the_fence,
    a_client_with_tls,
];

/// Server, user and database come from the client. The store uses RESP3 even if the client is set to RESP2.
fn a_client() {
    run(async {
        let server = Server::start();
        let rights = [
            "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all",
        ];
        server.plain().does(&rights);
        server.plain().does(&["ACL", "SETUSER", "default", "off"]);
        let info = server.0.url().into_connection_info().unwrap();
        let settings = info.redis_settings().clone();
        let settings = settings.set_username("app").set_password("secret");
        let client = Client::open(info.set_redis_settings(settings.set_db(3))).unwrap();
        let open = async || {
            let builder = Redis::builder_from(client.clone());
            assert!(!format!("{builder:?}").contains("secret"));
            soon("a connection", builder.open()).await.unwrap()
        };
        let (one, other) = (open().await, open().await);
        assert_eq!(one.address(), server.0.url());
        works(one, other).await;
        // The client is unchanged, and sees in its database what the store has left there.
        let mut own = client.get_multiplexed_async_connection().await.unwrap();
        let mut keys = redis::cmd("KEYS");
        let keys: Vec<String> = keys.arg("*").query_async(&mut own).await.unwrap();
        assert_eq!(keys, ["fp:{stock}:fence:stock"]);
    });
}

/// A new connection may lead to a different server with old epochs. The first request raises them to the server's time.
fn the_first_request_of_a_connection_lifts_the_fence() {
    run(async {
        let server = Server::start();
        let client = Client::open(server.0.url()).unwrap();
        let store = Redis::builder_from(client).open().await.unwrap();
        let locker = locker(&Arc::new(store), LONG);
        let epoch = async || {
            let mut asked = soon("the lock", locker.acquire(NAME)).await;
            // A request that meets the end of its connection fails, and the next one has a new connection.
            if asked
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::Unavailable)
            {
                asked = soon("the lock", locker.acquire(NAME)).await;
            }
            let guard = asked.unwrap();
            let epoch = guard.fence().epoch();
            assert!(guard.release().await.is_released());
            epoch
        };
        let first = epoch().await;
        // During this time the server's clock advances by 25,600 epochs.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(epoch().await, first + 1, "the connection is not new");
        for kind in ["normal", "pubsub"] {
            let mut plain = server.plain();
            plain.number(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]);
        }
        let lifted = epoch().await;
        assert!(lifted > first + 10_000, "{lifted} after {first}");
    });
}

/// The certificates come from the client.
fn a_client_with_tls() {
    use fencepost_rig::Authority;
    use redis::TlsCertificates;

    use crate::tls::{Secured, patient};

    run(async {
        let authority = Authority::new();
        let server = Secured::start(&authority, "no");
        let certificates = |authority: &Authority| TlsCertificates {
            client_tls: None,
            root_cert: Some(authority.certificate.clone().into_bytes()),
        };
        // As the user's program must do.
        let _chosen = rustls::crypto::ring::default_provider().install_default();
        let client = |authority: &Authority| {
            let url = server.url.as_str();
            Client::build_with_tls(url, certificates(authority)).unwrap()
        };
        let open = async || {
            let builder = patient(Redis::builder_from(client(&authority)));
            soon("a connection", builder.open()).await.unwrap()
        };
        works(open().await, open().await).await;
        let untrusting = patient(Redis::builder_from(client(&Authority::new())));
        let error = soon("an error", untrusting.open()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
        // Settings of the builder take precedence.
        let told = patient(Redis::builder_from(client(&Authority::new())));
        let told = told.root_certificate(authority.certificate.clone());
        soon("a connection", told.open()).await.unwrap();
    });
}
