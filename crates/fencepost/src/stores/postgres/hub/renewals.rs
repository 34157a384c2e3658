//! Combines the renewals of one session into shared statements. A renewal can be a commit that standbys have to confirm, and a session runs
//! one statement at a time: with one statement per lease, the last of a hundred leases would wait for a hundred commits.
//!
//! At most one renewal per session is in progress. Requests in the meantime share the next one, which is sent when the first one was
//! answered. No request shares a renewal that was already sent, because the server may have counted its time from before the request.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;

use super::{Hub, Shared, State};
use crate::clock::{BootClock, BoxFuture, Clock};
use crate::error::{Operation, Result};
use crate::mutex::lock;
use crate::stores::postgres::seat::{Seat, SharedAnswer};
use crate::stores::postgres::session::Session;
use crate::stores::postgres::session_pool::SessionNumber;
use crate::stores::postgres::{STORE, failure, statements};

/// The renewals of one session.
#[derive(Default)]
pub(super) struct Renewals {
    under_way: Option<SharedAnswer<Result<()>>>,
    /// The next renewal, not sent yet. It sends itself when it is polled and the current one was answered.
    next: Option<SharedAnswer<Result<()>>>,
}

impl Hub {
    /// Renews one lock. Returns `None` if the lock was released. Locks of the same session that nobody extends are released.
    pub(in crate::stores::postgres) fn send_renewal(
        &self,
        seat: &Seat,
    ) -> Option<SharedAnswer<Result<()>>> {
        let mut state = self.state();
        if !state.has(seat) || seat.is_lost() {
            return None;
        }
        seat.record_renewal_sent(BootClock.now());
        let renewals = state.renewals.entry(seat.number).or_default();
        if let Some(next) = &renewals.next {
            return Some(next.clone());
        }
        // The tasks that requested the current renewal may have stopped waiting for its answer.
        let under_way = renewals.under_way.take();
        let under_way = under_way.filter(|answer| answer.clone().now_or_never().is_none());
        let Some(under_way) = under_way else {
            return Some(state.renew(seat.number, &seat.session, self.settings.idle_timeout));
        };
        renewals.under_way = Some(under_way.clone());
        let shared = Arc::downgrade(&self.shared);
        let at = (seat.number, seat.session.clone());
        let next = following(under_way, shared, at, self.settings.idle_timeout);
        renewals.next = Some(next.clone());
        Some(next)
    }
}

/// Returns the renewal after the current one. Does not poll it: the caller holds the state, which the renewal locks when it is sent.
fn following(
    under_way: SharedAnswer<Result<()>>,
    shared: Weak<Shared>,
    (number, session): (SessionNumber, Arc<Session>),
    spare: Duration,
) -> SharedAnswer<Result<()>> {
    let next: BoxFuture<'static, Result<()>> = Box::pin(async move {
        let _answer = under_way.await;
        let sent = match shared.upgrade() {
            Some(shared) => lock(&shared.state).renew(number, &session, spare),
            // The store was dropped, and its sessions with it.
            None => return Err(failure::unanswered(STORE, Operation::Renew)),
        };
        sent.await
    });
    next.shared()
}

impl State {
    /// Sends a renewal for all seats that have requested one by now.
    fn renew(
        &mut self,
        number: SessionNumber,
        session: &Arc<Session>,
        spare: Duration,
    ) -> SharedAnswer<Result<()>> {
        let sent = if self.on(number).iter().any(|seat| !seat.is_lost()) {
            self.send(number, session, spare, statements::renew)
        } else {
            // The seats that asked have left or lost their locks in the meantime. Nothing is sent, so nothing is extended.
            let nobody = failure::unanswered(STORE, Operation::Renew);
            let nothing: BoxFuture<'static, _> = Box::pin(std::future::ready(Err(nobody)));
            nothing.shared()
        };
        // A session that is no longer in the pool gets no further renewals.
        if self.pool.has(number) {
            let renewals = Renewals {
                under_way: Some(sent.clone()),
                next: None,
            };
            self.renewals.insert(number, renewals);
        }
        sent
    }
}
