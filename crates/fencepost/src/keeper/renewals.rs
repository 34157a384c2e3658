//! The renewals that are due or in progress.
//!
//! Leases are renewed in calls of at most [`Backend::renew_batch_size`] claims, with many calls at the same time. Each call has its own
//! answer, deadline and time of sending, so a call that gets stuck delays only its own leases. The lease that ends first goes first.
//! [`CALLS_AT_ONCE`] limits the load of one locker on a store. A lease with less than half a TTL left is exempt from that limit: a lock
//! that was granted for a short time at first must not wait, and neither must one that is behind calls without an answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use crate::backend::{Backend, Renewal};
use crate::claim::Claim;
use crate::clock::{BoxFuture, Clock, Moment, within};
use crate::engine::Engine;
use crate::error::{Operation, Result};
use crate::lease::{Lease, LostReason, Renewing};

/// The maximum number of calls in progress, except for urgent leases. With 64 leases per call and a round trip of 100 ms, they renew about
/// 40,000 leases per second.
const CALLS_AT_ONCE: usize = 64;

/// The renewals of one keeper.
#[derive(Default)]
pub(super) struct Renewals {
    /// The leases that are due and not requested yet, by the moment at which they end. The number distinguishes leases that end together.
    due: BTreeMap<(Moment, u64), Renewing>,
    number: u64,
    calls: FuturesUnordered<BoxFuture<'static, Answered>>,
}

/// A completed call.
pub(super) struct Answered {
    leases: Vec<Renewing>,
    asked_at: Moment,
    /// The answers in the order of the leases, or `None` if no answer came in time.
    answers: Option<Vec<Result<Renewal>>>,
}

impl Renewals {
    pub(super) fn add(&mut self, renewing: Renewing) {
        self.number += 1;
        let ends_at = renewing.lease.valid_until();
        self.due.insert((ends_at, self.number), renewing);
    }

    /// Starts as many calls as the limit allows.
    pub(super) fn start(&mut self, engine: &Engine) {
        let now = engine.clock.now();
        while self.may_start(engine, now) {
            let leases = self.take_most_urgent(engine);
            if !leases.is_empty() {
                self.calls.push(call(engine, leases, now));
            }
        }
    }

    /// Returns when a waiting lease will be urgent.
    pub(super) fn urgent_at(&self, engine: &Engine) -> Option<Moment> {
        let ((ends_at, _), _) = self.due.first_key_value()?;
        Some(ends_at.saturating_sub(engine.settings.ttl / 2))
    }

    /// Returns the next call that completes. Waits for ever while no call is in progress.
    ///
    /// # Cancel safety
    /// No answer is lost if the future is dropped.
    pub(super) async fn answered(&mut self) -> Answered {
        match self.calls.next().await {
            Some(answered) => answered,
            None => std::future::pending().await,
        }
    }

    fn may_start(&self, engine: &Engine, now: Moment) -> bool {
        match self.urgent_at(engine) {
            Some(urgent_at) => self.calls.len() < CALLS_AT_ONCE || urgent_at <= now,
            None => false,
        }
    }

    /// Removes and returns as many leases as one call carries, without those that were released or lost while they waited.
    fn take_most_urgent(&mut self, engine: &Engine) -> Vec<Renewing> {
        let most = engine.backend.renew_batch_size().max(1);
        let mut leases = Vec::with_capacity(most.min(self.due.len()));
        while leases.len() < most
            && let Some((_, renewing)) = self.due.pop_first()
        {
            if engine.holds(&renewing.lease) {
                leases.push(renewing);
            }
        }
        leases
    }
}

/// Returns how long the keeper waits for the answer to a call.
pub(super) fn longest_call(engine: &Engine) -> Duration {
    (engine.settings.ttl / 4).min(engine.settings.store_timeout)
}

/// Makes one call. Stops waiting for the answer when it could not help any of its leases any more.
fn call(engine: &Engine, leases: Vec<Renewing>, asked_at: Moment) -> BoxFuture<'static, Answered> {
    let ends = leases.iter().map(|renewing| renewing.lease.valid_until());
    let last_end = ends.max().unwrap_or(asked_at);
    let until = last_end.min(asked_at + longest_call(engine));
    for renewing in &leases {
        renewing.lease.record_request_at(asked_at);
    }
    let (backend, clock) = (engine.backend.clone(), engine.clock.clone());
    Box::pin(ask(backend, clock, leases, asked_at, until))
}

async fn ask(
    backend: Arc<dyn Backend>,
    clock: Arc<dyn Clock>,
    leases: Vec<Renewing>,
    asked_at: Moment,
    until: Moment,
) -> Answered {
    let claims = leases.iter().map(|renewing| renewing.lease.claim.clone());
    let claims: Vec<Claim> = claims.collect();
    let answers = within(&*clock, until, backend.renew(&claims)).await;
    Answered {
        leases,
        asked_at,
        answers,
    }
}

/// Applies the answers of a call to its leases. Returns those that continue.
pub(super) fn apply_answers(engine: &Arc<Engine>, answered: Answered) -> Vec<Renewing> {
    let now = engine.clock.now();
    let asked_at = answered.asked_at;
    let mut leases = answered.leases;
    let mut answers = answered.answers.unwrap_or_default().into_iter();
    leases.retain(|renewing| {
        let answer = answers.next();
        let answer = answer.unwrap_or_else(|| Err(engine.unanswered(Operation::Renew)));
        apply_answer(engine, &renewing.lease, answer, asked_at, now)
    });
    leases
}

/// Applies one answer to its lease. Returns whether the lease continues.
fn apply_answer(
    engine: &Arc<Engine>,
    lease: &Arc<Lease>,
    answer: Result<Renewal>,
    asked_at: Moment,
    now: Moment,
) -> bool {
    match answer {
        Ok(Renewal::Extended) => {
            let left = lease.left(now);
            let lives = lease.renewed(asked_at, lease.claim.ttl, now);
            if lives {
                engine.telemetry.renewed(left);
            } else {
                // The answer came after the validity had ended. Somebody may have acted on that already.
                engine.lose(lease, LostReason::Expired);
            }
            lives
        }
        // The lease was released during the call, so nothing was lost.
        Ok(Renewal::Lost) if !engine.holds(lease) => false,
        Ok(Renewal::Lost) => {
            engine.telemetry.renewal_lost();
            engine.lose(lease, LostReason::Gone);
            false
        }
        Err(error) => {
            engine.telemetry.renewal_failed();
            tracing::warn!(name = %lease.claim.name, %error, left = ?lease.left(now), "renewal failed");
            // The pause counts from the request: if it was not answered, the pause is already over, and it is repeated at once.
            let pause = (lease.claim.ttl / 10).min(Duration::from_secs(1));
            lease.renewal_failed(error, now.max(asked_at + pause));
            true
        }
    }
}
