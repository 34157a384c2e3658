//! Uses a session for a statement that does not concern its own locks: to look, to cancel, or to end another session.

use std::sync::Arc;

use tokio_postgres::SimpleQueryRow;

use super::{Hub, OpeningSession, State};
use crate::clock::{BootClock, Clock, within};
use crate::error::{Operation, Result};
use crate::stores::postgres::published::comment;
use crate::stores::postgres::seat::{Seat, start_query};
use crate::stores::postgres::session::Session;
use crate::stores::postgres::session_pool::{Pick, SessionNumber};
use crate::stores::postgres::{STORE, failure, statements};

/// The rows that a statement returned.
pub(in crate::stores::postgres) type Rows = Arc<Vec<SimpleQueryRow>>;

struct BorrowedSession<'a> {
    hub: &'a Hub,
    /// `None` if the session is not in the pool and only serves one statement.
    number: Option<SessionNumber>,
    session: Arc<Session>,
    is_reused: bool,
}

impl Hub {
    /// Runs a statement that does not concern our locks and can be repeated.
    pub(in crate::stores::postgres) async fn ask_aside(
        &self,
        operation: Operation,
        statement: &str,
    ) -> Result<Rows> {
        loop {
            let borrowed = self.borrow_session(operation).await?;
            if let Some(rows) = borrowed.ask(operation, statement).await? {
                return Ok(rows);
            }
        }
    }

    /// Makes sure that fences can be drawn, as the first lock of a session does.
    pub(in crate::stores::postgres) async fn prepare(&self, operation: Operation) -> Result<()> {
        loop {
            let borrowed = self.borrow_session(operation).await?;
            let ready = borrowed.session.ready(operation);
            let until = BootClock.now() + self.settings.connect_timeout;
            match within(&BootClock, until, ready).await {
                Some(Err(_)) if borrowed.is_reused && borrowed.session.is_closed() => {}
                Some(ready) => return ready,
                None => return Err(failure::unanswered(STORE, operation)),
            }
        }
    }

    /// Returns a session for looking and cancelling.
    async fn borrow_session(&self, operation: Operation) -> Result<BorrowedSession<'_>> {
        let opening = {
            let mut state = self.tidied();
            match state.pool.visit(self.fresh_since()) {
                Pick::Use(number, session) => {
                    return Ok(BorrowedSession::new(self, Some(number), session, true));
                }
                // All sessions are being opened or wait, so a session that only looks may exceed the limit.
                Pick::Unavailable => None,
                Pick::Open => Some(OpeningSession::new(self)),
            }
        };
        let session = self.open(operation).await?;
        Ok(match opening {
            None => BorrowedSession::new(self, None, session, false),
            Some(opening) => {
                let mut state = self.state();
                let number = opening.done(&mut state, session.clone());
                state.pool.visit_this(number);
                BorrowedSession::new(self, Some(number), session, false)
            }
        })
    }
}

impl<'a> BorrowedSession<'a> {
    fn new(
        hub: &'a Hub,
        number: Option<SessionNumber>,
        session: Arc<Session>,
        is_reused: bool,
    ) -> Self {
        Self {
            hub,
            number,
            session,
            is_reused,
        }
    }

    /// Sends a statement without hiding what the session publishes about its own locks. Returns `None` if the server was about to end the
    /// session, which had been used before. There is only a limited number of such sessions.
    async fn ask(&self, operation: Operation, statement: &str) -> Result<Option<Rows>> {
        let asking = {
            let mut state = self.hub.state();
            if let Some(number) = self.number
                && !state.on(number).is_empty()
            {
                // Send this separately: if the statement fails, the server undoes everything else that it has set.
                self.hub.set_end(&mut state, number, &self.session);
            }
            let seats = self.seats(&state);
            let statement = if seats.is_empty() {
                statements::spare(self.hub.settings.idle_timeout, statement)
            } else {
                comment(seats.iter().map(|seat| seat.published())) + statement
            };
            start_query(self.session.clone(), operation, statement)
        };
        let until = BootClock.now() + self.hub.settings.connect_timeout;
        match within(&BootClock, until, asking).await {
            Some(Err(_)) if self.is_reused && self.session.is_closed() => Ok(None),
            Some(answer) => answer.map(Some),
            None => {
                // No other statement may queue behind one that is not answered, but that is no reason to give up locks.
                let state = self.hub.state();
                if self.seats(&state).is_empty() {
                    self.session.close();
                }
                Err(failure::unanswered(STORE, operation))
            }
        }
    }

    /// Returns the seats of the locks that the session holds or asks for.
    fn seats(&self, state: &State) -> Vec<Arc<Seat>> {
        self.number.map_or_else(Vec::new, |number| state.on(number))
    }
}

impl Drop for BorrowedSession<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut state = self.hub.state();
            state.pool.visited(number, BootClock.now());
        }
    }
}
