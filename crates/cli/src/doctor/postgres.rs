//! The examination of a Postgres server, for advisory locks or for leases in a table.
//!
//! Nothing is written: settings and figures come from the views that everybody may read. Whether locks exclude is tried with an advisory
//! lock that nobody else knows.

use std::time::{Duration, Instant};

use fencepost::stores::postgres::{Connection, Postgres};
use fencepost::stores::postgres_table::PostgresTable;
use fencepost::{Error, ErrorKind};

use super::finding::{Finding, Harm};
use super::pace::{self, Asked, CLOCK_CHECKS, Clock, ROUND_TRIP_CHECKS};
use super::reach::{refused, within_patience};
use super::rules::apply;
use super::{Examination, PATIENCE};
use crate::fault::Fault;
use crate::store::LockStore;

mod facts;
mod keeping;
mod limits;
mod pooler;

use facts::Facts;

/// How locks are kept there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// By sessions that hold an advisory lock.
    Advisory,
    /// By rows of a table.
    Table,
}

pub(super) async fn examine(
    store: &LockStore,
    address: &str,
    slow: Duration,
) -> Result<Examination, Fault> {
    let failed = |error: Error| refused(store, &error);
    let connection = within_patience(|| Postgres::visit(address, PATIENCE)).await;
    let connection = connection.map_err(failed)?;
    let (patient, findings) = look(&connection, address, slow).await.map_err(failed)?;
    Ok(Examination {
        place: store.place(),
        patient,
        findings,
    })
}

async fn look(
    connection: &Connection,
    address: &str,
    slow: Duration,
) -> Result<(String, Vec<Finding>), Error> {
    let kind = match address.contains("?table=") || address.contains("&table=") {
        true => Kind::Table,
        false => Kind::Advisory,
    };
    let mut facts = Facts::first(connection).await?;
    let mut findings = vec![age(&facts)];
    if !facts.is_old() {
        facts.learn(connection).await?;
        findings.push(role(&facts));
        findings.extend(limits::judge(&facts, kind));
        findings.extend(keeping::judge(&facts, kind));
        findings.extend(excludes(&facts, connection, address, kind).await?);
    }
    findings.extend(pace(connection, kind, slow).await?);
    Ok((patient(&facts), findings))
}

fn patient(facts: &Facts) -> String {
    let role = match facts.is_standby() {
        true => "a standby",
        false => "a primary",
    };
    format!(
        "Postgres {}, {role}, up {}, as user {}",
        facts.version(),
        super::uptime(facts.number("uptime").unwrap_or_default()),
        facts.user()
    )
}

fn age(facts: &Facts) -> Finding {
    let finding = match facts.is_old() {
        true => {
            let what = format!("Postgres {} is too old: 14 is the least", facts.version());
            Finding::danger("version", Harm::NoLocks, what)
                .means("It cannot end sessions that are idle, which the leases rest on.")
                .advice("a newer server; try it with a copy of the data first")
        }
        false => Finding::fine("version", "version"),
    };
    finding.figure("version", facts.version())
}

fn role(facts: &Facts) -> Finding {
    match facts.is_standby() {
        true => Finding::danger(
            "standby",
            Harm::NoLocks,
            "this is a standby, which can only be read",
        )
        .means("No lock can be taken here.")
        .advice("the address of the primary, or target_session_attrs=read-write with all hosts"),
        false => Finding::fine("standby", "a primary"),
    }
}

/// Whether what the settings promise is so: sessions stay what they are, locks exclude, the table is there.
async fn excludes(
    facts: &Facts,
    connection: &Connection,
    address: &str,
    kind: Kind,
) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let other = match Postgres::visit(address, PATIENCE).await {
        Ok(other) => other,
        Err(error) => return Ok(vec![no_second(&error)]),
    };
    let pooler = pooler::judge(connection, &other).await?;
    let is_pooled = pooler.is_trouble();
    findings.push(pooler);
    if is_pooled || facts.is_standby() || facts.is_read_only() && kind == Kind::Table {
        return Ok(findings);
    }
    drop(other);
    let (topic, opened) = match kind {
        Kind::Advisory => {
            // The doctor only looks: it leaves it to the first program to make what is missing.
            let opened = Postgres::builder(address).create_sequences(false).open();
            let told = |_: Postgres| "advisory locks exclude (tried)".to_owned();
            ("exclusion", opened.await.map(told))
        }
        Kind::Table => {
            // The doctor only looks, whatever the address says.
            let opened = PostgresTable::builder(address).create_table(false).open();
            let told =
                |store: PostgresTable| format!("table {} with rights and columns", store.table());
            ("table", opened.await.map(told))
        }
    };
    findings.extend(transaction_ids(address));
    findings.push(match opened {
        Ok(said) => Finding::fine(topic, said),
        Err(error) => match error.kind() {
            ErrorKind::Unavailable | ErrorKind::InvalidInput => return Err(error),
            _ if kind == Kind::Advisory && is_made_by_the_first(facts, &error) => Finding::fine(
                topic,
                "advisory locks exclude (tried); the first program that opens the store makes the sequences for fences",
            ),
            _ => made_when_used(address, &error).unwrap_or_else(|| {
                Finding::danger(topic, Harm::NoLocks, error.message())
                    .means("No lock can be taken here.")
            }),
        },
    });
    Ok(findings)
}

/// Sequences that are missing, where this user may make them.
fn is_made_by_the_first(facts: &Facts, error: &Error) -> bool {
    error.message().starts_with("there is no sequence") && facts.get("may_create") == "t"
}

/// Fences that the address takes from transaction ids.
fn transaction_ids(address: &str) -> Option<Finding> {
    let parameter = "fence=transaction-id";
    let is_asked_for = [format!("?{parameter}"), format!("&{parameter}")];
    is_asked_for.iter().any(|asked| address.contains(asked)).then(|| {
        Finding::caution("fence", Harm::FenceFalls, "fences are transaction ids (fence=transaction-id)")
            .means("A standby that takes over and has not received the last grants gives the same fences to others.")
            .advice("let the owner of the database create the sequences, and leave out fence=transaction-id everywhere")
    })
}

/// Tables that are missing, where the address says that they are to be made.
fn made_when_used(address: &str, error: &Error) -> Option<Finding> {
    let is_asked_for = address.contains("?create=true") || address.contains("&create=true");
    let (missing, _) = error.message().split_once(';')?;
    (is_asked_for && missing.starts_with("there is no table")).then(|| {
        let what = format!("{missing}, yet; whether create=true can make it was not tried");
        Finding::unknown("table", what)
    })
}

fn no_second(error: &Error) -> Finding {
    let what = format!("no second connection: {}", error.message());
    Finding::danger("connections", Harm::NoLocks, what)
        .means("A lock needs a session of its own: none can be taken.")
        .advice("end connections that nobody needs, or raise max_connections (needs a restart)")
}

async fn pace(connection: &Connection, kind: Kind, slow: Duration) -> Result<Vec<Finding>, Error> {
    let start = Instant::now();
    let mut samples = Vec::with_capacity(pace::TRIES);
    for _ in 0..pace::TRIES {
        let asked = Asked::now();
        let micros = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now";
        let now = facts::ask(connection, micros).await?;
        let micros = now.get("now").and_then(|micros| micros.parse().ok());
        let theirs = Duration::from_micros(micros.unwrap_or_default());
        samples.push(asked.answered(theirs, start));
    }
    // Advisory locks end with their sessions, and those by a clock that is never set forward.
    let keeper = (kind == Kind::Table).then_some("The table");
    let mut findings = apply(ROUND_TRIP_CHECKS, &Ok(pace::times(&samples, slow)));
    findings.extend(apply(CLOCK_CHECKS, &Clock::of(&samples, keeper)));
    Ok(findings)
}
