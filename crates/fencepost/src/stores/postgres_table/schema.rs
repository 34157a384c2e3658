//! Checks the tables when the store is opened, and creates them if that is wanted.

use std::collections::HashMap;

use futures_util::future::join;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::failure;
use super::tables::Tables;
use crate::error::{Operation, Result};

/// Returns whether the server is writable, where new tables would be created, and where the table `$1` (a quoted name) is, or NULL.
const SERVER: &str = "
SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean, current_schema()::text,
       (SELECT n.nspname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.oid = to_regclass($1))";

/// For the tables `$1` (quoted names), returns their columns, the types, whether an insert must fill a column, whether a column is a key by
/// itself, and whether the table survives a crash.
const COLUMNS: &str = "
SELECT t.name, a.attname::text, format_type(a.atttypid, NULL), a.atttypmod,
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '',
       EXISTS (SELECT 1 FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid
               AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum),
       (SELECT c.relpersistence = 'p' FROM pg_class AS c WHERE c.oid = a.attrelid)
FROM unnest($1) AS t (name) JOIN pg_attribute AS a ON a.attrelid = to_regclass(t.name)
WHERE a.attnum > 0 AND NOT a.attisdropped";

/// For the tables `$1` (quoted names) and permissions `$2`, returns the permissions that this user does not have.
const RIGHTS: &str = "
SELECT name, wanted FROM unnest($1, $2) AS t (name, wanted)
WHERE NOT has_table_privilege(to_regclass(name), wanted)";

/// Finds the tables, creates them if `create` is set, and checks that they can hold locks. Uses few round trips, because the network may be
/// slow.
pub(super) async fn ready(client: &Client, tables: &Tables, create: bool) -> Result<Tables> {
    let server = ask(client, SERVER, &[(&tables.locks(), Type::TEXT)]).await?;
    let server = server
        .first()
        .ok_or_else(|| failure::unexpected(Operation::Open, "no row"))?;
    if server.get(0) {
        return Err(failure::standby());
    }
    if server.get(1) {
        return Err(failure::unusable(
            "transactions here are read-only (default_transaction_read_only); locks must be written",
        ));
    }
    let [here, found]: [Option<String>; 2] = [server.get(2), server.get(3)];
    let schema = found.or(tables.schema().map(str::to_owned)).or(here);
    let schema = schema.ok_or_else(|| {
        failure::unusable("the search path names no schema; give the table as SCHEMA.TABLE")
    })?;
    let tables = tables.within(&schema);
    let mut found = look(client, &tables).await?;
    if let Some((missing, statements)) = missing(&found, &tables) {
        if !create {
            return Err(failure::missing(&missing, &statements));
        }
        make(client, &tables, &statements, PATIENT).await?;
        found = look(client, &tables).await?;
    } else if create && !found.columns.contains_key(&tables.record()) {
        // Locks do not need it. Whoever does gets an error that says what to do.
        let made = make(client, &tables, &tables.create_record(), "500ms").await;
        if let Err(error) = made {
            tracing::debug!(%error, "the table of records was not created");
        }
    }
    check(&found, &tables)?;
    Ok(tables)
}

/// What was found of the tables.
struct FoundTables {
    columns: HashMap<String, HashMap<String, Column>>,
    /// Tables with missing permissions.
    lacking: Vec<(String, String)>,
}

async fn look(client: &Client, tables: &Tables) -> Result<FoundTables> {
    let names = vec![
        tables.locks(),
        tables.fence(),
        tables.line(),
        tables.record(),
    ];
    let (mut on, mut rights) = (Vec::new(), Vec::new());
    for (table, wanted) in wanted_rights(tables) {
        for right in wanted.split(", ") {
            on.push(table.clone());
            rights.push(right);
        }
    }
    let columns: &[(&(dyn ToSql + Sync), Type)] = &[(&names, Type::TEXT_ARRAY)];
    let both: &[(&(dyn ToSql + Sync), Type)] =
        &[(&on, Type::TEXT_ARRAY), (&rights, Type::TEXT_ARRAY)];
    let (rows, lacking) = join(ask(client, COLUMNS, columns), ask(client, RIGHTS, both)).await;
    let mut columns: HashMap<String, HashMap<String, Column>> = HashMap::new();
    for row in rows? {
        let column = Column {
            type_name: row.get(2),
            modifier: row.get(3),
            must_be_filled: row.get(4),
            is_key: row.get(5),
            is_logged: row.get(6),
        };
        let table = columns.entry(row.get(0)).or_default();
        table.insert(row.get(1), column);
    }
    let lacking = lacking?;
    let lacking = lacking.iter().map(|row| (row.get(0), row.get(1))).collect();
    Ok(FoundTables { columns, lacking })
}

fn wanted_rights(tables: &Tables) -> [(String, &'static str); 3] {
    [
        (tables.locks(), "SELECT, INSERT, UPDATE"),
        (tables.fence(), "SELECT, INSERT, UPDATE"),
        (tables.line(), "SELECT, INSERT, UPDATE, DELETE"),
    ]
}

/// Returns the missing tables and the statements that create them, or `None` if there is all that locks need. Installations of earlier
/// programs have no table of records.
fn missing(found: &FoundTables, tables: &Tables) -> Option<(Vec<String>, String)> {
    let all = [
        (tables.locks(), tables.create_locks()),
        (tables.fence(), tables.create_fence()),
        (tables.line(), tables.create_line()),
        (tables.record(), tables.create_record()),
    ];
    let missing = all
        .into_iter()
        .filter(|(table, _)| !found.columns.contains_key(table));
    let (missing, statements): (Vec<String>, Vec<String>) = missing.unzip();
    let is_needed = |table: &String| *table != tables.record();
    missing
        .iter()
        .any(is_needed)
        .then(|| (missing, statements.join(" ")))
}

/// How long a program waits for its turn to create the tables that it needs.
const PATIENT: &str = "5s";

/// Creates the tables, in one program at a time: two programs that create a table at the same time would make each other fail, although
/// both use IF NOT EXISTS. Waits this long for its turn.
async fn make(client: &Client, tables: &Tables, statements: &str, turn_within: &str) -> Result<()> {
    let turn = format!(
        "SELECT pg_advisory_xact_lock(hashtext('{}'))",
        tables.channel()
    );
    // The server does not notice that a waiting client has given up, so it must end both waits itself: the one for our turn, and the one for
    // somebody's open transaction, for which the programs behind us would wait, too.
    // Statements that are sent together are one transaction, which leaves nothing behind if it fails.
    let all = format!(
        "SET LOCAL lock_timeout = '{turn_within}'; {turn}; SET LOCAL lock_timeout = '500ms'; {statements}"
    );
    let made = client.batch_execute(&all).await;
    made.map_err(|cause| failure::not_created(statements, cause))
}

fn check(found: &FoundTables, tables: &Tables) -> Result<()> {
    let table = |name: String| Checked {
        columns: found.columns.get(&name),
        table: name,
    };
    let locks = table(tables.locks());
    locks.require_text("name", 64)?;
    locks.require_time("lock_until")?;
    locks.require_time("locked_at")?;
    locks.require_text("locked_by", 255)?;
    locks.needs_no_more_than(&["name", "lock_until", "locked_at", "locked_by"])?;
    locks.require_key("name")?;
    locks.outlives_a_crash()?;
    let fence = table(tables.fence());
    fence.has("name, lock, epoch, owner, since")?;
    fence.outlives_a_crash()?;
    table(tables.line()).has("name, owner, ticket, lock, label, joined")?;
    let Some((table, right)) = found.lacking.first() else {
        return Ok(());
    };
    let all = wanted_rights(tables)
        .into_iter()
        .find(|(name, _)| name == table);
    let all = all.map_or("", |(_, rights)| rights);
    Err(failure::unusable(format!(
        "this user lacks the right to {right} on {table}; let its owner run: GRANT {all} ON {table} TO …"
    )))
}

struct Column {
    type_name: String,
    modifier: i32,
    must_be_filled: bool,
    is_key: bool,
    /// Whether the table of this column is logged.
    is_logged: bool,
}

/// A table as it was found.
struct Checked<'a> {
    table: String,
    columns: Option<&'a HashMap<String, Column>>,
}

impl Checked<'_> {
    fn column(&self, name: &str) -> Result<&Column> {
        let column = self.columns.and_then(|columns| columns.get(name));
        column.ok_or_else(|| {
            failure::unusable(format!(
                "the table {} has no column {name}: it is not a table of locks as ShedLock makes them; give another name",
                self.table
            ))
        })
    }

    fn has(&self, columns: &str) -> Result<()> {
        columns
            .split(", ")
            .try_for_each(|name| self.column(name).map(|_| ()))
    }

    /// Checks the length of a text column. The type modifier is the length plus four.
    fn require_text(&self, name: &str, length: i32) -> Result<()> {
        let column = self.column(name)?;
        let is_text = matches!(column.type_name.as_str(), "character varying" | "text");
        if is_text && (column.modifier < 0 || column.modifier - 4 >= length) {
            return Ok(());
        }
        Err(self.other_type(name, &format!("varchar({length})")))
    }

    /// Checks that a time column has at least milliseconds. With a time zone, the meaning of a row would depend on the writer's time zone.
    fn require_time(&self, name: &str) -> Result<()> {
        let column = self.column(name)?;
        let is_time = column.type_name == "timestamp without time zone";
        if is_time && (column.modifier < 0 || column.modifier >= 3) {
            return Ok(());
        }
        Err(self.other_type(name, "timestamp(3) (in UTC, without time zone)"))
    }

    fn other_type(&self, name: &str, wanted: &str) -> crate::error::Error {
        let found = self.column(name).map_or("", |column| &column.type_name);
        failure::unusable(format!(
            "the column {name} of {} is a {found} and must be {wanted}, in every program that uses it: alter it, or give another table",
            self.table
        ))
    }

    fn needs_no_more_than(&self, known: &[&str]) -> Result<()> {
        let mut others = self.columns.into_iter().flatten();
        match others.find(|(name, column)| column.must_be_filled && !known.contains(&name.as_str()))
        {
            None => Ok(()),
            Some((name, _)) => Err(failure::unusable(format!(
                "the table {} has a further column {name} without a default: give it one, or give another table",
                self.table
            ))),
        }
    }

    /// Checks that the table is logged. Postgres empties unlogged tables after a crash, and a lock could then be held twice.
    fn outlives_a_crash(&self) -> Result<()> {
        if self.column("name")?.is_logged {
            Ok(())
        } else {
            Err(failure::unusable(format!(
                "the table {} is unlogged or temporary: a crash of the server empties it, and forgets locks that are held; run: ALTER TABLE {} SET LOGGED",
                self.table, self.table
            )))
        }
    }

    fn require_key(&self, name: &str) -> Result<()> {
        if self.column(name)?.is_key {
            Ok(())
        } else {
            Err(failure::unusable(format!(
                "{name} is not the key of {}: two rows could stand for one lock; run: ALTER TABLE {} ADD PRIMARY KEY ({name})",
                self.table, self.table
            )))
        }
    }
}

/// Runs a statement in one round trip, without leaving it prepared.
async fn ask(
    client: &Client,
    statement: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
) -> Result<Vec<Row>> {
    let rows = client.query_typed(statement, parameters).await;
    rows.map_err(|cause| failure::of_statement(Operation::Open, cause))
}
