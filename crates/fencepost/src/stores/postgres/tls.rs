//! The TLS connector for Postgres, built from our certificates.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::stores::kit::certificates::Certificates;

/// Builds the connector. It always checks the server's certificate and host name. The error says what is wrong with the given certificates.
pub(super) fn connector(certificates: &Certificates) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots(certificates)?);
    let config = match &certificates.client {
        None => config.with_no_client_auth(),
        Some((chain, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|error| format!("the client's key: {error}"))?;
            let chain =
                read(chain).map_err(|error| format!("the client's certificate: {error}"))?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| format!("the client's certificate: {error}"))?
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn roots(certificates: &Certificates) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(pem) = &certificates.root else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(roots);
    };
    let bad = |error: String| format!("the root certificate: {error}");
    for certificate in read(pem).map_err(bad)? {
        roots
            .add(certificate)
            .map_err(|error| bad(error.to_string()))?;
    }
    Ok(roots)
}

fn read(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err("there is none in it (PEM is expected)".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(error.to_string()),
    }
}
