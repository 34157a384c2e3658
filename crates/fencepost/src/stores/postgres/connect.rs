//! A connection to the server that is ours alone.
//!
//! No pool: a connection *is* the session that holds a lock or waits for it, and closing it is the one way to give up a lock that
//! works whatever state it is in.

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Socket};

use super::address::Address;
use super::failure;
use crate::error::{Operation, Result};

/// What the client library has when an address says nothing: too long to notice a server that is gone.
const UNSET_KEEPALIVE: Duration = Duration::from_secs(2 * 60 * 60);
/// With these a server that vanished without a word is noticed after 25 s.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// A connection of our own. Dropping it closes the socket at once, whatever is under way on it: the server ends the session, and with it
/// its locks, as soon as it looks at the socket again.
#[cfg_attr(not(feature = "unstable-hooks"), allow(unreachable_pub))]
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

/// Connects within `patience`; the session shows `application_name` unless the address has its own. `hear` is told what the server sends
/// unasked, and dropped when the connection has ended.
///
/// # Errors
/// As [`failure::of_connecting`].
///
/// # Cancel safety
/// Dropping the future closes the connection.
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
