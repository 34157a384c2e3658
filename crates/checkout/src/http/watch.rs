//! The endpoint that streams checkout events as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::App;
use super::problem::Problem;
use crate::events::Event;

/// Streams all events from now on as server-sent events; `missed` tells a slow reader how many it missed
#[utoipa::path(get, path = "/v1/events", tag = "service",
    responses((status = 200, description = "A stream of `Event`s that does not end", body = Event, content_type = "text/event-stream")))]
pub(super) async fn events(State(app): State<App>) -> Result<Response, Problem> {
    let permit = Arc::clone(&app.0.watcher_permits).try_acquire_owned();
    let permit = permit.map_err(|_| {
        Problem::unavailable("too-many-watchers", "too many clients watch already")
            .retry_after(Duration::from_secs(5))
    })?;
    let events = EventStream {
        events: app.0.checkout.events().watch(),
        closing: app.0.closing.clone(),
        _permit: permit,
    };
    let alive = KeepAlive::new().interval(Duration::from_secs(10));
    Ok(Sse::new(events.stream()).keep_alive(alive).into_response())
}

struct EventStream {
    events: Receiver<Arc<Event>>,
    closing: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl EventStream {
    /// Begins with the event `hello`, so that the client knows that it is connected, and ends when the service stops.
    fn stream(self) -> impl Stream<Item = Result<Message, Infallible>> {
        let hello = Message::default().event("hello").data("{}");
        stream::unfold((self, Some(hello)), |(mut events, hello)| async {
            let message = match hello {
                Some(hello) => hello,
                None => events.next().await?,
            };
            Some((Ok(message), (events, None)))
        })
    }

    async fn next(&mut self) -> Option<Message> {
        let event = self.closing.run_until_cancelled(self.events.recv()).await?;
        match event {
            Ok(event) => {
                let data = serde_json::to_string(&*event).ok()?;
                Some(Message::default().event(event.name()).data(data))
            }
            Err(RecvError::Lagged(count)) => {
                let data = format!("{{\"count\":{count}}}");
                Some(Message::default().event("missed").data(data))
            }
            Err(RecvError::Closed) => None,
        }
    }
}
