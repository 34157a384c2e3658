//! Asks several servers at once, and returns their answers as they arrive.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::listening::Listening;
use super::server::Server;
use crate::clock::{BootClock, BoxFuture, Clock, Moment, within};
use crate::error::Result;
use crate::stores::kit::silence::ANSWER_TIMEOUT;

/// How much longer than the others a server that was silent before may take.
const GRACE: Duration = Duration::from_millis(5);

/// Requests in progress. Each is sent at its first poll. Dropping this, or [leaving](Self::leave) it, does not take back a sent request.
pub(super) struct OpenRequests<T> {
    under_way: FuturesUnordered<BoxFuture<'static, (usize, Result<T>)>>,
    /// The servers that have not answered yet, with their index.
    open: Vec<(usize, Arc<Server>)>,
    listening: Listening,
    /// When the last request was sent or the last answer arrived.
    news_at: Moment,
}

impl<T: Send + 'static> OpenRequests<T> {
    pub(super) fn new() -> Self {
        Self {
            under_way: FuturesUnordered::new(),
            open: Vec::new(),
            listening: Listening::default(),
            news_at: BootClock.now(),
        }
    }

    pub(super) fn ask<F>(
        &mut self,
        at: usize,
        server: &Arc<Server>,
        question: impl FnOnce(Arc<Server>, Listening) -> F,
    ) where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let question = question(server.clone(), self.listening.clone());
        self.open.push((at, server.clone()));
        self.news_at = BootClock.now();
        self.under_way
            .push(Box::pin(async move { (at, question.await) }));
    }

    /// Returns how many servers have not answered yet.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }

    /// Returns the next answer and the index of its server. Returns `None` if no other server answers by `until`. If enough have answered,
    /// servers that were silent before are not waited for that long.
    pub(super) async fn next(
        &mut self,
        until: Moment,
        is_enough: bool,
    ) -> Option<(usize, Result<T>)> {
        if self.open.is_empty() {
            return None;
        }
        let all_slow = self.open.iter().all(|(_, server)| server.is_slow());
        let until = if is_enough && all_slow {
            until.min(self.news_at + GRACE)
        } else {
            until
        };
        match within(&BootClock, until, self.under_way.next()).await {
            Some(Some((at, answer))) => {
                self.news_at = BootClock.now();
                self.open.retain(|(place, server)| {
                    if *place == at {
                        server.answered();
                    }
                    *place != at
                });
                Some((at, answer))
            }
            _ => {
                self.open.iter().for_each(|(_, server)| server.was_silent());
                None
            }
        }
    }

    /// Returns the indexes of the servers that have not answered.
    pub(super) fn silent(&self) -> impl Iterator<Item = usize> + '_ {
        self.open.iter().map(|(at, _)| *at)
    }

    /// Stops waiting for the servers that have not answered, because the decision does not depend on them. Their answers are still read,
    /// because a connection without answers would be considered dead; nobody acts on them.
    pub(super) fn leave(mut self) {
        self.listening.end();
        if self.open.is_empty() {
            return;
        }
        tokio::spawn(async move {
            let until = BootClock.now() + ANSWER_TIMEOUT;
            let rest = async {
                while let Some((at, _)) = self.under_way.next().await {
                    let answered = self.open.iter().find(|(place, _)| *place == at);
                    if let Some((_, server)) = answered {
                        server.answered();
                    }
                }
            };
            within(&BootClock, until, rest).await;
        });
    }
}
