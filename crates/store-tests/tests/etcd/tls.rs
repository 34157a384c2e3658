//! TLS connections to etcd, with a certificate authority created for the test.

use fencepost::ErrorKind;
use fencepost::stores::etcd::{Etcd, EtcdBuilder};
use fencepost_rig::{Authority, Signed, TempDir, folder};
use std::sync::Arc;

use crate::support::{SOON, run, soon, works};

/// A server that accepts only TLS.
pub(crate) struct Secured {
    server: fencepost_rig::Etcd,
    pub(crate) url: String,
    _folder: TempDir,
}

impl Secured {
    pub(crate) fn start(authority: &Authority, wants_certificates: bool) -> Self {
        let folder = folder().unwrap();
        let own = authority.sign("127.0.0.1");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let mut arguments = vec![
            format!("--cert-file={}", file("server.pem", &own.certificate)),
            format!("--key-file={}", file("server.key", &own.key)),
        ];
        if wants_certificates {
            let authority = file("ca.pem", &authority.certificate);
            arguments.push(format!("--trusted-ca-file={authority}"));
            arguments.push("--client-cert-auth".to_owned());
        }
        let builder = fencepost_rig::Etcd::builder().tls();
        let builder = builder.arguments(arguments.iter().map(String::as_str));
        let server = builder.start().unwrap();
        Self {
            url: format!("etcds://{}", server.address()),
            server,
            _folder: folder,
        }
    }

    fn trusting(&self, authority: &Authority) -> EtcdBuilder {
        patient(Etcd::builder(&self.url)).root_certificate(authority.certificate.clone())
    }
}

/// Lets the store take longer to connect than it does by default, which a busy machine may need for a handshake.
pub(crate) fn patient(builder: EtcdBuilder) -> EtcdBuilder {
    builder.connect_timeout(SOON / 2)
}

/// The client trusts the given authority, and no other.
pub(crate) fn private_authority() {
    run(async {
        let authority = Authority::new();
        let secured = Secured::start(&authority, false);
        let store = soon("a connection", secured.trusting(&authority).open());
        let store = Arc::new(store.await.unwrap());
        assert_eq!(store.address(), secured.url);
        works(&store, 0).await;
        for untrusting in [
            patient(Etcd::builder(&secured.url)),
            secured.trusting(&Authority::new()),
        ] {
            let error = soon("an error", untrusting.open()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
        }
        // Plain text to a TLS port.
        let error = soon(
            "an error",
            patient(Etcd::builder(&secured.server.url())).open(),
        )
        .await;
        let error = error.unwrap_err();
        assert_eq!(error.effect(), fencepost::Effect::None, "{error}");
    });
}

/// The server requires a client certificate of its authority.
pub(crate) fn client_certificate() {
    run(async {
        let authority = Authority::new();
        let secured = Secured::start(&authority, true);
        let Signed { certificate, key } = authority.sign("client");
        let builder = secured
            .trusting(&authority)
            .client_certificate(certificate, key);
        let store = soon("a connection", builder.open()).await.unwrap();
        works(&Arc::new(store), 0).await;
        let error = soon("an error", secured.trusting(&authority).open());
        let error = error.await.unwrap_err();
        assert_eq!(error.effect(), fencepost::Effect::None, "{error}");
    });
}
