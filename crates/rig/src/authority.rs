//! An authority for certificates that nobody else trusts, and what it signs.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An authority.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Whoever trusts this trusts what the authority signs (PEM).
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
    /// A new one, with a key of its own.
    ///
    /// # Panics
    /// There is no randomness to make a key of.
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

    /// A certificate for a host, or a person, of this name.
    ///
    /// # Panics
    /// It is no name for a certificate.
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
