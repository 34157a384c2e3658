//! The routes of the live page: its document, script and styles, the stream that feeds it, and the start of a trial.
//!
//! They are not part of the API: paths and messages may change with the page.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::App;
use super::input::Body;
use super::problem::Problem;
use crate::live::{Frames, NotStarted, SeenFrames};
use crate::page;

/// The content security policy: nothing from other sites, nothing inline, no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The minimum time between two batches of frames.
const PACE: Duration = Duration::from_millis(200);
/// How long a page waits before it reconnects.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A file of the page.
struct Asset {
    kind: &'static str,
    text: String,
    tag: HeaderValue,
}

impl Asset {
    fn new(kind: &'static str, text: String) -> Self {
        let digest = Sha256::digest(&text);
        let digits: String = digest[..12]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        // Hexadecimal digits in quotes are always a valid header value.
        let tag = HeaderValue::from_str(&format!("\"{digits}\""));
        Self {
            kind,
            text,
            tag: tag.unwrap_or_else(|_| HeaderValue::from_static("\"\"")),
        }
    }
}

static DOCUMENT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("text/html; charset=utf-8", page::document()));
static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("text/javascript; charset=utf-8", page::script()));
static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("text/css; charset=utf-8", page::style()));

/// Returns the routes of the page.
pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route(
            "/",
            get(async |request: Request| answer(&DOCUMENT, &request)),
        )
        .route(
            "/page/page.js",
            get(async |request: Request| answer(&SCRIPT, &request)),
        )
        .route(
            "/page/page.css",
            get(async |request: Request| answer(&STYLE, &request)),
        )
        .route("/page/live", get(live))
        .route("/page/trial", post(start))
        .route("/page/trial/stop", post(stop))
        .layer(from_fn(with_security_headers))
}

/// Serves a file with an `ETag`: browsers cache it and revalidate it each time.
fn answer(asset: &'static Asset, request: &Request) -> Response {
    let known = request.headers().get(header::IF_NONE_MATCH);
    let known = known
        .and_then(|tags| tags.to_str().ok())
        .unwrap_or_default();
    let tag = asset.tag.to_str().unwrap_or_default();
    let is_known = known
        .split(',')
        .any(|known| known.trim().trim_start_matches("W/") == tag);
    let headers = [
        (header::ETAG, asset.tag.clone()),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    let kind = [(header::CONTENT_TYPE, asset.kind)];
    (headers, kind, asset.text.as_str()).into_response()
}

async fn with_security_headers(request: Request, next: Next) -> Response {
    const HEADERS: [(HeaderName, &str); 3] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let mut response = next.run(request).await;
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Streams frames as server-sent events, at a limited rate. Each frame replaces the previous one of its topic.
async fn live(State(app): State<App>) -> Result<Response, Problem> {
    let permit = Arc::clone(&app.0.page_permits).try_acquire_owned();
    let permit = permit.map_err(|_| {
        Problem::unavailable("too-many-watchers", "too many clients watch already")
            .retry_after(Duration::from_secs(5))
    })?;
    let frames = FrameStream {
        frames: app.0.live.watch(),
        seen: SeenFrames::default(),
        ready: VecDeque::from([hello()]),
        looked: None,
        closing: app.0.closing.clone(),
        _permit: permit,
    };
    let alive = KeepAlive::new().interval(Duration::from_secs(10));
    let stream = Sse::new(frames.stream()).keep_alive(alive);
    let headers = [(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    Ok((headers, stream).into_response())
}

/// Returns the first event, which names the version of the script that these frames belong to.
fn hello() -> Message {
    let tag = SCRIPT.tag.to_str().unwrap_or_default();
    let data = format!("{{\"page\":{tag}}}");
    Message::default()
        .event("hello")
        .data(data)
        .retry(RETRY_AFTER)
}

struct FrameStream {
    frames: watch::Receiver<Frames>,
    seen: SeenFrames,
    ready: VecDeque<Message>,
    looked: Option<Instant>,
    closing: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl FrameStream {
    fn stream(self) -> impl Stream<Item = Result<Message, Infallible>> {
        stream::unfold(self, |mut frames| async {
            let closing = frames.closing.clone();
            let message = closing.run_until_cancelled(frames.next()).await??;
            Some((Ok(message), frames))
        })
    }

    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            match self.looked {
                Some(looked) => {
                    self.frames.changed().await.ok()?;
                    tokio::time::sleep_until(looked + PACE).await;
                }
                None => self.frames.mark_unchanged(),
            }
            self.looked = Some(Instant::now());
            let news = self.frames.borrow_and_update().unseen(&mut self.seen);
            let messages = news
                .into_iter()
                .map(|(topic, text)| Message::default().event(topic.name()).data(&*text));
            self.ready.extend(messages);
        }
    }
}

/// The request for a trial.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialRequest {
    lock: String,
}

/// A trial that was started.
#[derive(Debug, Serialize)]
struct Started {
    trial: u64,
}

async fn start(
    State(app): State<App>,
    Body(wanted): Body<TrialRequest>,
) -> Result<(StatusCode, Json<Started>), Problem> {
    match app.0.live.trials().start(&wanted.lock) {
        Ok(trial) => Ok((StatusCode::ACCEPTED, Json(Started { trial }))),
        Err(NotStarted::NoLab) => Err(Problem::not_found(
            "the lab is off: fencepost serve --lab turns it on",
        )),
        Err(NotStarted::Unknown) => {
            Err(Problem::bad_request("lock: not one of the locks on offer"))
        }
        Err(NotStarted::Busy) => Err(Problem::conflict(
            "trial-runs",
            "A trial runs",
            "a trial is already running: wait until it has ended, or stop it",
        )),
        Err(NotStarted::Closing) => {
            let closing = Problem::unavailable("closing", "the service is being stopped");
            Err(closing.retry_after(Duration::from_secs(1)))
        }
        Err(NotStarted::System) => Err(Problem::unavailable(
            "no-thread",
            "the system cannot start another thread for a trial now",
        )),
    }
}

async fn stop(State(app): State<App>) -> StatusCode {
    app.0.live.trials().stop();
    StatusCode::NO_CONTENT
}
