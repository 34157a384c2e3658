//! One connection, which carries all statements in the order in which they were sent, and the server's notifications.
//!
//! A statement that was sent is executed even if its future is dropped, so a release takes effect after the acquisition that it follows.
//! This holds across connections as well, because a new connection first makes the server end the old one, which might still have unread
//! statements of ours.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Row, Statement};

use super::STORE;
use super::failure;
use super::record_statements::RecordStatements;
use super::schema;
use super::settings::Settings;
use super::statements::{Statements, forget};
use super::tables::Tables;
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Error, Operation, Result};
use crate::mutex::lock;
use crate::stores::kit::silence::{ANSWER_TIMEOUT, Silence};
use crate::stores::postgres::address::Address;
use crate::stores::postgres::connect::{Connection, listen};

/// How often to check whether the server has ended an old connection.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The settings of the session, whatever the server's defaults are. No statement waits long for somebody's open transaction, because others
/// wait behind it. A grant must survive a crash of the server, and a statement must see what was committed before it.
const SESSION: &str = "
SET lock_timeout = '500ms';
SET default_transaction_isolation = 'read committed';
SET default_transaction_deferrable = off;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

const WHO_AM_I: &str = "
SELECT pg_backend_pid(), (SELECT backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid())";

const IS_THERE: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2";

const END: &str = "
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2";

/// How a server distinguishes its sessions. The process id alone may belong to somebody else by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pid: i32,
    started: String,
}

/// The values of a statement's parameters.
pub(super) type Parameters<'a> = [&'a (dyn ToSql + Sync)];

pub(super) struct Session {
    connection: Connection,
    pub(super) statements: Statements,
    /// The statements on the table of records, once somebody has needed them.
    records: Mutex<Option<Arc<RecordStatements>>>,
    /// What was asked for before was answered over an earlier connection.
    pub(super) connected_at: Moment,
    pub(super) identity: Option<Identity>,
    down: AtomicBool,
    silence: Silence,
    sent: Arc<AtomicU64>,
}

/// What is known before a connection is opened.
pub(super) struct Wanted<'a> {
    pub(super) address: &'a Address,
    pub(super) settings: &'a Settings,
    /// Where the tables are, once they have been found and checked.
    pub(super) found: Option<Tables>,
    /// The sessions that the server must end before the new one is used.
    pub(super) replaced: &'a [Identity],
    pub(super) sent: Arc<AtomicU64>,
}

/// Connects, makes the server end the sessions that this one replaces, checks the tables the first time, and listens for notifications.
pub(super) async fn connect(
    operation: Operation,
    wanted: Wanted<'_>,
    hear: impl FnMut(AsyncMessage) + Send + 'static,
) -> Result<(Session, Tables)> {
    let Settings {
        connect_timeout,
        tables,
        create,
        ..
    } = wanted.settings;
    let connection = listen(
        STORE,
        operation,
        wanted.address,
        "fencepost",
        *connect_timeout,
        hear,
    )
    .await?;
    let client = &connection.client;
    let failed = |cause| failure::of_statement(operation, cause);
    let asked_at = BootClock.now();
    let (set, row) = join(
        client.batch_execute(SESSION),
        client.query_typed_one(WHO_AM_I, &[]),
    )
    .await;
    let round_trip = BootClock.now().saturating_duration_since(asked_at);
    let row = set.and(row).map_err(failed)?;
    let started: Option<String> = row.get(1);
    let identity = started.map(|started| Identity {
        pid: row.get(0),
        started,
    });
    for old in wanted.replaced {
        end(client, old, operation).await?;
    }
    let tables = match wanted.found {
        Some(tables) => tables,
        None => schema::ready(client, tables, *create).await?,
    };
    let listening = format!("LISTEN {}; {}", tables.channel(), forget(&tables));
    let (listening, statements) = join(
        client.batch_execute(&listening),
        Statements::prepare(client, &tables),
    )
    .await;
    let statements = listening.and(statements).map_err(failed)?;
    let session = Session {
        connection,
        statements,
        records: Mutex::default(),
        connected_at: BootClock.now(),
        identity,
        down: AtomicBool::new(false),
        silence: Silence::new(Arc::default(), round_trip),
        sent: wanted.sent,
    };
    Ok((session, tables))
}

/// Ends a session, and returns when it is gone together with everything it had not finished.
async fn end(client: &Client, old: &Identity, operation: Operation) -> Result<()> {
    let failed = |cause| failure::of_statement(operation, cause);
    let Identity { pid, started } = old;
    client.query(END, &[pid, started]).await.map_err(failed)?;
    let until = BootClock.now() + ANSWER_TIMEOUT;
    while BootClock.now() < until {
        let row = client.query_one(IS_THERE, &[pid, started]).await;
        if row.map_err(failed)?.get::<_, i64>(0) == 0 {
            return Ok(());
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Err(failure::unreachable(operation))
}

impl Session {
    pub(super) fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire) || self.connection.is_closed()
    }

    pub(super) fn give_up(&self) {
        self.down.store(true, Ordering::Release);
    }

    pub(super) fn client(&self) -> &Client {
        &self.connection.client
    }

    pub(super) fn record_statements(&self) -> Option<Arc<RecordStatements>> {
        lock(&self.records).clone()
    }

    pub(super) fn keep_record_statements(
        &self,
        prepared: RecordStatements,
    ) -> Arc<RecordStatements> {
        lock(&self.records).insert(Arc::new(prepared)).clone()
    }

    pub(super) fn forget_record_statements(&self) {
        *lock(&self.records) = None;
    }

    /// Sends one statement and waits for its answer without a time limit. The statement is sent at the first poll.
    pub(super) async fn ask(
        &self,
        operation: Operation,
        statement: &Statement,
        parameters: &Parameters<'_>,
    ) -> Result<Vec<Row>> {
        let asking = self.connection.client.query(statement, parameters);
        self.track(operation, asking).await
    }

    /// Waits for the answer to a request, and records what it says about the connection.
    pub(super) async fn track<T>(
        &self,
        operation: Operation,
        request: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        let mut asked = InFlight {
            session: self,
            at: BootClock.now(),
            silence_limit: self.silence.limit_for(operation),
            answered: false,
        };
        self.sent.fetch_add(1, Ordering::Relaxed);
        let answer = request.await;
        asked.answered = true;
        match answer {
            Ok(answer) => {
                self.silence.answered(asked.at);
                Ok(answer)
            }
            Err(cause) => {
                if cause.as_db_error().is_some() {
                    self.silence.answered(asked.at);
                }
                Err(self.failed(operation, cause))
            }
        }
    }

    fn failed(&self, operation: Operation, cause: tokio_postgres::Error) -> Error {
        let error = match (cause.is_closed(), self.connection.last_words()) {
            // The server gave a reason before it closed the connection.
            (true, Some(said)) if said.as_db_error().is_some() => failure::cut_off(operation, said),
            _ => failure::of_statement(operation, cause),
        };
        if self.connection.is_closed() || failure::ends_connection(&error) {
            self.give_up();
        }
        error
    }
}

/// A statement in progress. If it is dropped, the session records since when the server has been silent.
struct InFlight<'a> {
    session: &'a Session,
    at: Moment,
    silence_limit: Duration,
    answered: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.answered
            && self
                .session
                .silence
                .is_too_long(self.at, self.silence_limit)
        {
            self.session.give_up();
        }
    }
}
