//! Renewals of one session share statements. A renewal can be a commit that standbys have to confirm, and a session carries out one at a time: with a
//! statement for each lease, the last of a hundred would wait for a hundred commits.
//!
//! One renewal is under way in a session at most. Whoever asks meanwhile shares the next one, which is sent when the first was answered. Nobody shares
//! one that has been sent: the server may have counted its time from before the question.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;

use super::{Hub, Shared, State};
use crate::clock::{BootClock, BoxFuture, Clock};
use crate::error::{Operation, Result};
use crate::lease::lock;
use crate::stores::postgres::book::Number;
use crate::stores::postgres::seat::{Flight, Seat};
use crate::stores::postgres::session::Session;
use crate::stores::postgres::{STORE, failure, statements};

/// Those of one session.
#[derive(Default)]
pub(super) struct Renewals {
    under_way: Option<Flight<Result<()>>>,
    /// Not sent yet. It sends itself when it is polled and the one under way was answered.
    next: Option<Flight<Result<()>>>,
}

impl Hub {
    /// A sign of life for one lock; `None` when it has been let go. The locks beside it that nobody extends are let go.
    pub(in crate::stores::postgres) fn sign_of_life(
        &self,
        seat: &Seat,
    ) -> Option<Flight<Result<()>>> {
        let mut state = self.state();
        if !state.has(seat) || seat.is_lost() {
            return None;
        }
        seat.extends(BootClock.now());
        let renewals = state.renewals.entry(seat.number).or_default();
        if let Some(next) = &renewals.next {
            return Some(next.clone());
        }
        // Whoever asked for the one under way may have stopped to wait for its answer.
        let under_way = renewals.under_way.take();
        let under_way = under_way.filter(|flight| flight.clone().now_or_never().is_none());
        let Some(under_way) = under_way else {
            return Some(state.renew(seat.number, &seat.session, self.settings.spare));
        };
        renewals.under_way = Some(under_way.clone());
        let shared = Arc::downgrade(&self.shared);
        let at = (seat.number, seat.session.clone());
        let next = following(under_way, shared, at, self.settings.spare);
        renewals.next = Some(next.clone());
        Some(next)
    }
}

/// The renewal after the one that is under way. It is not polled here: the caller has the state, which this takes when it is sent.
fn following(
    under_way: Flight<Result<()>>,
    shared: Weak<Shared>,
    (number, session): (Number, Arc<Session>),
    spare: Duration,
) -> Flight<Result<()>> {
    let next: BoxFuture<'static, Result<()>> = Box::pin(async move {
        let _answer = under_way.await;
        let sent = match shared.upgrade() {
            Some(shared) => lock(&shared.state).renew(number, &session, spare),
            // The store is gone, and its sessions with it.
            None => return Err(failure::silent(STORE, Operation::Renew)),
        };
        sent.await
    });
    next.shared()
}

impl State {
    /// Sends a renewal, for all who have asked for one by now.
    fn renew(
        &mut self,
        number: Number,
        session: &Arc<Session>,
        spare: Duration,
    ) -> Flight<Result<()>> {
        let sent = match self.on(number).iter().any(|seat| !seat.is_lost()) {
            true => self.send(number, session, spare, statements::renew),
            // Those who asked have left or lost their locks meanwhile. Nothing is sent, so nothing is extended.
            false => {
                let nobody = failure::silent(STORE, Operation::Renew);
                let nothing: BoxFuture<'static, _> = Box::pin(std::future::ready(Err(nobody)));
                nothing.shared()
            }
        };
        // A session that is not in the book any more has nothing to come.
        if self.book.has(number) {
            let renewals = Renewals {
                under_way: Some(sent.clone()),
                next: None,
            };
            self.renewals.insert(number, renewals);
        }
        sent
    }
}
