//! TLS, with an authority made for the test.

use std::os::unix::fs::{PermissionsExt, chown};

use fencepost::backend::postgres::Postgres;
use fencepost::{Effect, ErrorKind};
use fencepost_rig::folder;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::support::{Server, is, run, soon, works};

/// A server whose certificate an unknown authority signed: it works for those who know the authority, and for nobody else.
pub(crate) fn private_authority() {
    run(async {
        let mut authority = CertificateParams::new(Vec::<String>::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority
            .distinguished_name
            .push(DnType::CommonName, "an authority");
        let authority_key = KeyPair::generate().unwrap();
        let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
        let issuer = Issuer::new(authority, authority_key);
        let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let own_key = KeyPair::generate().unwrap();
        let own_pem = own.signed_by(&own_key, &issuer).unwrap().pem();

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
        let certificate = file("server.pem", &own_pem);
        let key = file("server.key", &own_key.serialize_pem());
        let root = file("ca.pem", &authority_pem);
        let rules = file("hba.conf", "hostssl all all all trust\n");
        let server = Server::start_with(&[
            "ssl=on",
            &format!("ssl_cert_file={certificate}"),
            &format!("ssl_key_file={key}"),
            &format!("hba_file={rules}"),
        ]);
        let url = server.0.url();
        let secured = format!("{url}?sslmode=require");

        let refused = async |url: &str| {
            let opened = soon("an error", Postgres::open(url)).await;
            opened.expect_err("a refusal")
        };
        is(
            &refused(&url).await,
            ErrorKind::Unusable,
            Effect::None,
            "sslmode=require",
        );
        is(
            &refused(&secured).await,
            ErrorKind::Unusable,
            Effect::None,
            "TLS",
        );
        let store = Postgres::open(&format!("{secured}&sslrootcert={root}"))
            .await
            .unwrap();
        works(&store).await;
        let store = Postgres::builder(&secured)
            .root_certificate(authority_pem)
            .open();
        works(&store.await.unwrap()).await;

        let plain = Server::start();
        let error = refused(&format!("{}?sslmode=require", plain.0.url())).await;
        is(&error, ErrorKind::Unusable, Effect::None, "TLS");
    });
}
