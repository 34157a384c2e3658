//! One session at the server: a connection of our own, made fit for locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::{AsyncMessage, SimpleQueryMessage, SimpleQueryRow};

use super::address::Address;
use super::connect::{Connection, listen};
use super::fence::{self, Source};
use super::{STORE, failure};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};

/// Postgres 14: the first that ends sessions that are idle, which is what makes a lease of a session.
const OLDEST: u32 = 140_000;

/// How soon a server notices that one who waits has closed the connection.
const LOOK_AT_CLIENT_MS: u32 = 500;

/// How long the server keeps a session that was opened and not used yet, where spare ones are kept for less: on a very busy
/// machine there have been ten seconds between the two.
const NEW: Duration = Duration::from_secs(60);

pub(super) struct Session {
    connection: Connection,
    /// Known before the connection says so.
    is_over: Arc<AtomicBool>,
    /// A lift was sent, or none is needed. Whether it was carried out, the session at the server knows.
    has_lifted: AtomicBool,
    /// The server stopped waiting for its standbys before they confirmed a write.
    is_unconfirmed: Arc<AtomicBool>,
    /// Fences can be drawn from the source of this store, as far as one can tell beforehand.
    is_ready: AtomicBool,
    source: Source,
    /// The process that serves it.
    pub(super) pid: i32,
}

impl Session {
    /// Connects and prepares. Whoever takes locks with it makes it [ready](Self::ready) first. `times` says how long that may take, and how long the server keeps the session
    /// while nothing is done with it. `ended` is called when the connection has ended, whoever ended it; [`is_closed`](Self::is_closed) then.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub(super) async fn open(
        operation: Operation,
        address: &Address,
        (patience, spare): (Duration, Duration),
        source: Source,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Arc<Self>> {
        let is_over = Arc::new(AtomicBool::new(false));
        let is_unconfirmed = Arc::new(AtomicBool::new(false));
        let end = End {
            is_over: is_over.clone(),
            tell: Some(ended),
        };
        let told = is_unconfirmed.clone();
        let hear = move |message: AsyncMessage| {
            // Kept here because it is dropped with the connection, and not before.
            let _kept = &end;
            if is_given_up(&message) {
                told.store(true, Ordering::Relaxed);
            }
        };
        let opening = async {
            let connecting = listen(STORE, operation, address, STORE_PROGRAM, patience, hear);
            let connection = connecting.await?;
            let pid = prepare(operation, &connection, spare.max(NEW)).await?;
            Ok(Arc::new(Self {
                connection,
                is_over,
                has_lifted: AtomicBool::new(source.lift().is_none()),
                is_unconfirmed,
                is_ready: AtomicBool::new(false),
                source,
                pid,
            }))
        };
        match tokio::time::timeout(patience, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(failure::unreachable(STORE, operation)),
        }
    }

    /// Sends a statement whose first column is `pg_backend_pid()`, and returns the first row of the answer.
    ///
    /// Statements are carried out in the order in which their futures are first polled, also those whose futures are dropped then.
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
        let row = row.ok_or_else(|| failure::unexpected(STORE, operation, "no row"))?;
        match number::<i32>(&row, 0) {
            Some(pid) if pid == self.pid => Ok(row),
            Some(_) => {
                self.close();
                Err(pooled(operation))
            }
            None => Err(failure::unexpected(STORE, operation, "no process")),
        }
    }

    /// The rows of the last statement of `statement`.
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

    /// Sees to it that fences can be drawn here, once. Looking needs none of that.
    pub(super) async fn ready(&self, operation: Operation) -> Result<()> {
        if !self.is_ready.load(Ordering::Relaxed) {
            self.source.ready(operation, &self.connection).await?;
            self.is_ready.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The server said that no fence can be drawn in this session.
    pub(super) fn must_not_draw(&self) -> Error {
        match self.source {
            // It is not the session that we know.
            Source::Sequences { .. } => {
                self.close();
                pooled(Operation::Acquire)
            }
            // Nothing was granted. The locks that the session has are not affected.
            Source::TransactionIds => fence::met_sequences(Operation::Acquire),
        }
    }

    /// Whether a lift has to be sent before the next grant; it is taken for sent then.
    pub(super) fn is_to_lift(&self) -> bool {
        !self.has_lifted.swap(true, Ordering::Relaxed)
    }

    /// Sends a lift of the fence. A session that cannot is closed: it must not grant.
    pub(super) async fn lift(&self, statement: &str) -> Result<()> {
        let answer = self.ask_all(Operation::Acquire, statement).await;
        // The setting, the turn, the lift.
        let lifted = answer.and_then(|rows| fence::lifted(STORE, rows.get(2)));
        lifted.inspect_err(|_| self.close())
    }

    /// Ends it here and now, with whatever it holds.
    pub(super) fn close(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.connection.close();
    }

    /// The server or the network has ended it, or we have: what it held is free, or will be within its TTL.
    pub(super) fn is_closed(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.connection.is_closed()
    }
}

/// Tells of the end of a connection by being dropped with it.
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

/// What `application_name` begins with when the address says nothing.
pub(super) const STORE_PROGRAM: &str = "fencepost";

pub(super) async fn rows(
    connection: &Connection,
    operation: Operation,
    statement: &str,
) -> Result<Vec<SimpleQueryRow>> {
    let answer = connection.client.simple_query(statement).await;
    let messages = answer.map_err(|cause| {
        let said = match cause.is_closed() {
            true => connection.last_words(),
            false => None,
        };
        match said {
            Some(said) => failure::of_ending(STORE, operation, said),
            None => failure::of_statement(STORE, operation, cause),
        }
    })?;
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(rows.collect())
}

/// Makes the session independent of what the role, the database or the server has set, and finds out whether it will do.
async fn prepare(operation: Operation, connection: &Connection, spare: Duration) -> Result<i32> {
    let spare_ms = millis(spare);
    // What the role may have set against runaway statements would cut our waiting short. The path keeps others' functions out.
    // A fence that was told must not be forgotten: before that its record has to be on the disk, and with the standbys that are waited for.
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
    let answer = answer.map_err(|error| match is_unknown_setting(&error) {
        true => too_old(operation),
        false => error,
    })?;
    let row = answer.first();
    let row = row.ok_or_else(|| failure::unexpected(STORE, operation, "no row"))?;
    let (Some(pid), Some(version)) = (number(row, 0), number::<u32>(row, 2)) else {
        return Err(failure::unexpected(
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
        // Not every system can look. There, one who waits and closes the connection is noticed when its turn comes.
        if let Err(error) = rows(connection, operation, &setting).await
            && connection.is_closed()
        {
            return Err(error);
        }
    }
    Ok(pid)
}

/// Somebody cancelled a statement that waited for standbys to confirm it. The server calls that a success, with a warning.
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

/// Our statements reach changing sessions.
pub(super) fn pooled(operation: Operation) -> Error {
    let message = "a pooler hands our statements to different sessions (pool_mode = transaction or statement), where a lock would be stranded; connect to the server itself, or to a pool in session mode";
    Error::new(ErrorKind::Unusable, STORE, operation, message)
}

/// At least one: zero would mean for ever. At most what the server takes.
pub(super) fn millis(duration: Duration) -> u128 {
    let whole = duration.as_nanos().div_ceil(1_000_000);
    whole.clamp(1, LONGEST_MS)
}

const LONGEST_MS: u128 = i32::MAX as u128;

/// The longest lease that the server can keep time for: 24 days.
pub(super) const LONGEST_LEASE: Duration = Duration::from_millis(i32::MAX as u64);

pub(super) fn number<T: std::str::FromStr>(row: &SimpleQueryRow, column: usize) -> Option<T> {
    row.try_get(column).ok().flatten()?.parse().ok()
}

pub(super) fn text(row: &SimpleQueryRow, column: usize) -> &str {
    row.try_get(column).ok().flatten().unwrap_or_default()
}
