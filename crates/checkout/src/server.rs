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

/// Bounds of connections.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionSettings {
    /// The most at once; further ones wait to be accepted.
    pub most: usize,
    /// How long a client may take to send a request's head, also when it sends none at all.
    pub head_timeout: Duration,
    /// How long requests under way may take to end when the service is stopped.
    pub grace: Duration,
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        Self {
            most: 1_024,
            head_timeout: Duration::from_secs(20),
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
