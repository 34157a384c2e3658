//! A private certificate authority, and the certificates that it signs.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The root certificate as PEM. Clients that trust it trust everything that the authority signs.
    pub certificate: String,
}

/// A certificate and its key, as PEM.
#[derive(Debug)]
pub struct Signed {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Authority {
    /// Creates an authority with a new key.
    ///
    /// # Panics
    /// Panics if the system has no randomness for the key.
    pub fn new() -> Self {
        let mut params = with_name(Vec::new(), "an authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = new_key();
        let certificate = params.self_signed(&key).expect("its own key fits");
        Self {
            certificate: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Signs a certificate for a host or a user of this name.
    ///
    /// # Panics
    /// Panics if the name is not valid in a certificate.
    pub fn sign(&self, name: &str) -> Signed {
        let params = with_name(vec![name.to_owned()], name);
        let key = new_key();
        let certificate = params.signed_by(&key, &self.issuer);
        Signed {
            certificate: certificate.expect("the authority's key fits").pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

fn with_name(hosts: Vec<String>, name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(hosts).expect("names that a certificate can have");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("randomness")
}
