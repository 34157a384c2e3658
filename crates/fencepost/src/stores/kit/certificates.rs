//! TLS certificates: those that a program passes in, and the files that an address names.

use std::fmt;

/// Whom we trust and how we identify ourselves, all as PEM.
#[derive(Default, Clone)]
pub(crate) struct Certificates {
    /// Authorities to trust instead of the public ones.
    pub(crate) root: Option<Vec<u8>>,
    /// Our own certificate and its key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    /// Returns whether no certificate was passed in.
    #[cfg(any(feature = "redis-tls", feature = "postgres", feature = "etcd"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none() && self.client.is_none()
    }
}

/// Shows which certificates there are, but never the key.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("root", &self.root.is_some())
            .field("client", &self.client.is_some())
            .finish()
    }
}

/// The names of the parameters in an address: authority, our certificate, its key.
pub(crate) type ParameterNames = [&'static str; 3];

/// The parameter names in addresses whose format is our own.
#[cfg(any(feature = "redis", feature = "etcd"))]
pub(crate) const OURS: ParameterNames = ["ca", "cert", "key"];

/// The certificate files that an address names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateFiles {
    names: ParameterNames,
    paths: [Option<String>; 3],
}

impl CertificateFiles {
    pub(crate) fn new(names: ParameterNames) -> Self {
        Self {
            names,
            paths: [None, None, None],
        }
    }

    /// Returns whether this is the name of one of the parameters.
    pub(crate) fn is_parameter(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    /// Records the path in such a parameter.
    pub(crate) fn set(&mut self, name: &str, path: String) {
        let place = self.names.iter().position(|known| *known == name);
        if let Some(place) = place {
            self.paths[place] = Some(path);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.paths.iter().all(Option::is_none)
    }

    /// Reads the files once; later changes of the files are not noticed. A file in the address replaces what `certificates` contains.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or does not contain what it should, or if only one of certificate and key is given.
    pub(crate) fn read_into(&self, certificates: &mut Certificates) -> Result<(), String> {
        let [root_name, certificate_name, key_name] = self.names;
        let [root, certificate, key] = &self.paths;
        if let Some(path) = root {
            certificates.root = Some(read(root_name, path, Kind::Certificate)?);
        }
        certificates.client = match (certificate, key) {
            (None, None) => return Ok(()),
            (Some(certificate), Some(key)) => Some((
                read(certificate_name, certificate, Kind::Certificate)?,
                read(key_name, key, Kind::Key)?,
            )),
            _ => {
                return Err(format!(
                    "a client certificate needs its key: {certificate_name}=FILE&{key_name}=FILE"
                ));
            }
        };
        Ok(())
    }
}

/// The expected content of a file.
#[derive(Clone, Copy)]
enum Kind {
    Certificate,
    Key,
}

fn read(name: &str, path: &str, kind: Kind) -> Result<Vec<u8>, String> {
    let content = std::fs::read(path).map_err(|error| format!("{name}: {path}: {error}"))?;
    let what = match kind {
        Kind::Certificate => "certificate",
        Kind::Key => "private key",
    };
    if has(&content, kind) {
        Ok(content)
    } else if matches!(kind, Kind::Key) && is_encrypted(&content) {
        Err(format!(
            "{name}: {path}: the key in it is encrypted; give one without a passphrase: openssl pkey -in {path} -out FILE"
        ))
    } else {
        Err(format!(
            "{name}: {path}: there is no {what} in it (PEM is expected)"
        ))
    }
}

/// Returns whether the file contains a key that needs a passphrase, in PKCS #8 or in the older format.
fn is_encrypted(content: &[u8]) -> bool {
    let mut lines = content.split(|byte| *byte == b'\n');
    lines.any(|line| {
        line.starts_with(b"-----BEGIN ENCRYPTED PRIVATE KEY")
            || line.starts_with(b"Proc-Type: 4,ENCRYPTED")
    })
}

/// Returns whether the file contains this kind. The clients would notice too, but only when they connect, and without naming the file.
#[cfg(any(feature = "redis-tls", feature = "postgres-tls", feature = "etcd-tls"))]
fn has(content: &[u8], kind: Kind) -> bool {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    match kind {
        Kind::Key => PrivateKeyDer::from_pem_slice(content).is_ok(),
        Kind::Certificate => {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
            all.is_ok_and(|all| !all.is_empty())
        }
    }
}

/// Without TLS the content is not used, so it is not checked.
#[cfg(not(any(feature = "redis-tls", feature = "postgres-tls", feature = "etcd-tls")))]
fn has(_: &[u8], _: Kind) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: ParameterNames = ["ca", "cert", "key"];

    fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    fn pem(kind: &str) -> String {
        format!("Bag Attributes\r\n-----BEGIN {kind}-----\r\nMIIB\r\n-----END {kind}-----\r\n")
    }

    fn read(parameters: &[(&str, &str)]) -> Result<Certificates, String> {
        let mut files = CertificateFiles::new(NAMES);
        let mut certificates = Certificates {
            root: Some(b"the program's".to_vec()),
            client: None,
        };
        for (name, path) in parameters {
            assert!(files.is_parameter(name));
            files.set(name, (*path).to_owned());
        }
        files.read_into(&mut certificates)?;
        Ok(certificates)
    }

    #[test]
    fn what_an_address_names_wins() {
        let folder = tempfile::tempdir().expect("a folder");
        let certificate = file(&folder, "a.pem", &pem("CERTIFICATE"));
        let key = file(&folder, "a.key", &pem("EC PRIVATE KEY"));
        let none = read(&[]).expect("nothing is read");
        assert_eq!(none.root.as_deref(), Some(b"the program's".as_slice()));
        assert!(none.client.is_none());
        let all = read(&[("ca", &certificate), ("cert", &certificate), ("key", &key)]);
        let all = all.expect("files that are there");
        assert_eq!(all.root, Some(pem("CERTIFICATE").into_bytes()));
        let told = format!("{all:?}");
        assert_eq!(told, "Certificates { root: true, client: true }");
        let (_, shown) = all.client.expect("both were named");
        assert_eq!(shown, pem("EC PRIVATE KEY").into_bytes());
    }

    #[cfg(feature = "etcd-tls")]
    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let certificate = file(&folder, "a.pem", &pem("CERTIFICATE"));
        let cut_off = file(&folder, "b.pem", &pem("CERTIFICATE")[..50]);
        let garbled = file(
            &folder,
            "d.pem",
            &pem("CERTIFICATE").replace("MIIB", "MII!"),
        );
        let encrypted = file(&folder, "e.pem", &pem("ENCRYPTED PRIVATE KEY"));
        let old = pem("RSA PRIVATE KEY").replace(
            "MIIB",
            "Proc-Type: 4,ENCRYPTED\r\nDEK-Info: AES-128-CBC,00\r\n\r\nMIIB",
        );
        let old = file(&folder, "f.pem", &old);
        let nowhere = folder.path().join("c.pem").display().to_string();
        for (parameters, words) in [
            (&[("ca", nowhere.as_str())][..], "ca: "),
            (&[("ca", nowhere.as_str())], "c.pem: No such file"),
            (
                &[("ca", cut_off.as_str())],
                "b.pem: there is no certificate in it",
            ),
            (
                &[("ca", garbled.as_str())],
                "d.pem: there is no certificate in it",
            ),
            (&[("cert", certificate.as_str())], "cert=FILE&key=FILE"),
            (&[("key", certificate.as_str())], "cert=FILE&key=FILE"),
            (
                &[
                    ("cert", certificate.as_str()),
                    ("key", certificate.as_str()),
                ],
                "a.pem: there is no private key in it (PEM is expected)",
            ),
            (
                &[("cert", certificate.as_str()), ("key", encrypted.as_str())],
                "e.pem: the key in it is encrypted; give one without a passphrase",
            ),
            (
                &[("cert", certificate.as_str()), ("key", old.as_str())],
                "f.pem: the key in it is encrypted; give one without a passphrase",
            ),
            (
                &[("ca", encrypted.as_str())],
                "e.pem: there is no certificate in it",
            ),
        ] {
            let said = read(parameters).expect_err(words);
            assert!(said.contains(words), "{said}");
        }
    }
}
