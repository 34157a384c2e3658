//! Where the server is, and a connection to it that is ours alone.
//!
//! No pool: a connection *is* the session that holds a lock or waits for it, and closing it is the one way to give up a lock that
//! works whatever state it is in.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Socket};

use super::failure;
#[cfg(feature = "postgres-tls")]
use super::tls;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::stores::kit::certificates::{Certificates, Files, Names};
use crate::stores::kit::percent;

const FORM: &str = "not an address of Postgres; expected postgres://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE[?sslmode=require]";

/// What the client library has when an address says nothing: too long to notice a server that is gone.
const UNSET_KEEPALIVE: Duration = Duration::from_secs(2 * 60 * 60);
/// With these a server that vanished without a word is noticed after 25 s.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// A server, a database and who we are there.
#[derive(Clone)]
pub(crate) struct Address {
    config: Config,
    shown: String,
    #[cfg(feature = "postgres-tls")]
    tls: Option<tokio_postgres_rustls::MakeRustlsConnect>,
}

/// What libpq calls the files of certificates.
const FILES: Names = ["sslrootcert", "sslcert", "sslkey"];

/// The parameters of an address that are not the client library's: name and value, decoded.
pub(crate) type Parameters = Vec<(String, String)>;

impl Address {
    /// Reads `postgres://…` (or `postgresql://…`). Parameters whose names are in `own` are taken out and returned.
    ///
    /// Without `sslmode`, or with `sslmode=disable`, the connection is not encrypted. `require`, `verify-ca` and `verify-full` all mean the
    /// last: the certificate and the host's name are checked. The modes in between protect from nobody, and are refused.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`]; the message never quotes the address, which may carry a password.
    pub(crate) fn parse(
        store: &'static str,
        address: &str,
        own: &[&str],
        certificates: &Certificates,
    ) -> Result<(Self, Parameters)> {
        let invalid =
            |message: String| Error::new(ErrorKind::InvalidInput, store, Operation::Open, message);
        if !address.starts_with("postgres://") && !address.starts_with("postgresql://") {
            return Err(invalid(FORM.to_owned()));
        }
        let (base, query) = address.split_once('?').unwrap_or((address, ""));
        let (mut passed_on, mut taken, mut mode) = (Vec::new(), Vec::new(), "");
        let mut files = Files::new(FILES);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "sslmode" => mode = value,
                _ if files.knows(name) => files.note(name, decode(value)),
                _ if own.contains(&name) => taken.push((name.to_owned(), decode(value))),
                _ => passed_on.push(pair),
            }
        }
        let text = match passed_on.is_empty() {
            true => base.to_owned(),
            false => format!("{base}?{}", passed_on.join("&")),
        };
        let mut config: Config = text.parse().map_err(|cause| {
            // The cause's own cause names a parameter or a rule, not its value.
            let cause: tokio_postgres::Error = cause;
            let why =
                std::error::Error::source(&cause).map_or(String::new(), |why| format!(" ({why})"));
            invalid(format!("{FORM}{why}"))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(invalid(format!("{FORM}: it names no host")));
        }
        let encrypted = match mode {
            "" | "disable" => false,
            "require" | "verify-ca" | "verify-full" => true,
            "allow" | "prefer" => {
                let message = format!(
                    "sslmode={mode} protects from nobody; choose sslmode=require (certificate checked) or sslmode=disable"
                );
                return Err(invalid(message));
            }
            _ => return Err(invalid("sslmode is require or disable".to_owned())),
        };
        config.ssl_mode(match encrypted {
            true => SslMode::Require,
            false => SslMode::Disable,
        });
        if mode.is_empty() && !files.are_none() {
            let message = "certificates are named, and TLS is not asked for: say sslmode=require";
            return Err(invalid(message.to_owned()));
        }
        let mut certificates = certificates.clone();
        files.read_into(&mut certificates).map_err(invalid)?;
        let shown = show(&config);
        #[cfg(feature = "postgres-tls")]
        let address = Self {
            tls: match encrypted {
                true => Some(tls::connector(&certificates).map_err(invalid)?),
                false => None,
            },
            config,
            shown,
        };
        #[cfg(not(feature = "postgres-tls"))]
        let address = match encrypted {
            true => {
                let message = "built without TLS: sslmode=require needs the feature postgres-tls";
                return Err(invalid(message.to_owned()));
            }
            false => Self { config, shown },
        };
        Ok((address, taken))
    }

    /// Where the server is, without user and password.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// The same server, where sessions show this name whatever the address says.
    pub(crate) fn with_application_name(mut self, name: &str) -> Self {
        self.config.application_name(name);
        self
    }

    /// What the address itself says `application_name` is.
    pub(crate) fn application_name(&self) -> Option<&str> {
        self.config.get_application_name()
    }
}

/// A connection of our own. Dropping it closes the socket at once, whatever is under way on it: the server ends the session, and with it
/// its locks, as soon as it looks at the socket again.
pub struct Connection {
    /// What statements are sent with.
    pub client: Client,
    driver: JoinHandle<()>,
    last_words: Arc<OnceLock<tokio_postgres::Error>>,
}

impl Connection {
    /// Whether the connection is of no use any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Closes the socket at once, for everybody who shares this; as dropping does.
    pub(crate) fn close(&self) {
        self.driver.abort();
    }

    /// Why the server or the network ended it, if anybody said.
    pub(crate) fn last_words(&self) -> Option<&tokio_postgres::Error> {
        self.last_words.get()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Otherwise a statement under way would keep the connection, and a waiting one would get its lock some day.
        self.close();
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// Connects within `patience`; the session shows `application_name` unless the address has its own.
///
/// # Errors
/// As [`failure::of_connecting`].
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub(crate) async fn connect(
    store: &'static str,
    operation: Operation,
    address: &Address,
    application_name: &str,
    patience: Duration,
) -> Result<Connection> {
    listen(
        store,
        operation,
        address,
        application_name,
        patience,
        |_| {},
    )
    .await
}

/// [`connect`], and tells `hear` what the server sends unasked. `hear` is dropped when the connection has ended.
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub(crate) async fn listen(
    store: &'static str,
    operation: Operation,
    address: &Address,
    application_name: &str,
    patience: Duration,
    hear: impl FnMut(AsyncMessage) + Send + 'static,
) -> Result<Connection> {
    let mut config = address.config.clone();
    if config.get_application_name().is_none() {
        config.application_name(application_name);
    }
    if config.get_keepalives_idle() == UNSET_KEEPALIVE {
        config.keepalives_idle(KEEPALIVE_IDLE);
        config.keepalives_interval(KEEPALIVE_INTERVAL);
        config.keepalives_retries(KEEPALIVE_RETRIES);
    }
    let connecting = async {
        #[cfg(feature = "postgres-tls")]
        if let Some(tls) = &address.tls {
            return open(&config, tls.clone(), hear).await;
        }
        open(&config, NoTls, hear).await
    };
    match tokio::time::timeout(patience, connecting).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(cause)) => Err(failure::of_connecting(store, operation, cause)),
        Err(_) => Err(failure::unreachable(store, operation)),
    }
}

async fn open<T>(
    config: &Config,
    tls: T,
    mut hear: impl FnMut(AsyncMessage) + Send + 'static,
) -> Result<Connection, tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
    T::TlsConnect: TlsConnect<Socket>,
{
    let (client, mut connection) = config.connect(tls).await?;
    let last_words = Arc::new(OnceLock::new());
    let heard = last_words.clone();
    let driver = tokio::spawn(async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                Ok(message) => hear(message),
                Err(error) => {
                    let _first = heard.set(error);
                    return;
                }
            }
        }
    });
    Ok(Connection {
        client,
        driver,
        last_words,
    })
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

/// What is not encoded is meant as it stands.
fn decode(text: &str) -> String {
    percent::decode(text).unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

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
