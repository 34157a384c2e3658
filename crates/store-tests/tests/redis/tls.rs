//! TLS connections to Redis, with a certificate authority created for the test.

use fencepost::ErrorKind;
use fencepost::stores::redis::{Redis, RedisBuilder};
use fencepost_rig::{Authority, Signed, TempDir, folder};

use crate::addresses::works;
use crate::support::{SOON, run, soon};

/// A server with a TLS port.
pub(crate) struct Secured {
    _server: fencepost_rig::Redis,
    pub(crate) url: String,
    _folder: TempDir,
}

impl Secured {
    pub(crate) fn start(authority: &Authority, clients: &str) -> Self {
        let folder = folder().unwrap();
        let own = authority.sign("127.0.0.1");
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (ca, certificate, key) = (
            file("ca.pem", &authority.certificate),
            file("server.pem", &own.certificate),
            file("server.key", &own.key),
        );
        let builder = fencepost_rig::Redis::builder().tls().arguments([
            "--tls-ca-cert-file",
            &ca,
            "--tls-cert-file",
            &certificate,
            "--tls-key-file",
            &key,
            "--tls-auth-clients",
            clients,
        ]);
        let server = builder.start().unwrap();
        Self {
            url: format!("rediss://{}", server.tls_address().unwrap()),
            _server: server,
            _folder: folder,
        }
    }

    fn trusting(&self, authority: &Authority) -> RedisBuilder {
        patient(Redis::builder(&self.url)).root_certificate(authority.certificate.clone())
    }
}

/// Lets the store take longer to connect than it does by default, which a busy machine may need for a handshake.
pub(crate) fn patient(builder: RedisBuilder) -> RedisBuilder {
    builder.connect_timeout(SOON / 2)
}

/// The client trusts the given authority, and no other.
pub(crate) fn private_authority() {
    run(async {
        let authority = Authority::new();
        let server = Secured::start(&authority, "no");
        let open = async || {
            soon("a connection", server.trusting(&authority).open())
                .await
                .unwrap()
        };
        let (one, other) = (open().await, open().await);
        assert_eq!(one.address(), server.url);
        works(one, other).await;

        for untrusting in [
            patient(Redis::builder(&server.url)),
            server.trusting(&Authority::new()),
        ] {
            let error = soon("an error", untrusting.open()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
        }
        // Plain text to a TLS port.
        let url = server.url.replace("rediss:", "redis:");
        let error = soon("an error", patient(Redis::builder(&url)).open())
            .await
            .unwrap_err();
        assert_eq!(error.effect(), fencepost::Effect::None, "{error}");
    });
}

/// The server requires a client certificate of its authority.
pub(crate) fn client_certificate() {
    run(async {
        let authority = Authority::new();
        let server = Secured::start(&authority, "yes");
        let open = async || {
            let Signed { certificate, key } = authority.sign("client");
            let builder = server
                .trusting(&authority)
                .client_certificate(certificate, key);
            soon("a connection", builder.open()).await.unwrap()
        };
        works(open().await, open().await).await;
        let error = soon("an error", server.trusting(&authority).open())
            .await
            .unwrap_err();
        assert_eq!(error.effect(), fencepost::Effect::None, "{error}");
    });
}
