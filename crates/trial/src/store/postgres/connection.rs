//! A connection to a Postgres database, for the stock, for hand-made locks and for the database's own.

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

use super::patience::wait_until;
use super::{quoted, split};
use crate::protocol::Failure;

/// How long the server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long it may take to answer what nobody has to wait for.
const ANSWER: Duration = Duration::from_secs(30);

/// The parameters of a statement.
pub(crate) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection that is made anew after it broke, unless it is [pinned](Connection::pin), and the schema in which its tables are.
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
        // Closes the socket at once: a statement that still waits must not get its lock some day.
        self.driver.abort();
    }
}

/// What went wrong on the way to the server or there.
#[derive(Debug)]
pub(crate) struct Trouble {
    cause: Cause,
    /// Whether the request had been sent.
    sent: bool,
}

#[derive(Debug)]
enum Cause {
    Told(Error),
    Silence,
    /// The session on which everything rests is gone.
    Gone,
    /// No thread to listen on.
    System(String),
}

impl Trouble {
    /// A statement that changes something: its answer may be all that was lost.
    pub(crate) fn unwritten(self) -> Failure {
        let answered = self.code().is_some_and(|code| !ends_sessions(code));
        if answered || !self.sent {
            Failure::definite(self.message())
        } else {
            Failure::indefinite(self.message())
        }
    }

    /// A statement that changes nothing.
    pub(crate) fn unread(self) -> Failure {
        Failure::definite(self.message())
    }

    /// The code with which the server refused.
    pub(crate) fn code(&self) -> Option<&SqlState> {
        match &self.cause {
            Cause::Told(error) => error.code(),
            _ => None,
        }
    }

    /// Nobody answers there, or not yet.
    pub(super) fn nobody_there(&self) -> bool {
        match &self.cause {
            Cause::Told(error) => {
                is_of_the_system(error) || error.code() == Some(&SqlState::CANNOT_CONNECT_NOW)
            }
            Cause::Silence => true,
            Cause::Gone | Cause::System(_) => false,
        }
    }

    /// What happened, in the words of the server or of the system.
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

/// The server is going down, or somebody has ended the session: what was asked last may have been done.
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

/// Without the system's number and capital.
fn in_a_sentence(text: &str) -> String {
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// What an address says; the lab itself speaks without encryption.
pub(super) fn config(url: &str) -> Result<Config, Error> {
    url.parse()
}

/// Where connections are listened to, whoever uses them.
fn listeners() -> Result<&'static Runtime, Trouble> {
    static LISTENERS: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let made = LISTENERS.get_or_init(|| {
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(1).enable_all();
        runtime.build().map_err(|error| error.to_string())
    });
    made.as_ref().map_err(|words| Trouble {
        cause: Cause::System(words.clone()),
        sent: false,
    })
}

/// What comes of work that needs a runtime to go on in.
pub(super) fn wait_for<T: Send + 'static>(
    patience: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Failure> {
    let working = listeners().map_err(Trouble::unread)?.spawn(work);
    match wait_until(Instant::now() + patience, working) {
        Some(done) => done.map_err(Failure::definite),
        None => Err(Failure::definite("postgres: no answer")),
    }
}

impl Connection {
    /// Connects to `postgres://…#SCHEMA`.
    pub(crate) fn open(endpoint: &str) -> Result<Self, Failure> {
        Self::connect_to(endpoint, CONNECT).map_err(Trouble::unread)
    }

    pub(super) fn connect_to(endpoint: &str, within: Duration) -> Result<Self, Trouble> {
        let (url, schema) = split(endpoint).unwrap_or((endpoint, "public"));
        let config = config(url).map_err(|error| Trouble {
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

    /// Where its tables are.
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// Which session this is: what the server keeps for one is gone with it.
    pub(crate) fn generation(&self) -> i64 {
        let is_gone = self.session.as_ref().is_some_and(|s| s.client.is_closed());
        self.lost + i64::from(is_gone)
    }

    /// While pinned, a session that breaks is not replaced: what it held is gone with it, and nothing may be done as if it were not.
    pub(crate) fn pin(&mut self, pinned: bool) {
        self.pinned = pinned;
    }

    /// Asks for rows.
    pub(crate) fn ask(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Trouble> {
        self.ask_within(sql, parameters, Duration::ZERO)
    }

    /// Asks for rows, of a statement that may have to wait so long for a lock.
    pub(crate) fn ask_within(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
        wait: Duration,
    ) -> Result<Vec<Row>, Trouble> {
        let deadline = Instant::now() + wait + ANSWER;
        self.with(deadline, |session| {
            session.prepared(sql, deadline, |client, statement| async move {
                client.query(&statement, parameters).await
            })
        })
    }

    /// The first row, if there is any.
    pub(crate) fn ask_one(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<Option<Row>, Trouble> {
        Ok(self.ask(sql, parameters)?.into_iter().next())
    }

    /// Changes something; says how many rows.
    pub(crate) fn change(
        &mut self,
        sql: &'static str,
        parameters: Parameters<'_>,
    ) -> Result<u64, Trouble> {
        let deadline = Instant::now() + ANSWER;
        self.with(deadline, |session| {
            session.prepared(sql, deadline, |client, statement| async move {
                client.execute(&statement, parameters).await
            })
        })
    }

    /// Runs statements that return nothing: together in one transaction, unless they say otherwise.
    pub(crate) fn run(&mut self, statements: &str) -> Result<(), Trouble> {
        self.run_within(statements, Duration::ZERO)
    }

    /// The same with statements that may have to wait so long for a lock.
    pub(crate) fn run_within(&mut self, statements: &str, wait: Duration) -> Result<(), Trouble> {
        let deadline = Instant::now() + wait + ANSWER;
        self.with(deadline, |session| {
            wait_until(deadline, session.client.batch_execute(statements))
        })
    }

    fn with<T>(
        &mut self,
        deadline: Instant,
        work: impl FnOnce(&mut Session) -> Option<Result<T, Error>>,
    ) -> Result<T, Trouble> {
        self.forget_what_is_closed();
        let mut session = match self.session.take() {
            Some(session) => session,
            None if self.pinned => {
                return Err(Trouble {
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
        // After a failure on the way, answers and questions may no longer match.
        if broke {
            self.lost += 1;
        } else {
            self.session = Some(session);
        }
        let done = done.ok_or(Cause::Silence);
        let done = done.and_then(|done| done.map_err(Cause::Told));
        done.map_err(|cause| Trouble { cause, sent: true })
    }

    fn forget_what_is_closed(&mut self) {
        if self.session.as_ref().is_some_and(|s| s.client.is_closed()) {
            self.session = None;
            self.lost += 1;
        }
    }

    fn connect(&self, deadline: Instant) -> Result<Session, Trouble> {
        let unsent = |cause| Trouble { cause, sent: false };
        let mut config = self.config.clone();
        if config.get_application_name().is_none() {
            config.application_name("fencepost lab");
        }
        // A race does not outlive a power failure: waiting for the disk at each commit would only slow it down.
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
    /// Prepares a statement when it is first used. `None`: no answer in time.
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
