//! Reads the settings and statistics of a Postgres server and tests whether locks exclude there.
//!
//! Writes nothing: settings and statistics come from views that every user may read, and the test takes an advisory lock that nobody
//! else uses.

use std::time::{Duration, Instant};

use fencepost::stores::postgres::{Connection, Postgres};
use fencepost::stores::postgres_table::PostgresTable;
use fencepost::{Error, ErrorKind};

use super::super::ANSWER_TIMEOUT;
use super::super::pace::{self, Sample, Stopwatch};
use super::facts::{self, Facts};
use super::pooler;

/// How the store keeps its locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A session holds an advisory lock.
    Advisory,
    /// Each lock is a row of a table.
    Table,
}

/// What the rules for Postgres judge.
pub(in super::super) struct Readings {
    pub(super) kind: Kind,
    pub(super) facts: Facts,
    /// `None` if the server is too old to be tested.
    pub(super) trial: Option<Trial>,
    /// Whether the address contains `fence=transaction-id`.
    pub(super) takes_transaction_ids: bool,
    pub(super) samples: Vec<Sample>,
}

/// The outcome of the practical test: whether connections keep their sessions, locks exclude and the table exists.
pub(super) enum Trial {
    /// The test needs a second connection, which failed for this reason.
    NoSecond(String),
    /// A pooler distributes statements over several sessions.
    Pooled,
    /// Connections keep their sessions. The store was not opened, because the server is read-only.
    ReadOnly,
    /// Connections keep their sessions, and the store was opened with this outcome.
    Opened(Opened),
}

/// The outcome of opening the store.
pub(super) enum Opened {
    /// Everything is as it should be; contains a description.
    Well(String),
    /// Something is missing; the first use creates it, if that is allowed.
    MadeWhenUsed(String),
    /// No lock can be taken, for this reason.
    Badly(String),
}

impl Readings {
    pub(super) async fn of(connection: &Connection, address: &str) -> Result<Self, Error> {
        let has = |parameter: &str| {
            let forms = [format!("?{parameter}"), format!("&{parameter}")];
            forms.iter().any(|form| address.contains(form))
        };
        let kind = if has("table=") {
            Kind::Table
        } else {
            Kind::Advisory
        };
        let mut facts = Facts::first(connection).await?;
        let trial = if facts.is_old() {
            None
        } else {
            facts.learn(connection).await?;
            Some(Trial::of(&facts, connection, address, kind).await?)
        };
        Ok(Self {
            kind,
            facts,
            trial,
            takes_transaction_ids: has("fence=transaction-id"),
            samples: samples(connection).await?,
        })
    }
}

impl Trial {
    async fn of(
        facts: &Facts,
        connection: &Connection,
        address: &str,
        kind: Kind,
    ) -> Result<Self, Error> {
        let other = match Postgres::visit(address, ANSWER_TIMEOUT).await {
            Ok(other) => other,
            Err(error) => return Ok(Self::NoSecond(error.message().to_owned())),
        };
        if !pooler::keeps_sessions(connection, &other).await? {
            return Ok(Self::Pooled);
        }
        if facts.is_standby() || facts.is_read_only() && kind == Kind::Table {
            return Ok(Self::ReadOnly);
        }
        drop(other);
        Opened::of(facts, address, kind).await.map(Self::Opened)
    }
}

impl Opened {
    /// Opens the store without creating anything, whatever the address says.
    async fn of(facts: &Facts, address: &str, kind: Kind) -> Result<Self, Error> {
        let opened = match kind {
            Kind::Advisory => {
                let opened = Postgres::builder(address).create_sequences(false).open();
                let describe = |_| "advisory locks exclude (tested)".to_owned();
                opened.await.map(describe)
            }
            Kind::Table => {
                let opened = PostgresTable::builder(address).create_table(false).open();
                let describe = |store: PostgresTable| {
                    format!(
                        "table {} has the right columns, and the user may use them",
                        store.table()
                    )
                };
                opened.await.map(describe)
            }
        };
        let error = match opened {
            Ok(said) => return Ok(Self::Well(said)),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Unavailable | ErrorKind::InvalidInput => Err(error),
            _ if kind == Kind::Advisory && is_made_by_the_first(facts, &error) => Ok(Self::Well(
                "advisory locks exclude (tested); the first program that opens the store for locking creates the sequences for fences".to_owned(),
            )),
            _ => Ok(match made_when_used(address, &error) {
                Some(what) => Self::MadeWhenUsed(what),
                None => Self::Badly(error.message().to_owned()),
            }),
        }
    }
}

/// Returns whether the sequences are missing, but this user may create them.
fn is_made_by_the_first(facts: &Facts, error: &Error) -> bool {
    error.message().starts_with("there is no sequence") && facts.get("may_create") == "t"
}

/// Describes a missing table that the first use creates because the address says `create=true`.
fn made_when_used(address: &str, error: &Error) -> Option<String> {
    let is_asked_for = address.contains("?create=true") || address.contains("&create=true");
    let (missing, _) = error.message().split_once(';')?;
    let is_missing = is_asked_for && missing.starts_with("there is no table");
    is_missing.then(|| format!("{missing} yet; whether create=true can create it was not tested"))
}

async fn samples(connection: &Connection) -> Result<Vec<Sample>, Error> {
    let start = Instant::now();
    let mut samples = Vec::with_capacity(pace::TRIES);
    for _ in 0..pace::TRIES {
        let asked = Stopwatch::now();
        let micros = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now";
        let now = facts::ask(connection, micros).await?;
        let micros = now.get("now").and_then(|micros| micros.parse().ok());
        let theirs = Duration::from_micros(micros.unwrap_or_default());
        samples.push(asked.answered(theirs, start));
    }
    Ok(samples)
}
