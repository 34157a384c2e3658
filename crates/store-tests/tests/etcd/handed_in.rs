//! Connection options that the user passes in, which the etcd store uses for its connections.

use std::sync::Arc;

use etcd_client::ConnectOptions;
use fencepost::ErrorKind;
use fencepost::stores::etcd::Etcd;
use fencepost_store_tests::test_program::{NamedTest, tests};

use crate::faults::with_users;
use crate::support::{LONG, NAME, locker, open, released, run, soon, works};

pub(crate) const TESTS: &[NamedTest] = tests![options, options_with_tls, what_is_not_an_endpoint,];

/// Servers, user and password come from the options, the prefix from the builder.
fn options() {
    run(async {
        let mut server = fencepost_rig::Etcd::start().unwrap();
        with_users(&server);
        let address = server.address();
        // The first server does not exist.
        let endpoints = ["http://127.0.0.1:1".to_owned(), format!("http://{address}")];
        let options = ConnectOptions::new().with_user("ci", "secret");
        let builder = Etcd::builder_from(endpoints, options).prefix("mine/");
        assert!(!format!("{builder:?}").contains("secret"));
        let store = Arc::new(soon("a connection", builder.open()).await.unwrap());
        assert_eq!(
            store.address(),
            format!("etcd://127.0.0.1:1,{address}/mine")
        );
        let last = works(&store, 0).await;

        let guard = locker(&store, LONG).acquire(NAME).await.unwrap();
        let by_address = open(&format!("etcd://ci:secret@{address}/mine")).await;
        let busy = locker(&by_address, LONG).try_acquire(NAME).await.unwrap();
        assert!(busy.is_none(), "the same lock by another road");
        server.restart().unwrap();
        guard.extend(LONG).await.unwrap();
        released(guard).await;
        works(&store, last).await;
    });
}

/// TLS options of the user, and those of the builder, which take precedence.
fn options_with_tls() {
    use etcd_client::{Certificate, TlsOptions};
    use fencepost_rig::Authority;

    use crate::tls::{Secured, patient};

    run(async {
        let authority = Authority::new();
        let secured = Secured::start(&authority, false);
        let address = secured.url.strip_prefix("etcds://").unwrap();
        let trusting = |authority: &Authority| {
            let certificate = Certificate::from_pem(&authority.certificate);
            let tls = TlsOptions::new().ca_certificate(certificate);
            let options = ConnectOptions::new().with_tls(tls);
            patient(Etcd::builder_from([format!("https://{address}")], options))
        };
        let store = soon("a connection", trusting(&authority).open()).await;
        let store = Arc::new(store.unwrap());
        assert_eq!(store.address(), format!("etcds://{address}"));
        works(&store, 0).await;
        let wrong = trusting(&Authority::new());
        soon("an error", wrong.clone().open()).await.unwrap_err();
        let told = wrong.root_certificate(authority.certificate.clone());
        soon("a connection", told.open()).await.unwrap();
    });
}

fn what_is_not_an_endpoint() {
    run(async {
        let wrong: [&[&str]; 4] = [&[], &[""], &["http://"], &["http://u:secret@h"]];
        for endpoints in wrong {
            let builder = Etcd::builder_from(endpoints.iter().copied(), ConnectOptions::new());
            let error = builder.open().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{endpoints:?}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    });
}
