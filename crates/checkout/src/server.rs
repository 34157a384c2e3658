//! The listener: how many connections, how slow a client may be, and how it ends.

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

mod reader;

use reader::Reader;

/// Bounds of connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionSettings {
    /// The most at once; further ones wait to be accepted.
    pub most: usize,
    /// How long a client may take to send a request's head, also when it sends none at all.
    pub head_timeout: Duration,
    /// How long a client may leave an answer unread, without taking anything of it.
    pub read_timeout: Duration,
    /// How long requests under way may take to end when the service is stopped.
    pub grace: Duration,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            most: 1_024,
            head_timeout: Duration::from_secs(20),
            read_timeout: Duration::from_secs(20),
            grace: Duration::from_secs(10),
        }
    }
}

/// The most header lines of a request.
const MAX_HEADERS: usize = 64;
/// The longest head of a request.
const MAX_HEAD: usize = 32 * 1024;
/// How long the system is left alone when it has no more room for connections.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// Serves until told to stop, then lets requests under way end. `false`: some had not when the time was over.
///
/// # Cancel safety
/// When dropped, connections are left to themselves.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    settings: ConnectionSettings,
    stop: &CancellationToken,
) -> bool {
    let places = Arc::new(Semaphore::new(settings.most));
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let Some((accepted, place)) = stop.run_until_cancelled(next).await else {
            break;
        };
        match (accepted, place) {
            (Ok((stream, _)), Ok(place)) => {
                connect(stream, &routes, &settings, &graceful, place);
            }
            (Err(error), _) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(AFTER_FAILURE).await;
            }
            (Ok(_), Err(_)) => {}
        }
    }
    // Nobody new; the port is free for the next one.
    drop(listener);
    tokio::time::timeout(settings.grace, graceful.shutdown())
        .await
        .is_ok()
}

fn connect(
    stream: TcpStream,
    routes: &Router,
    settings: &ConnectionSettings,
    graceful: &GracefulShutdown,
    place: OwnedSemaphorePermit,
) {
    // Answers are small and whole.
    let _ = stream.set_nodelay(true);
    let stream = Reader::new(stream, settings.read_timeout);
    let service = TowerToHyperService::new(routes.clone());
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.head_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        // What is wrong with a connection is the client's affair, and shows there.
        let _ = connection.await;
        drop(place);
    });
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Whatever does not happen within this time never will.
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_client_that_never_reads_never_keeps_its_place() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // More than the system keeps for a client that reads later.
        let routes = Router::new()
            .route("/long", get(async || "x".repeat(64 << 20)))
            .route("/short", get(async || "short"));
        let settings = ConnectionSettings {
            most: 1,
            read_timeout: Duration::from_millis(200),
            ..ConnectionSettings::default()
        };
        let stop = CancellationToken::new();
        let ask = async {
            let mut deaf = TcpStream::connect(address).await.unwrap();
            let long = b"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n";
            deaf.write_all(long).await.unwrap();
            // There, and left unread.
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
        let (all_ended, ()) = tokio::join!(serve(listener, routes, settings, &stop), ask);
        assert!(all_ended);
    }
}
