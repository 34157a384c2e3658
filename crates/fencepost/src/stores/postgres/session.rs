//! One session at the server: a connection of our own, with the settings that locks need.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::{AsyncMessage, SimpleQueryRow};

use super::address::Address;
use super::connect::{Connection, listen};
use super::fence::{self, Source};
use super::rows::{number, rows};
use super::settings::Settings;
use super::{STORE, failure};
use crate::clock::{BootClock, Clock, within};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};

/// Postgres 14, the first version that ends idle sessions, which turns a session into a lease.
const OLDEST: u32 = 140_000;

/// How soon the server notices that a waiting client has closed the connection.
const LOOK_AT_CLIENT_MS: u32 = 500;

/// How long the server keeps a new session that was not used yet, if spare sessions are kept for less. On a very busy machine, ten
/// seconds have passed between opening and first use.
const NEW: Duration = Duration::from_secs(60);

pub(super) struct Session {
    connection: Connection,
    /// Whether the session has ended; this is known before the connection reports it.
    is_over: Arc<AtomicBool>,
    /// Whether a lift was sent, or none is needed. The session at the server knows whether it was executed.
    has_lifted: AtomicBool,
    /// Whether the server stopped waiting for its standbys before they confirmed a write.
    is_unconfirmed: Arc<AtomicBool>,
    /// Whether fences can be drawn from the source of this store, as far as that can be checked in advance.
    is_ready: AtomicBool,
    source: Source,
    /// The server process of this session.
    pub(super) pid: i32,
}

impl Session {
    /// Connects and prepares the session. Before taking locks with it, call [`ready`](Self::ready). `ended` is called when the connection has
    /// ended, whoever ended it; then [`is_closed`](Self::is_closed) returns `true`.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed.
    pub(super) async fn open(
        operation: Operation,
        address: &Address,
        settings: &Settings,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Arc<Self>> {
        let Settings {
            connect_timeout,
            idle_timeout,
            source,
            ..
        } = *settings;
        let is_over = Arc::new(AtomicBool::new(false));
        let is_unconfirmed = Arc::new(AtomicBool::new(false));
        let end = End {
            is_over: is_over.clone(),
            tell: Some(ended),
        };
        let told = is_unconfirmed.clone();
        let hear = move |message: AsyncMessage| {
            // The closure keeps this, so that it is dropped with the connection and not before.
            let _kept = &end;
            if is_given_up(&message) {
                told.store(true, Ordering::Relaxed);
            }
        };
        let opening = Box::pin(async {
            let connecting = listen(
                STORE,
                operation,
                address,
                STORE_PROGRAM,
                connect_timeout,
                hear,
            );
            let connection = connecting.await?;
            let pid = prepare(operation, &connection, idle_timeout.max(NEW)).await?;
            Ok(Arc::new(Self {
                connection,
                is_over,
                has_lifted: AtomicBool::new(source.lift().is_none()),
                is_unconfirmed,
                is_ready: AtomicBool::new(false),
                source,
                pid,
            }))
        });
        match within(&BootClock, BootClock.now() + connect_timeout, opening).await {
            Some(opened) => opened,
            None => Err(failure::unreachable(STORE, operation)),
        }
    }

    /// Sends a statement whose first column is `pg_backend_pid()`, and returns the first row of the answer.
    ///
    /// Statements are executed in the order in which their futures are first polled, even if those futures are then dropped.
    pub(super) async fn ask(
        &self,
        operation: Operation,
        statement: &str,
    ) -> Result<SimpleQueryRow> {
        let rows = self.ask_all(operation, statement).await?;
        if self.is_unconfirmed.load(Ordering::Relaxed) {
            self.close();
            return Err(unconfirmed(operation));
        }
        let row = rows.into_iter().next();
        let row = row.ok_or_else(|| Error::unexpected_answer(STORE, operation, "no row"))?;
        match number::<i32>(&row, 0) {
            Some(pid) if pid == self.pid => Ok(row),
            Some(_) => {
                self.close();
                Err(pooled(operation))
            }
            None => Err(Error::unexpected_answer(STORE, operation, "no process")),
        }
    }

    /// Returns the rows of the last statement in `statement`.
    pub(super) async fn ask_all(
        &self,
        operation: Operation,
        statement: &str,
    ) -> Result<Vec<SimpleQueryRow>> {
        let answer = rows(&self.connection, operation, statement).await;
        answer.inspect_err(|error| {
            if failure::is_over(error) {
                self.close();
            }
        })
    }

    /// Makes sure, once, that fences can be drawn here. Looking at locks does not need this.
    pub(super) async fn ready(&self, operation: Operation) -> Result<()> {
        if !self.is_ready.load(Ordering::Relaxed) {
            self.source.ready(operation, &self.connection).await?;
            self.is_ready.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the error for a session in which, according to the server, no fence can be drawn.
    pub(super) fn must_not_draw(&self) -> Error {
        match self.source {
            // This is not the session that we know.
            Source::Sequences { .. } => {
                self.close();
                pooled(Operation::Acquire)
            }
            // Nothing was granted. The locks that the session holds are not affected.
            Source::TransactionIds => fence::met_sequences(Operation::Acquire),
        }
    }

    /// Returns whether a lift has to be sent before the next grant, and records it as sent.
    pub(super) fn take_lift_due(&self) -> bool {
        !self.has_lifted.swap(true, Ordering::Relaxed)
    }

    /// Sends a lift of the fence. If that fails, closes the session, which must not grant then.
    pub(super) async fn lift(&self, statement: &str) -> Result<()> {
        let answer = self.ask_all(Operation::Acquire, statement).await;
        // The results are the setting, the turn and the lift.
        let lifted = answer.and_then(|rows| fence::lifted(STORE, rows.get(2)));
        lifted.inspect_err(|_| self.close())
    }

    /// Closes the session at once, with everything it holds.
    pub(super) fn close(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.connection.close();
    }

    /// Returns whether the server, the network or we have ended the session. Its locks are free, or will be within their TTLs.
    pub(super) fn is_closed(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.connection.is_closed()
    }
}

/// Reports the end of a connection when it is dropped with it.
struct End<F: FnOnce()> {
    is_over: Arc<AtomicBool>,
    tell: Option<F>,
}

impl<F: FnOnce()> Drop for End<F> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(tell) = self.tell.take() {
            tell();
        }
    }
}

/// The beginning of `application_name` if the address does not contain one.
pub(super) const STORE_PROGRAM: &str = "fencepost";

/// Makes the session independent of settings of the role, the database and the server, and checks that it is suitable.
async fn prepare(operation: Operation, connection: &Connection, spare: Duration) -> Result<i32> {
    let spare_ms = millis(spare);
    // Settings of the role against runaway statements would end our waiting. The search path keeps out functions of others. A fence that
    // was returned must not be forgotten, so its record has to be on disk and on the synchronous standbys first.
    let first = format!(
        "select pg_backend_pid(), pg_is_in_recovery(), current_setting('server_version_num'), \
         set_config('search_path', 'pg_catalog', false), \
         set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false), \
         set_config('client_min_messages', 'warning', false), \
         set_config('default_transaction_read_only', 'off', false), \
         set_config('synchronous_commit', case current_setting('synchronous_commit') \
           when 'remote_apply' then 'remote_apply' else 'on' end, false), \
         set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false), \
         set_config('tcp_keepalives_count', '3', false), \
         set_config('idle_session_timeout', '{spare_ms}', false)"
    );
    let answer = rows(connection, operation, &first).await;
    let answer = answer.map_err(|error| {
        if is_unknown_setting(&error) {
            too_old(operation)
        } else {
            error
        }
    })?;
    let row = answer.first();
    let row = row.ok_or_else(|| Error::unexpected_answer(STORE, operation, "no row"))?;
    let (Some(pid), Some(version)) = (number(row, 0), number::<u32>(row, 2)) else {
        return Err(Error::unexpected_answer(
            STORE,
            operation,
            "neither process nor version",
        ));
    };
    if version < OLDEST {
        return Err(too_old(operation));
    }
    if row.get(1) == Some("t") {
        let why = "which cannot give fences";
        return Err(failure::standby(STORE, operation, why));
    }
    let mut more = vec![format!(
        "set client_connection_check_interval = {LOOK_AT_CLIENT_MS}"
    )];
    if version >= 170_000 {
        more.push("set transaction_timeout = 0".to_owned());
    }
    for setting in more {
        // Not every system supports this check. Without it, a waiter that closed the connection is noticed when its turn comes.
        if let Err(error) = rows(connection, operation, &setting).await
            && connection.is_closed()
        {
            return Err(error);
        }
    }
    Ok(pid)
}

/// Returns whether somebody cancelled a statement that waited for standbys. The server reports that as a success with a warning.
fn is_given_up(message: &AsyncMessage) -> bool {
    match message {
        AsyncMessage::Notice(said) => said.routine() == Some("SyncRepWaitForLSN"),
        _ => false,
    }
}

fn unconfirmed(operation: Operation) -> Error {
    let message = "the wait for the standbys was cancelled by hand before they confirmed; the session is closed, and its locks are free";
    Error::new(ErrorKind::Unavailable, STORE, operation, message).with_effect(Effect::Maybe)
}

fn is_unknown_setting(error: &Error) -> bool {
    failure::code(error).is_some_and(|code| code.code() == "42704")
}

fn too_old(operation: Operation) -> Error {
    let message = "the server is older than Postgres 14, which cannot end idle sessions";
    Error::new(ErrorKind::Unusable, STORE, operation, message)
}

/// Returns the error for a pooler that sends our statements to different sessions.
pub(super) fn pooled(operation: Operation) -> Error {
    let message = "a pooler hands our statements to different sessions (pool_mode = transaction or statement), where a lock would be stranded; connect to the server itself, or to a pool in session mode";
    Error::new(ErrorKind::Unusable, STORE, operation, message)
}

/// Returns the milliseconds: at least one, because zero would mean for ever, and at most what the server accepts.
pub(super) fn millis(duration: Duration) -> u128 {
    let whole = duration.as_nanos().div_ceil(1_000_000);
    whole.clamp(1, LONGEST_MS)
}

const LONGEST_MS: u128 = i32::MAX as u128;

/// The longest lease that the server can measure: 24 days.
pub(super) const LONGEST_LEASE: Duration = Duration::from_millis(i32::MAX as u64);
