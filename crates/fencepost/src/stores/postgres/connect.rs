//! A Postgres connection that belongs to one store alone.
//!
//! There is no pool: a connection *is* the session that holds a lock or waits for it. Closing the connection is the only way to give up a
//! lock that works in every state of the session.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Socket};

use super::address::Address;
use super::failure;
use crate::clock::{BootClock, Clock, within};
use crate::error::{Operation, Result};

/// The client library's default keep-alive time, which is too long to notice a server that is gone.
const UNSET_KEEPALIVE: Duration = Duration::from_secs(2 * 60 * 60);
/// With these settings, a server that vanished silently is noticed after 25 s.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// A connection that nobody else uses. Dropping it closes the socket at once, whatever runs on it. The server ends the session and its
/// locks as soon as it checks the socket again.
#[cfg_attr(not(feature = "unstable-hooks"), allow(unreachable_pub))]
pub struct Connection {
    /// The client that sends statements.
    pub client: Client,
    driver: JoinHandle<()>,
    last_words: Arc<OnceLock<tokio_postgres::Error>>,
}

impl Connection {
    /// Returns whether the connection cannot be used any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Closes the socket at once, for all users of this connection, as dropping it does.
    pub(crate) fn close(&self) {
        self.driver.abort();
    }

    /// Returns why the server or the network ended the connection, if that is known.
    pub(crate) fn last_words(&self) -> Option<&tokio_postgres::Error> {
        self.last_words.get()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Otherwise a running statement would keep the connection alive, and a waiting one would eventually get its lock.
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

/// Connects within `connect_timeout`. The session shows `application_name` unless the address has its own. `hear` is called with
/// unsolicited messages of the server, and is dropped when the connection has ended.
///
/// # Errors
/// Returns the errors of [`failure::of_connecting`].
///
/// # Cancel safety
/// If the future is dropped, the connection is closed.
pub(crate) async fn listen(
    store: &'static str,
    operation: Operation,
    address: &Address,
    application_name: &str,
    connect_timeout: Duration,
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
    // A handshake is a large future, of which an unoptimized build keeps several copies on the stack.
    let connecting = Box::pin(async {
        #[cfg(feature = "postgres-tls")]
        if let Some(tls) = &address.tls {
            return open(&config, tls.clone(), hear).await;
        }
        open(&config, NoTls, hear).await
    });
    let until = BootClock.now() + connect_timeout;
    match within(&BootClock, until, connecting).await {
        Some(Ok(connection)) => Ok(connection),
        Some(Err(cause)) => Err(failure::of_connecting(store, operation, cause)),
        None => Err(failure::unreachable(store, operation)),
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
