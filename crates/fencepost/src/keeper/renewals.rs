//! Renewals that are due and renewals under way.
//!
//! Leases are renewed in calls of at most [`Backend::renewed_at_once`] claims, many calls at the same time. Each call has
//! an answer, a deadline and a moment of asking of its own, so a call that gets stuck costs only its own leases time. The
//! lease that ends first goes first. [`CALLS_AT_ONCE`] bounds what one locker asks of a store, but a lease with less than
//! half a TTL left does not wait for others: neither a lock that was granted for a short time at first, nor one that
//! stands behind calls that get no answer.

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

/// Calls under way at once, unless a lease is in a hurry. With 64 leases per call and a round trip of 100 ms, they renew
/// some 40,000 leases a second.
const CALLS_AT_ONCE: usize = 64;

/// The renewals of one keeper.
#[derive(Default)]
pub(super) struct Renewals {
    /// Due and not asked for yet, by the moment at which the lease ends. The number tells apart those that end together.
    due: BTreeMap<(Moment, u64), Renewing>,
    number: u64,
    calls: FuturesUnordered<BoxFuture<'static, Answered>>,
}

/// A call that has ended.
pub(super) struct Answered {
    leases: Vec<Renewing>,
    asked_at: Moment,
    /// In the order of the leases; `None` when no answer came in time.
    answers: Option<Vec<Result<Renewal>>>,
}

impl Renewals {
    pub(super) fn add(&mut self, renewing: Renewing) {
        self.number += 1;
        let ends_at = renewing.lease.valid_until();
        self.due.insert((ends_at, self.number), renewing);
    }

    /// Starts as many calls as may be under way.
    pub(super) fn start(&mut self, engine: &Engine) {
        let now = engine.clock.now();
        while self.may_start(engine, now) {
            let leases = self.take_most_urgent(engine);
            if !leases.is_empty() {
                self.calls.push(call(engine, leases, now));
            }
        }
    }

    /// When a lease that waits will be in a hurry.
    pub(super) fn hurry_at(&self, engine: &Engine) -> Option<Moment> {
        let ((ends_at, _), _) = self.due.first_key_value()?;
        Some(ends_at.back(engine.settings.ttl / 2))
    }

    /// The next call that ends; waits for ever while none is under way.
    ///
    /// # Cancel safety
    /// No answer is lost when this is dropped.
    pub(super) async fn answered(&mut self) -> Answered {
        match self.calls.next().await {
            Some(answered) => answered,
            None => std::future::pending().await,
        }
    }

    fn may_start(&self, engine: &Engine, now: Moment) -> bool {
        match self.hurry_at(engine) {
            Some(hurry_at) => self.calls.len() < CALLS_AT_ONCE || hurry_at <= now,
            None => false,
        }
    }

    /// As many as one call carries. Those that were given back or lost while they waited are left out.
    fn take_most_urgent(&mut self, engine: &Engine) -> Vec<Renewing> {
        let most = engine.backend.renewed_at_once().max(1);
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

/// How long the keeper waits for the answer to a call.
pub(super) fn longest_call(engine: &Engine) -> Duration {
    (engine.settings.ttl / 4).min(engine.settings.store_timeout)
}

/// One call. Gives up waiting for the answer when it could not help any of its leases any more.
fn call(engine: &Engine, leases: Vec<Renewing>, asked_at: Moment) -> BoxFuture<'static, Answered> {
    let ends = leases.iter().map(|renewing| renewing.lease.valid_until());
    let last_end = ends.max().unwrap_or(asked_at);
    let until = last_end.min(asked_at + longest_call(engine));
    for renewing in &leases {
        renewing.lease.asking(asked_at);
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

/// Applies the answers of a call to its leases. Returns those that go on.
pub(super) fn note(engine: &Arc<Engine>, answered: Answered) -> Vec<Renewing> {
    let now = engine.clock.now();
    let asked_at = answered.asked_at;
    let mut leases = answered.leases;
    let mut answers = answered.answers.unwrap_or_default().into_iter();
    leases.retain(|renewing| {
        let answer = answers.next();
        let answer = answer.unwrap_or_else(|| Err(engine.unanswered(Operation::Renew)));
        goes_on(engine, &renewing.lease, answer, asked_at, now)
    });
    leases
}

fn goes_on(
    engine: &Arc<Engine>,
    lease: &Arc<Lease>,
    answer: Result<Renewal>,
    asked_at: Moment,
    now: Moment,
) -> bool {
    match answer {
        Ok(Renewal::Extended) => {
            engine.telemetry.renewed(lease.left(now));
            lease.renewed(asked_at, lease.claim.ttl);
            true
        }
        // It was given back while the call was under way: nothing was lost.
        Ok(Renewal::Lost) if !engine.holds(lease) => false,
        Ok(Renewal::Lost) => {
            engine.telemetry.renewal_lost();
            engine.lose(lease, LostReason::Gone);
            false
        }
        Err(error) => {
            engine.telemetry.renewal_failed();
            tracing::warn!(name = %lease.claim.name, %error, left = ?lease.left(now), "renewal failed");
            // Counted from the question: one that was not answered has used up the pause, and is put again at once.
            let pause = (lease.claim.ttl / 10).min(Duration::from_secs(1));
            lease.renewal_failed(error, now.max(asked_at + pause));
            true
        }
    }
}
