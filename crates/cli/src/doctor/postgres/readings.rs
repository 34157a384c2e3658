//! What is known about a Postgres server: its settings and figures, and whether locks exclude there.
//!
//! Nothing is written: settings and figures come from the views that everybody may read. Whether locks exclude is tried with an advisory
//! lock that nobody else knows.

use std::time::{Duration, Instant};

use fencepost::stores::postgres::{Connection, Postgres};
use fencepost::stores::postgres_table::PostgresTable;
use fencepost::{Error, ErrorKind};

use super::super::PATIENCE;
use super::super::pace::{self, Sample, Stopwatch};
use super::facts::{self, Facts};
use super::pooler;

/// How locks are kept there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// By sessions that hold an advisory lock.
    Advisory,
    /// By rows of a table.
    Table,
}

/// What is known when the rules are applied.
pub(in super::super) struct Readings {
    pub(super) kind: Kind,
    pub(super) facts: Facts,
    /// `None` for a server that is too old to be asked.
    pub(super) trial: Option<Trial>,
    /// The address asks for `fence=transaction-id`.
    pub(super) takes_transaction_ids: bool,
    pub(super) samples: Vec<Sample>,
}

/// Whether what the settings promise is so: sessions stay what they are, locks exclude, the table is there.
pub(super) enum Trial {
    /// There is no second connection, and why.
    NoSecond(String),
    /// A pooler hands statements to changing sessions.
    Pooled,
    /// Sessions are kept; the store itself cannot be tried on a server that is only read.
    ReadOnly,
    /// Sessions are kept, and what opening the store came to.
    Opened(Opened),
}

/// What opening the store came to.
pub(super) enum Opened {
    /// It is as it should be, in words.
    Well(String),
    /// It is missing, and is made at the first use, if that is allowed.
    MadeWhenUsed(String),
    /// No lock can be taken, and why.
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
        let other = match Postgres::visit(address, PATIENCE).await {
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
    /// Opens the store without making anything, whatever the address says: the doctor only looks.
    async fn of(facts: &Facts, address: &str, kind: Kind) -> Result<Self, Error> {
        let opened = match kind {
            Kind::Advisory => {
                let opened = Postgres::builder(address).create_sequences(false).open();
                let told = |_| "advisory locks exclude (tried)".to_owned();
                opened.await.map(told)
            }
            Kind::Table => {
                let opened = PostgresTable::builder(address).create_table(false).open();
                let told = |store: PostgresTable| {
                    format!("table {} with rights and columns", store.table())
                };
                opened.await.map(told)
            }
        };
        let error = match opened {
            Ok(said) => return Ok(Self::Well(said)),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Unavailable | ErrorKind::InvalidInput => Err(error),
            _ if kind == Kind::Advisory && is_made_by_the_first(facts, &error) => Ok(Self::Well(
                "advisory locks exclude (tried); the first program that opens the store to lock makes the sequences for fences".to_owned(),
            )),
            _ => Ok(match made_when_used(address, &error) {
                Some(what) => Self::MadeWhenUsed(what),
                None => Self::Badly(error.message().to_owned()),
            }),
        }
    }
}

/// Sequences that are missing, where this user may make them.
fn is_made_by_the_first(facts: &Facts, error: &Error) -> bool {
    error.message().starts_with("there is no sequence") && facts.get("may_create") == "t"
}

/// Tables that are missing, where the address says that they are to be made.
fn made_when_used(address: &str, error: &Error) -> Option<String> {
    let is_asked_for = address.contains("?create=true") || address.contains("&create=true");
    let (missing, _) = error.message().split_once(';')?;
    let is_missing = is_asked_for && missing.starts_with("there is no table");
    is_missing.then(|| format!("{missing}, yet; whether create=true can make it was not tried"))
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
