//! The SQL statements on the table of records. They are prepared when a connection first needs them, because installations of earlier
//! programs lack this table and must work without it.

use futures_util::future::try_join_all;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Statement};

use super::tables::Tables;

/// Parameter: the quoted name of the table. Returns whether it survives a crash, or NULL if there is none, and whether this user may use it.
const STATE: &str = "
SELECT (SELECT c.relpersistence = 'p' FROM pg_class AS c WHERE c.oid = to_regclass($1::text)),
       has_table_privilege(to_regclass($1), 'SELECT') AND has_table_privilege(to_regclass($1), 'INSERT')
       AND has_table_privilege(to_regclass($1), 'UPDATE')";

/// Parameters: `$1` kind, `$2` name. Returns the server's time in microseconds, not before the moment to which the rest belongs, and the
/// record's version and content, or NULL if there is none.
const READ: &str = "
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, r.version, r.value
FROM (SELECT) AS always LEFT JOIN {record} AS r ON r.kind = $1::text AND r.name = $2::text";

/// Parameters: `$1` kind, `$2` name, `$3` content, `$4` version. Returns a row if there was no record, and notifies those who wait.
const CREATE: &str = "
WITH done AS (
    INSERT INTO {record} (kind, name, value, version) VALUES ($1::text, $2::text, $3::bytea, $4::bytea)
    ON CONFLICT DO NOTHING RETURNING kind, name)
SELECT pg_notify('{channel}', 'record ' || kind || ':' || name)::text FROM done";

/// Parameters: the same, and `$5`, the version to replace. Returns a row if the record had this version.
const REPLACE: &str = "
WITH done AS (
    UPDATE {record} SET value = $3::bytea, version = $4::bytea
    WHERE kind = $1::text AND name = $2::text AND version = $5::bytea RETURNING kind, name)
SELECT pg_notify('{channel}', 'record ' || kind || ':' || name)::text FROM done";

/// Parameters: `$1` kind, `$2` name.
const VERSION: &str = "SELECT version FROM {record} WHERE kind = $1::text AND name = $2::text";

/// Parameter: `$1` kind.
const NAMES: &str = "SELECT name FROM {record} WHERE kind = $1::text";

/// The prepared statements of one connection.
pub(super) struct RecordStatements {
    pub(super) read: Statement,
    pub(super) create: Statement,
    pub(super) replace: Statement,
    pub(super) version: Statement,
    pub(super) names: Statement,
}

impl RecordStatements {
    pub(super) async fn prepare(client: &Client, tables: &Tables) -> Result<Self, Error> {
        let texts = [READ, CREATE, REPLACE, VERSION, NAMES].map(|text| {
            text.replace("{record}", &tables.record())
                .replace("{channel}", &tables.channel())
        });
        let prepared = texts.iter().map(|text| client.prepare_typed(text, NONE));
        let [read, create, replace, version, names] =
            <[Statement; 5]>::try_from(try_join_all(prepared).await?)
                .unwrap_or_else(|_| unreachable!("as many as there are texts"));
        Ok(Self {
            read,
            create,
            replace,
            version,
            names,
        })
    }
}

/// No parameter types, because the statements contain the types themselves.
const NONE: &[Type] = &[];

/// What was found of the table.
pub(super) enum TableState {
    Good,
    Missing,
    /// A crash of the server would empty it.
    Unlogged,
    /// This user may not use it.
    NotForUs,
}

impl TableState {
    pub(super) async fn look(client: &Client, tables: &Tables) -> Result<Self, Error> {
        let table = tables.record();
        let row = client
            .query_typed_one(STATE, &[(&table, Type::TEXT)])
            .await?;
        Ok(match (row.try_get(0)?, row.try_get(1)?) {
            (None::<bool>, _) => Self::Missing,
            (_, Some(false) | None) => Self::NotForUs,
            (Some(false), _) => Self::Unlogged,
            (Some(true), Some(true)) => Self::Good,
        })
    }
}
