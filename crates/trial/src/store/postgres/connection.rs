//! A connection to a Postgres database, used for the stock, for handmade locks and for the locks of the database.

use std::collections::HashMap;
use std::error::Error as _;
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, NoTls, Row, Statement};

use super::blocking::wait_until;
use super::{quoted, split};
use crate::protocol::Failure;

/// How long the server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the server may take to answer a statement that does not wait for a lock.
const ANSWER: Duration = Duration::from_secs(30);

/// The parameters of a statement.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection with the schema of its tables. It reconnects after a failure, unless it is [pinned](Connection::pin).
pub(crate) struct Connection {
    config: Config,
    schema: String,
    session: Option<Session>,
    pinned: bool,
    lost: i64,
}

struct Session {
    client: Client,
    statements: HashMap<&'static str, Statement>,
    driver: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // Closes the socket at once, so that a statement that is still waiting cannot get its lock later.
        self.driver.abort();
    }
}

/// A failure on the way to the server, or on the server.
#[derive(Debug)]
pub(crate) struct StoreError {
    cause: Cause,
    /// Whether the request had been sent.
    sent: bool,
}

#[derive(Debug)]
enum Cause {
    Told(Error),
    Silence,
    /// The pinned session is gone.
    Gone,
    /// The system could not provide a thread for the runtime.
    System(String),
}

impl StoreError {
    /// Converts the failure of a statement that changes something: if it was sent, it may have been executed.
    pub(crate) fn into_write_failure(self) -> Failure {
        let answered = self.code().is_some_and(|code| !ends_sessions(code));
        if answered || !self.sent {
            Failure::definite(self.message())
        } else {
            Failure::indefinite(self.message())
        }
    }

    /// Converts the failure of a statement that changes nothing.
    pub(crate) fn into_read_failure(self) -> Failure {
        Failure::definite(self.message())
    }

    /// Returns the error code of the server.
    pub(crate) fn code(&self) -> Option<&SqlState> {
        match &self.cause {
            Cause::Told(error) => error.code(),
            _ => None,
        }
    }

    /// Returns whether no server answers at the address, or not yet.
    pub(super) fn nobody_there(&self) -> bool {
        match &self.cause {
            Cause::Told(error) => {
                is_of_the_system(error) || error.code() == Some(&SqlState::CANNOT_CONNECT_NOW)
            }
            Cause::Silence => true,
            Cause::Gone | Cause::System(_) => false,
        }
    }

    /// Describes the failure in the words of the server or the system.
    pub(crate) fn words(&self) -> String {
        match &self.cause {
            Cause::Silence => "no answer".into(),
            Cause::Gone => "the connection is gone".into(),
            Cause::System(words) => words.clone(),
            Cause::Told(error) => match error.as_db_error() {
                Some(said) if *said.code() == SqlState::TOO_MANY_CONNECTIONS => format!(
                    "{}; each process needs up to two connections: try a lower --concurrency",
                    said.message()
                ),
                Some(said) => said.message().to_owned(),
                None => in_a_sentence(&deepest(error)),
            },
        }
    }

    fn message(&self) -> String {
        let what = if self.sent { "" } else { "no connection: " };
        format!("postgres: {what}{}", self.words())
    }
}

/// Returns whether this code ends the session, in which case the last statement may have been executed.
fn ends_sessions(code: &SqlState) -> bool {
    code.code().starts_with("57P") || code.code().starts_with("08")
}

fn is_of_the_system(error: &Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if inner.is::<io::Error>() {
            return true;
        }
        cause = inner.source();
    }
    false
}

fn deepest(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Removes the system's error number and the leading capital.
fn in_a_sentence(text: &str) -> String {
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// Parses an address. The lab's own connections are not encrypted.
pub(super) fn config(url: &str) -> Result<Config, Error> {
    url.parse()
}

/// Returns the runtime that drives all connections.
fn listeners() -> Result<&'static Runtime, StoreError> {
    static LISTENERS: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let made = LISTENERS.get_or_init(|| {
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(1).enable_all();
        runtime.build().map_err(|error| error.to_string())
    });
    made.as_ref().map_err(|words| StoreError {
        cause: Cause::System(words.clone()),
        sent: false,
    })
}

/// Runs work that needs a runtime, and waits for its result.
pub(super) fn wait_for<T: Send + 'static>(
    timeout: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Failure> {
    let working = listeners()
        .map_err(StoreError::into_read_failure)?
        .spawn(work);
    match wait_until(Instant::now() + timeout, working) {
        Some(done) => done.map_err(Failure::definite),
        None => Err(Failure::definite("postgres: no answer")),
    }
}

impl Connection {
    /// Connects to `postgres://…#SCHEMA`.
    pub(crate) fn open(endpoint: &str) -> Result<Self, Failure> {
        Self::connect_to(endpoint, CONNECT).map_err(StoreError::into_read_failure)
    }

    pub(super) fn connect_to(endpoint: &str, within: Duration) -> Result<Self, StoreError> {
        let (url, schema) = split(endpoint).unwrap_or((endpoint, "public"));
        let config = config(url).map_err(|error| StoreError {
            cause: Cause::Told(error),
            sent: false,
        })?;
        let mut connection = Self {
            config,
            schema: schema.to_owned(),
            session: None,
            pinned: false,
            lost: 0,
        };
        connection.session = Some(connection.connect(Instant::now() + within)?);
        Ok(connection)
    }

    /// Returns the schema of its tables.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns the number of the session. What the server keeps for a session is lost when the number changes.
    pub(crate) fn generation(&self) -> i64 {
        let is_gone = self.session.as_ref().is_some_and(|s| s.client.is_closed());
        self.lost + i64::from(is_gone)
    }

    /// Pins the session. While pinned, a broken session is not replaced: its locks are lost, and nothing may continue as if
    /// they were not.
    pub(crate) fn pin(&mut self, pinned: bool) {
        self.pinned = pinned;
    }

    /// Runs a query.
    pub(crate) fn ask(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.ask_within(sql, parameters, Duration::ZERO)
    }

    /// Runs a query that may wait this long for a lock.
    pub(crate) fn ask_within(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
        wait: Duration,
    ) -> Result<Vec<Row>, StoreError> {
        let deadline = Instant::now() + wait + ANSWER;
        self.with(deadline, |session| {
            session.prepared(sql, deadline, |client, statement| async move {
                client.query(&statement, parameters).await
            })
        })
    }

    /// Runs a query and returns its first row, if there is one.
    pub(crate) fn ask_one(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.ask(sql, parameters)?.into_iter().next())
    }

    /// Runs a statement and returns the number of rows it changed.
    pub(crate) fn change(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<u64, StoreError> {
        let deadline = Instant::now() + ANSWER;
        self.with(deadline, |session| {
            session.prepared(sql, deadline, |client, statement| async move {
                client.execute(&statement, parameters).await
            })
        })
    }

    /// Runs statements without results, in one transaction unless they say otherwise.
    pub(crate) fn run(&mut self, statements: &str) -> Result<(), StoreError> {
        self.run_within(statements, Duration::ZERO)
    }

    /// Runs statements without results that may wait this long for a lock.
    pub(crate) fn run_within(
        &mut self,
        statements: &str,
        wait: Duration,
    ) -> Result<(), StoreError> {
        let deadline = Instant::now() + wait + ANSWER;
        self.with(deadline, |session| {
            wait_until(deadline, session.client.batch_execute(statements))
        })
    }

    fn with<T>(
        &mut self,
        deadline: Instant,
        work: impl FnOnce(&mut Session) -> Option<Result<T, Error>>,
    ) -> Result<T, StoreError> {
        self.forget_what_is_closed();
        let mut session = match self.session.take() {
            Some(session) => session,
            None if self.pinned => {
                return Err(StoreError {
                    cause: Cause::Gone,
                    sent: false,
                });
            }
            None => self.connect(deadline)?,
        };
        let done = work(&mut session);
        let broke = match &done {
            None => true,
            Some(Err(error)) => error.is_closed() || error.code().is_none_or(ends_sessions),
            Some(Ok(_)) => false,
        };
        // After a failure on the way, answers may no longer match their requests.
        if broke {
            self.lost += 1;
        } else {
            self.session = Some(session);
        }
        let done = done.ok_or(Cause::Silence);
        let done = done.and_then(|done| done.map_err(Cause::Told));
        done.map_err(|cause| StoreError { cause, sent: true })
    }

    fn forget_what_is_closed(&mut self) {
        if self.session.as_ref().is_some_and(|s| s.client.is_closed()) {
            self.session = None;
            self.lost += 1;
        }
    }

    fn connect(&self, deadline: Instant) -> Result<Session, StoreError> {
        let unsent = |cause| StoreError { cause, sent: false };
        let mut config = self.config.clone();
        if config.get_application_name().is_none() {
            config.application_name("fencepost lab");
        }
        // A sale does not outlive a power failure, so waiting for the disk at each commit would only slow it down.
        let setup = format!(
            "SET search_path TO {}; SET synchronous_commit = off;
            SET default_transaction_isolation = 'read committed'",
            quoted(&self.schema)
        );
        let listeners = listeners()?;
        let connecting = listeners.spawn(async move {
            let (client, connection) = config.connect(NoTls).await?;
            let driver = tokio::spawn(async move { drop(connection.await) });
            let statements = HashMap::new();
            let session = Session {
                client,
                statements,
                driver,
            };
            session.client.batch_execute(&setup).await?;
            Ok(session)
        });
        match wait_until(deadline, connecting) {
            None => Err(unsent(Cause::Silence)),
            Some(Err(error)) => Err(unsent(Cause::System(error.to_string()))),
            Some(Ok(made)) => made.map_err(|error| unsent(Cause::Told(error))),
        }
    }
}

impl Session {
    /// Prepares a statement when it is first used, then runs it. Returns `None` if there is no answer in time.
    fn prepared<'a, T, W>(
        &'a mut self,
        sql: &'static str,
        deadline: Instant,
        work: impl FnOnce(&'a Client, Statement) -> W,
    ) -> Option<Result<T, Error>>
    where
        W: Future<Output = Result<T, Error>>,
    {
        if !self.statements.contains_key(sql) {
            match wait_until(deadline, self.client.prepare(sql))? {
                Ok(statement) => self.statements.insert(sql, statement),
                Err(error) => return Some(Err(error)),
            };
        }
        let statement = self.statements.get(sql)?.clone();
        wait_until(deadline, work(&self.client, statement))
    }
}
