//! TLS connections to Postgres, with a certificate authority created for the test.

use std::os::unix::fs::{PermissionsExt, chown};

use fencepost::stores::postgres::Postgres;
use fencepost::{Effect, ErrorKind};
use fencepost_rig::{Authority, folder};

use crate::support::{LONG, Server, assert_error, run, soon, works};

/// The server's certificate is signed by a private authority. It works for clients that trust that authority, and for no
/// others.
pub(crate) fn private_authority() {
    run(async {
        let authority = Authority::new();
        let own = authority.sign("127.0.0.1");
        let folder = folder().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            if nix::unistd::Uid::effective().is_root() {
                let user = nix::unistd::User::from_name("postgres").unwrap().unwrap();
                chown(&path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
            }
            path.to_str().unwrap().to_owned()
        };
        let certificate = file("server.pem", &own.certificate);
        let key = file("server.key", &own.key);
        let root = file("ca.pem", &authority.certificate);
        let start = |rules: &str| {
            Server::start_with(&[
                "ssl=on",
                &format!("ssl_ca_file={root}"),
                &format!("ssl_cert_file={certificate}"),
                &format!("ssl_key_file={key}"),
                &format!("hba_file={rules}"),
            ])
        };
        let server = start(&file("hba.conf", "hostssl all all all trust\n"));
        let url = server.0.url();
        let secured = format!("{url}?sslmode=require");

        // On a busy machine a handshake takes longer than the default allows, but the answer must come before the test gives up.
        let builder = |url: &str| Postgres::builder(url).connect_timeout(LONG / 6);
        let refused = async |url: &str| {
            let opened = soon("an error", builder(url).open()).await;
            opened.expect_err("a refusal")
        };
        assert_error(
            &refused(&url).await,
            ErrorKind::Unusable,
            Effect::None,
            "sslmode=require",
        );
        assert_error(
            &refused(&secured).await,
            ErrorKind::Unusable,
            Effect::None,
            "TLS",
        );
        let store = builder(&format!("{secured}&sslrootcert={root}")).open();
        let store = store.await.unwrap();
        works(&store).await;
        let store = builder(&secured)
            .root_certificate(authority.certificate.clone())
            .open();
        works(&store.await.unwrap()).await;
        let mut config: tokio_postgres::Config = url.parse().unwrap();
        config.ssl_mode(tokio_postgres::config::SslMode::Require);
        let store = Postgres::builder_from(config)
            .connect_timeout(LONG / 6)
            .root_certificate(authority.certificate.clone())
            .open();
        works(&store.await.unwrap()).await;

        // This server also requires a client certificate of the authority.
        let server = start(&file(
            "strict.conf",
            "hostssl all all all trust clientcert=verify-ca\n",
        ));
        let secured = format!("{}?sslmode=require&sslrootcert={root}", server.0.url());
        let error = refused(&secured).await;
        assert_error(&error, ErrorKind::Unusable, Effect::None, "certificate");
        let shown = authority.sign("client");
        let (shown, its_key) = (
            file("client.pem", &shown.certificate),
            file("client.key", &shown.key),
        );
        let secured = format!("{secured}&sslcert={shown}&sslkey={its_key}");
        works(&builder(&secured).open().await.unwrap()).await;

        let plain = Server::start();
        let error = refused(&format!("{}?sslmode=require", plain.0.url())).await;
        assert_error(&error, ErrorKind::Unusable, Effect::None, "TLS");
    });
}
