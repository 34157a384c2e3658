//! Accepts connections, with limits on their number and on slow clients, and shuts down gracefully.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

mod write_timeout;

use write_timeout::WriteTimeout;

/// Limits for connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// How many connections are open at once; further ones wait to be accepted.
    pub max_connections: usize,
    /// How long a client may take to send the head of a request. Also closes connections that send nothing.
    pub head_timeout: Duration,
    /// How long a client may leave an answer unread.
    pub write_timeout: Duration,
    /// How long requests under way may take after the service is told to stop. An order that still waits for its locks then is refused.
    pub grace: Duration,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            max_connections: 1_024,
            head_timeout: Duration::from_secs(20),
            write_timeout: Duration::from_secs(20),
            grace: Duration::from_secs(10),
        }
    }
}

/// The maximum number of header lines of a request.
const MAX_HEADERS: usize = 64;
/// The maximum length of the head of a request.
const MAX_HEAD: usize = 32 * 1024;
/// How much longer than the grace connections stay open: an order that is refused when the grace is over gets its answer.
const FOR_LAST_ANSWERS: Duration = Duration::from_secs(1);
/// The pause after the system refused to accept a connection, for instance for lack of file descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// Serves until it is told to stop. Then waits for the requests under way, for the grace and one more second.
///
/// # Cancel safety
/// If the future is dropped, nothing is accepted any more, and each open connection closes after the answer under way.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    settings: ConnectionSettings,
    stop: &CancellationToken,
) {
    let connection_permits = Arc::new(Semaphore::new(settings.max_connections));
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let permit = Arc::clone(&connection_permits).acquire_owned().await;
            (listener.accept().await, permit)
        };
        let Some((accepted, permit)) = stop.run_until_cancelled(next).await else {
            break;
        };
        match (accepted, permit) {
            (Ok((stream, _)), Ok(permit)) => {
                connect(stream, &routes, &settings, &graceful, permit);
            }
            (Err(error), _) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(AFTER_FAILURE).await;
            }
            (Ok(_), Err(_)) => {}
        }
    }
    // Accept no new connections; the port is free for the next process.
    drop(listener);
    let longest = settings.grace + FOR_LAST_ANSWERS;
    let _ = tokio::time::timeout(longest, graceful.shutdown()).await;
}

fn connect(
    stream: TcpStream,
    routes: &Router,
    settings: &ConnectionSettings,
    graceful: &GracefulShutdown,
    permit: OwnedSemaphorePermit,
) {
    // Answers are small and written at once, so do not wait to coalesce packets.
    let _ = stream.set_nodelay(true);
    let stream = WriteTimeout::new(stream, settings.write_timeout);
    let service = TowerToHyperService::new(routes.clone());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.head_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        // Errors of a connection concern its client, which sees them too.
        let _ = connection.await;
        drop(permit);
    });
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A generous limit: what does not happen within this time never will.
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_client_that_never_reads_never_keeps_its_place() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // More than the system buffers for a client that does not read.
        let routes = Router::new()
            .route("/long", get(async || "x".repeat(64 << 20)))
            .route("/short", get(async || "short"));
        let settings = ConnectionSettings {
            max_connections: 1,
            write_timeout: Duration::from_millis(200),
            ..ConnectionSettings::default()
        };
        let stop = CancellationToken::new();
        let ask = async {
            let mut deaf = TcpStream::connect(address).await.unwrap();
            let long = b"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n";
            deaf.write_all(long).await.unwrap();
            // Connected, but never read from.
            deaf.readable().await.unwrap();
            let mut other = TcpStream::connect(address).await.unwrap();
            let short = b"GET /short HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            other.write_all(short).await.unwrap();
            let mut answer = String::new();
            let read = other.read_to_string(&mut answer);
            tokio::time::timeout(LONG, read).await.unwrap().unwrap();
            assert!(answer.ends_with("short"), "{answer}");
            stop.cancel();
        };
        tokio::join!(serve(listener, routes, settings, &stop), ask);
    }
}
