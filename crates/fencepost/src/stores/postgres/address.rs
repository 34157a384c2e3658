//! The address of a Postgres server: parses it, or takes the user's own configuration, and adds certificates.

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

#[cfg(feature = "postgres-tls")]
use super::tls;
use crate::error::{Error, Result};
use crate::stores::kit::certificates::{CertificateFiles, Certificates, ParameterNames};
use crate::stores::kit::percent;

const FORM: &str = "not an address of Postgres; expected postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE[?sslmode=require]";

/// Where the server is and how to log in, as the user gave it.
#[derive(Clone)]
pub(crate) enum Server {
    Address(String),
    /// The user's own configuration.
    Config(Box<Config>),
}

impl Server {
    /// Parses the address. Parameters of an address whose names are in `own` are removed and returned.
    ///
    /// # Errors
    /// Returns the same errors as [`Address::parse`].
    pub(crate) fn parse(
        &self,
        store: &'static str,
        own: &[&str],
        certificates: &Certificates,
    ) -> Result<(Address, Parameters)> {
        match self {
            Self::Address(text) => Address::parse(store, text, own, certificates),
            Self::Config(config) => match Address::of(config, certificates) {
                Ok(address) => Ok((address, Parameters::new())),
                Err(message) => Err(Error::invalid_settings(store, message)),
            },
        }
    }
}

/// A server, a database and a user.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) config: Config,
    shown: String,
    #[cfg(feature = "postgres-tls")]
    pub(super) tls: Option<tokio_postgres_rustls::MakeRustlsConnect>,
}

/// The parameters with which libpq names certificate files.
const FILES: ParameterNames = ["sslrootcert", "sslcert", "sslkey"];

/// The parameters of an address that do not belong to the client library: decoded names and values.
pub(crate) type Parameters = Vec<(String, String)>;

impl Address {
    /// Parses `postgres://…` (or `postgresql://…`). Parameters whose names are in `own` are removed and returned.
    ///
    /// Without `sslmode`, or with `sslmode=disable`, the connection is not encrypted. `require`, `verify-ca` and `verify-full` all mean
    /// `verify-full`: the certificate and the host name are checked. The modes in between protect against nobody, and are refused.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the address is invalid. The message never quotes the address,
    /// which may contain a password.
    pub(crate) fn parse(
        store: &'static str,
        address: &str,
        own: &[&str],
        certificates: &Certificates,
    ) -> Result<(Self, Parameters)> {
        let invalid = |message: String| Error::invalid_settings(store, message);
        if !address.starts_with("postgres://") && !address.starts_with("postgresql://") {
            return Err(invalid(FORM.to_owned()));
        }
        let (base, query) = address.split_once('?').unwrap_or((address, ""));
        let (mut passed_on, mut taken, mut mode) = (Vec::new(), Vec::new(), "");
        let mut files = CertificateFiles::new(FILES);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "sslmode" => mode = value,
                _ if files.is_parameter(name) => files.set(name, decode(value)),
                _ if own.contains(&name) => taken.push((name.to_owned(), decode(value))),
                _ => passed_on.push(pair),
            }
        }
        let text = if passed_on.is_empty() {
            base.to_owned()
        } else {
            format!("{base}?{}", passed_on.join("&"))
        };
        let mut config: Config = text.parse().map_err(|cause| {
            // The source of this error names a parameter or a rule, but not a value.
            let cause: tokio_postgres::Error = cause;
            let why =
                std::error::Error::source(&cause).map_or(String::new(), |why| format!(" ({why})"));
            invalid(format!("{FORM}{why}"))
        })?;
        if names_no_host(&config) {
            return Err(invalid(format!("{FORM}: it names no host")));
        }
        config.ssl_mode(match mode {
            "" | "disable" => SslMode::Disable,
            "require" | "verify-ca" | "verify-full" => SslMode::Require,
            "allow" | "prefer" => {
                let message = format!(
                    "sslmode={mode} protects from nobody; choose sslmode=require (certificate checked) or sslmode=disable"
                );
                return Err(invalid(message));
            }
            _ => return Err(invalid("sslmode is require or disable".to_owned())),
        });
        if mode.is_empty() && !files.is_empty() {
            let message = "certificates are named, and TLS is not asked for: say sslmode=require";
            return Err(invalid(message.to_owned()));
        }
        let mut certificates = certificates.clone();
        files.read_into(&mut certificates).map_err(invalid)?;
        let address = Self::new(config, &certificates).map_err(invalid)?;
        Ok((address, taken))
    }

    /// Uses the user's configuration. `SslMode::Prefer`, which is its default, means no TLS.
    fn of(config: &Config, certificates: &Certificates) -> std::result::Result<Self, String> {
        if names_no_host(config) {
            return Err("the configuration names no host".to_owned());
        }
        let mut config = config.clone();
        if !matches!(config.get_ssl_mode(), SslMode::Require) {
            if !certificates.is_empty() {
                return Err(
                    "certificates are given, and TLS is not asked for: choose SslMode::Require"
                        .to_owned(),
                );
            }
            config.ssl_mode(SslMode::Disable);
        }
        Self::new(config, certificates)
    }

    #[cfg(feature = "postgres-tls")]
    fn new(config: Config, certificates: &Certificates) -> std::result::Result<Self, String> {
        Ok(Self {
            tls: match config.get_ssl_mode() {
                SslMode::Disable => None,
                _ => Some(tls::connector(certificates)?),
            },
            shown: show(&config),
            config,
        })
    }

    #[cfg(not(feature = "postgres-tls"))]
    fn new(config: Config, _: &Certificates) -> std::result::Result<Self, String> {
        match config.get_ssl_mode() {
            SslMode::Disable => Ok(Self {
                shown: show(&config),
                config,
            }),
            _ => {
                Err("built without TLS: sslmode=require needs the feature postgres-tls".to_owned())
            }
        }
    }

    /// Returns the address without user and password.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the same server, but sessions show this name, whatever the address says.
    pub(crate) fn with_application_name(mut self, name: &str) -> Self {
        self.config.application_name(name);
        self
    }

    /// Returns the `application_name` in the address.
    pub(crate) fn application_name(&self) -> Option<&str> {
        self.config.get_application_name()
    }
}

fn names_no_host(config: &Config) -> bool {
    config.get_hosts().is_empty() && config.get_hostaddrs().is_empty()
}

fn show(config: &Config) -> String {
    let ports = config.get_ports();
    let port_of = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
    let hosts = config.get_hosts().iter().enumerate();
    let mut shown: Vec<String> = hosts
        .map(|(at, host)| match host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]:{}", port_of(at)),
            Host::Tcp(name) => format!("{name}:{}", port_of(at)),
            Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    if shown.is_empty() {
        let addresses = config.get_hostaddrs().iter();
        shown = addresses.map(ToString::to_string).collect();
    }
    let database = config.get_dbname().or(config.get_user());
    format!(
        "postgres://{}/{}",
        shown.join(","),
        database.unwrap_or_default()
    )
}

/// Decodes a text. A text that is not percent-encoded is used as it is.
fn decode(text: &str) -> String {
    percent::decode(text).unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn parse(address: &str) -> Result<(Address, Parameters)> {
        Address::parse("postgres", address, &["table"], &Certificates::default())
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        let (address, _) = parse("postgres://shop:secret@db.example:6432/shop").unwrap();
        assert_eq!(address.shown(), "postgres://db.example:6432/shop");
        let (address, _) = parse("postgresql://shop@[::1]/").unwrap();
        assert_eq!(address.shown(), "postgres://[::1]:5432/shop");
    }

    #[test]
    fn parameters_of_ours_are_taken_out() {
        let (address, own) =
            parse("postgres://u@h/d?table=my%20locks&application_name=shop&connect_timeout=3")
                .unwrap();
        assert_eq!(own, [("table".to_owned(), "my locks".to_owned())]);
        assert_eq!(address.application_name(), Some("shop"));
    }

    #[test]
    fn what_is_no_address_is_refused_without_being_quoted() {
        for (address, reason) in [
            ("redis://localhost", "expected postgres://"),
            (
                "postgres://u:secret@h/d?sslmode=prefer",
                "protects from nobody",
            ),
            (
                "postgres://u:secret@h/d?sslmode=maybe",
                "require or disable",
            ),
            ("postgres://u:secret@h:port/d", "expected postgres://"),
            ("postgres://u:secret@h/d?frobnicate=secret", "frobnicate"),
            ("postgres://u:secret@/d", "names no host"),
            (
                "postgres://u:secret@h/d?sslmode=require&sslrootcert=/nowhere/ca.pem",
                "/nowhere/ca.pem",
            ),
            (
                "postgres://u:secret@h/d?sslrootcert=/nowhere/ca.pem",
                "say sslmode=require",
            ),
            (
                "postgres://u:secret@h/d?sslmode=require&sslcert=/nowhere/me.pem",
                "sslcert=FILE&sslkey=FILE",
            ),
        ] {
            let error = parse(address).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(reason), "{address}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[cfg(not(feature = "postgres-tls"))]
    #[test]
    fn a_build_without_tls_says_so() {
        let error = parse("postgres://u@h/d?sslmode=require").err().unwrap();
        assert!(error.to_string().contains("postgres-tls"), "{error}");
    }
}
