//! The ground on Postgres: one schema per trial, dropped at its end.

use std::time::{Duration, Instant};

use fencepost::resource::CREATE_GATE;
use fencepost::stores::postgres::Postgres;
use fencepost::stores::postgres_table::PostgresTable;

use crate::protocol::Failure;
use crate::store::latch::Latches;
use crate::store::latch::postgres::PostgresLatches;
use crate::store::stock::Stock;
use crate::store::stock::postgres::PostgresStock;

use super::advisory;
use super::not_reached::{ATTEMPT, NotReached, PAUSE};

mod blocking;
pub(crate) mod connection;

pub(crate) use connection::{Connection, StoreError};

/// How long the library may take to connect and to create its tables. Fifty processes may connect at once on a busy machine, so
/// this is longer than the timeout of an ordinary program.
const LIBRARY: Duration = Duration::from_secs(30);
/// The oldest version that the lab's statements work with.
const OLDEST: i32 = 14;

/// The tables of a trial. Lock trials lock `thing` and the tables named after it; the register itself is kept by the lab.
///
/// The check of `stock` applies only from the first constrained decrement on, so that strategies without a constraint can fail.
/// The library creates the table of leases, `shedlock`.
const TABLES: &str = "
CREATE TABLE stock (
    product text PRIMARY KEY,
    units bigint NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    constrained boolean NOT NULL DEFAULT false,
    CHECK (units >= 0 OR NOT constrained)
);
CREATE TABLE request (
    ticket bigserial PRIMARY KEY,
    product text NOT NULL,
    quantity bigint NOT NULL,
    before bigint,
    after bigint
);
CREATE INDEX request_open ON request (product, ticket) WHERE before IS NULL;
CREATE TABLE latch (key text PRIMARY KEY, token text NOT NULL, expires timestamptz);
CREATE TABLE lock_row (name text NOT NULL, owner text NOT NULL);
CREATE UNIQUE INDEX lock_row_name ON lock_row (name);
CREATE TABLE thing (name text PRIMARY KEY);
";

/// Splits an endpoint, `postgres://…#SCHEMA`, into the address of the database and the schema. The parameters that only the lab knows are
/// left out.
pub(crate) fn split(endpoint: &str) -> Option<(&str, &str)> {
    let (url, schema) = endpoint.rsplit_once('#')?;
    Some((advisory::split(url).0, schema))
}

/// Quotes a name for SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the table that represents this name in lock trials.
pub(crate) fn table_of(name: &str) -> String {
    quoted(&format!("thing {name}"))
}

/// Creates the schema and its tables, with an empty stock.
pub(crate) fn prepare(endpoint: &str) -> Result<(), Failure> {
    let mut connection = Connection::open(endpoint)?;
    let schema = quoted(connection.schema());
    let mut statements = format!("CREATE SCHEMA {schema}; {TABLES}");
    for name in [crate::store::FIRST_LOCK, crate::store::SECOND_LOCK] {
        let table = table_of(name);
        statements.push_str(&format!(
            "INSERT INTO thing (name) VALUES ('{name}'); CREATE TABLE {table} ();"
        ));
    }
    statements.push_str(CREATE_GATE);
    connection
        .run(&statements)
        .map_err(StoreError::into_write_failure)?;
    connection::wait_for(LIBRARY, open_library(endpoint.to_owned(), true))?.map(drop)
}

/// Opens the library's locks in the schema of an endpoint, in ShedLock's table.
pub(crate) async fn library(endpoint: &str) -> Result<PostgresTable, Failure> {
    open_library(endpoint.to_owned(), false).await
}

/// Opens the library's advisory locks, if the endpoint asks for them.
pub(crate) async fn advisory_library(endpoint: &str) -> Option<Result<Postgres, Failure>> {
    let (url, _) = endpoint.rsplit_once('#')?;
    let url = advisory::address(url)?;
    let opened = Postgres::builder(&url).connect_timeout(LIBRARY).open();
    Some(opened.await.map_err(Failure::definite))
}

async fn open_library(endpoint: String, create: bool) -> Result<PostgresTable, Failure> {
    let (url, schema) = split(&endpoint).unwrap_or((&endpoint, "public"));
    let opened = PostgresTable::builder(url)
        .table(&format!("{schema}.shedlock"))
        .create_table(create)
        .connect_timeout(LIBRARY)
        .open();
    opened.await.map_err(Failure::definite)
}

/// Drops the schema with its contents.
pub(crate) fn clear(endpoint: &str) -> Result<(), Failure> {
    let mut connection = Connection::open(endpoint)?;
    let schema = quoted(connection.schema());
    let statements = format!("SET lock_timeout = '4s'; DROP SCHEMA IF EXISTS {schema} CASCADE");
    connection
        .run(&statements)
        .map_err(StoreError::into_write_failure)
}

pub(crate) fn stock(endpoint: &str) -> Result<Box<dyn Stock>, Failure> {
    Ok(Box::new(PostgresStock::open(endpoint)?))
}

pub(crate) fn latches(endpoint: &str) -> Result<Box<dyn Latches>, Failure> {
    Ok(Box::new(PostgresLatches::open(endpoint)?))
}

/// Returns whether this can be the address of a database.
pub(crate) fn is_address(url: &str) -> bool {
    connection::config(advisory::split(url).0).is_ok()
}

/// Makes sure that a database answers at `url` and lets the lab create a schema. Retries for up to `timeout` while it cannot
/// be reached.
pub(crate) fn reach(url: &str, timeout: Duration) -> Result<(), NotReached> {
    let started = Instant::now();
    let endpoint = format!("{url}#pg_temp");
    loop {
        let left = timeout.saturating_sub(started.elapsed());
        match Connection::connect_to(&endpoint, left.max(ATTEMPT)) {
            Ok(mut connection) => return introduce(&mut connection),
            Err(error) if !error.nobody_there() => {
                return Err(NotReached::Refuses(error.words()));
            }
            Err(error) if started.elapsed() + PAUSE >= timeout => {
                return Err(NotReached::Silent(error.words()));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn introduce(connection: &mut Connection) -> Result<(), NotReached> {
    const ASK: &str = "SELECT current_setting('server_version_num')::int / 10000,
        has_database_privilege(current_database(), 'CREATE'), pg_is_in_recovery(), current_user::text, current_database()::text";
    let row = connection.ask_one(ASK, &[]);
    let row = row.map_err(|error| NotReached::Refuses(error.words()))?;
    let Some(row) = row else {
        return Err(NotReached::Refuses("it does not answer questions".into()));
    };
    let (version, may_create, is_replica): (i32, bool, bool) = (row.get(0), row.get(1), row.get(2));
    let (user, database): (String, String) = (row.get(3), row.get(4));
    if version < OLDEST {
        let words = format!("Postgres {OLDEST} or later is needed, and this is {version}");
        return Err(NotReached::Refuses(words));
    }
    if is_replica {
        return Err(NotReached::Refuses(
            "it is a replica: nothing can be written there".into(),
        ));
    }
    if !may_create {
        let words = format!("the user {user} may not make a schema in the database {database}");
        return Err(NotReached::Refuses(words));
    }
    Ok(())
}
