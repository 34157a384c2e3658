//! The use of a session for something that is about none of its own locks: to look, to cancel, to end the session of somebody else.

use std::sync::Arc;

use tokio_postgres::SimpleQueryRow;

use super::{Hub, Opening};
use crate::clock::{BootClock, Clock};
use crate::error::{Operation, Result};
use crate::stores::postgres::book::{Number, Pick};
use crate::stores::postgres::published::comment;
use crate::stores::postgres::seat::looking;
use crate::stores::postgres::session::Session;
use crate::stores::postgres::{STORE, failure, statements};

/// What a statement answered.
pub(in crate::stores::postgres) type Rows = Arc<Vec<SimpleQueryRow>>;

struct Visit<'a> {
    hub: &'a Hub,
    number: Number,
    session: Arc<Session>,
    is_reused: bool,
}

impl Hub {
    /// Asks something that is about no lock of ours and may be asked twice.
    pub(in crate::stores::postgres) async fn ask_aside(
        &self,
        operation: Operation,
        statement: &str,
    ) -> Result<Rows> {
        loop {
            let visit = self.visit(operation).await?;
            if let Some(rows) = visit.ask(operation, statement).await? {
                return Ok(rows);
            }
        }
    }

    /// Sees to it that fences can be drawn, as the first lock of a session does.
    pub(in crate::stores::postgres) async fn prepare(&self, operation: Operation) -> Result<()> {
        loop {
            let visit = self.visit(operation).await?;
            let ready = visit.session.ready(operation);
            match tokio::time::timeout(self.settings.connect_timeout, ready).await {
                Ok(Err(_)) if visit.is_reused && visit.session.is_closed() => {}
                Ok(ready) => return ready,
                Err(_) => return Err(failure::silent(STORE, operation)),
            }
        }
    }

    /// A session to look and to cancel with.
    async fn visit(&self, operation: Operation) -> Result<Visit<'_>> {
        let opening = {
            let mut state = self.tidied();
            match state.book.visit(self.fresh_since()) {
                Pick::Use(number, session) => {
                    return Ok(Visit::new(self, number, session, true));
                }
                // All are being opened or wait: then one that only looks may be one too many.
                Pick::None => None,
                Pick::Open => Some(Opening::new(self)),
            }
        };
        let session = self.open(operation).await?;
        Ok(match opening {
            None => Visit::new(self, 0, session, false),
            Some(opening) => {
                let mut state = self.state();
                let number = opening.done(&mut state, session.clone());
                state.book.visit_this(number);
                Visit::new(self, number, session, false)
            }
        })
    }
}

impl<'a> Visit<'a> {
    fn new(hub: &'a Hub, number: Number, session: Arc<Session>, is_reused: bool) -> Self {
        Self {
            hub,
            number,
            session,
            is_reused,
        }
    }

    /// Sends a statement, without hiding what the session says of its own locks. `None`: the server was about to end the session, which
    /// had been used before. There are only so many of those.
    async fn ask(&self, operation: Operation, statement: &str) -> Result<Option<Rows>> {
        let asking = {
            let mut state = self.hub.state();
            if !state.on(self.number).is_empty() {
                // By itself: if what is asked fails, the server undoes what else its statement has set.
                self.hub.set_end(&mut state, self.number, &self.session);
            }
            let seats = state.on(self.number);
            let statement = match seats.is_empty() {
                true => statements::spare(self.hub.settings.spare, statement),
                false => comment(seats.iter().map(|seat| seat.said())) + statement,
            };
            looking(self.session.clone(), operation, statement)
        };
        match tokio::time::timeout(self.hub.settings.connect_timeout, asking).await {
            Ok(Err(_)) if self.is_reused && self.session.is_closed() => Ok(None),
            Ok(answer) => answer.map(Some),
            Err(_) => {
                // Nobody is to come behind a statement that is not answered; but locks are not given up for that.
                let state = self.hub.state();
                if state.on(self.number).is_empty() {
                    self.session.close();
                }
                Err(failure::silent(STORE, operation))
            }
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut state = self.hub.state();
        state.book.visited(self.number, BootClock.now());
    }
}
