//! Sessions that are reserved between choosing one for a claim and asking for the lock in it. A reservation that is dropped ends.

use std::sync::Arc;

use super::{Hub, State};
use crate::claim::OwnerId;
use crate::clock::{BootClock, Clock};
use crate::stores::postgres::seat::Seat;
use crate::stores::postgres::session::Session;
use crate::stores::postgres::session_pool::SessionNumber;

/// The seat or session for a claim.
pub(super) enum Found<'a> {
    Place(ReservedSession<'a>),
    /// The owner already has this seat.
    Seat(Arc<Seat>),
    Nothing,
}

/// Reserves a session for a lock until the lock is requested. If dropped before, the reservation ends.
pub(super) struct ReservedSession<'a> {
    hub: Option<&'a Hub>,
    number: SessionNumber,
    pub(super) session: Arc<Session>,
    owner: OwnerId,
    pub(super) is_reused: bool,
}

impl<'a> ReservedSession<'a> {
    pub(super) fn new(
        hub: &'a Hub,
        (number, session): (SessionNumber, Arc<Session>),
        owner: OwnerId,
        is_reused: bool,
    ) -> Self {
        Self {
            hub: Some(hub),
            number,
            session,
            owner,
            is_reused,
        }
    }

    pub(super) fn taken(mut self) -> (SessionNumber, Arc<Session>, bool) {
        self.hub = None;
        (self.number, self.session.clone(), self.is_reused)
    }
}

impl Drop for ReservedSession<'_> {
    fn drop(&mut self) {
        if let Some(hub) = self.hub {
            let mut state = hub.state();
            state.pool.leave(self.number, self.owner, BootClock.now());
        }
    }
}

/// Reserves a place in the pool for a session that is being opened. If dropped before the session is open, the reservation ends.
pub(super) struct OpeningSession<'a>(Option<&'a Hub>);

impl<'a> OpeningSession<'a> {
    pub(super) fn new(hub: &'a Hub) -> Self {
        Self(Some(hub))
    }

    pub(super) fn done(mut self, state: &mut State, session: Arc<Session>) -> SessionNumber {
        self.0 = None;
        state.pool.opened(session, BootClock.now())
    }
}

impl Drop for OpeningSession<'_> {
    fn drop(&mut self) {
        if let Some(hub) = self.0 {
            hub.state().pool.not_opened();
        }
    }
}
