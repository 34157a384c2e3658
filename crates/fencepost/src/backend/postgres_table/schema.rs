//! Whether the tables are as they must be, and making them when asked to. Done once, when the store is opened.

use std::collections::HashMap;

use tokio_postgres::{Client, Row};

use super::failure;
use super::tables::Tables;
use crate::error::{Operation, Result};

/// Where a table is; `$1` quoted name. Nothing: there is none.
const FIND: &str = "
SELECT n.nspname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass($1::text)";

/// Whether we could write at all, and where new tables would go.
const SERVER: &str = "
SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::boolean, current_schema()::text";

/// `$1` quoted name: columns, their types, whether an insert must fill them, and whether each is a key by itself.
const COLUMNS: &str = "
SELECT a.attname::text, format_type(a.atttypid, NULL), a.atttypmod,
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '',
       EXISTS (SELECT 1 FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid
               AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)
FROM pg_attribute AS a WHERE a.attrelid = to_regclass($1::text) AND a.attnum > 0 AND NOT a.attisdropped";

const RIGHT: &str = "SELECT has_table_privilege(to_regclass($1::text), $2::text)";

/// Finds the tables, makes them when `create`, and checks that they can hold locks.
pub(super) async fn ready(client: &Client, tables: &Tables, create: bool) -> Result<Tables> {
    let server = one(client, SERVER).await?;
    if server.get(0) {
        return Err(failure::unusable(
            "this is a standby, which can only be read; locks need the primary",
        ));
    }
    if server.get(1) {
        return Err(failure::unusable(
            "transactions here are read-only (default_transaction_read_only); locks must be written",
        ));
    }
    let found = find(client, &tables.locks()).await?;
    let here: Option<String> = server.get(2);
    let schema = found.or(tables.schema().map(str::to_owned)).or(here);
    let schema = schema.ok_or_else(|| {
        failure::unusable("the search path names no schema; give the table as SCHEMA.TABLE")
    })?;
    let tables = tables.within(&schema);
    make(client, &tables, create).await?;
    check(client, &tables).await?;
    Ok(tables)
}

async fn make(client: &Client, tables: &Tables, create: bool) -> Result<()> {
    let all = [
        (tables.locks(), tables.create_locks()),
        (tables.fence(), tables.create_fence()),
        (tables.line(), tables.create_line()),
    ];
    let (mut missing, mut statements) = (Vec::new(), Vec::new());
    for (table, statement) in all {
        if find(client, &table).await?.is_none() {
            missing.push(table);
            statements.push(statement);
        }
    }
    let statements = statements.join(" ");
    match (missing.is_empty(), create) {
        (true, _) => Ok(()),
        (false, false) => Err(failure::missing(&missing, &statements)),
        // Two who make a table at the same time would fail each other, although each says IF NOT EXISTS.
        (false, true) => client
            .batch_execute(&format!(
                "BEGIN; SELECT pg_advisory_xact_lock(hashtext('{}')); {statements} COMMIT",
                tables.channel()
            ))
            .await
            .map_err(|cause| failure::not_created(&statements, cause)),
    }
}

async fn check(client: &Client, tables: &Tables) -> Result<()> {
    let locks = Checked::look(client, tables.locks()).await?;
    locks.has_text("name", 64)?;
    locks.has_time("lock_until")?;
    locks.has_time("locked_at")?;
    locks.has_text("locked_by", 255)?;
    locks.needs_no_more_than(&["name", "lock_until", "locked_at", "locked_by"])?;
    locks.has_key("name")?;
    let fence = Checked::look(client, tables.fence()).await?;
    fence.has("name, lock, epoch, owner, since")?;
    let line = Checked::look(client, tables.line()).await?;
    line.has("name, owner, ticket, lock, label, joined")?;
    for (table, rights) in [
        (tables.locks(), "SELECT, INSERT, UPDATE"),
        (tables.fence(), "SELECT, INSERT, UPDATE"),
        (tables.line(), "SELECT, INSERT, UPDATE, DELETE"),
    ] {
        has_rights(client, &table, rights).await?;
    }
    Ok(())
}

async fn has_rights(client: &Client, table: &str, rights: &str) -> Result<()> {
    for right in rights.split(", ") {
        let answer = client.query_one(RIGHT, &[&table, &right]).await;
        let answer = answer.map_err(|cause| failure::of_statement(Operation::Open, cause))?;
        if answer.get::<_, Option<bool>>(0) != Some(true) {
            return Err(failure::unusable(format!(
                "this user has not the right to {right} on {table}; let its owner run: GRANT {rights} ON {table} TO …"
            )));
        }
    }
    Ok(())
}

struct Column {
    type_name: String,
    modifier: i32,
    must_be_filled: bool,
    is_key: bool,
}

/// A table, as it was found.
struct Checked {
    table: String,
    columns: HashMap<String, Column>,
}

impl Checked {
    async fn look(client: &Client, table: String) -> Result<Self> {
        let rows = client.query(COLUMNS, &[&table]).await;
        let rows = rows.map_err(|cause| failure::of_statement(Operation::Open, cause))?;
        let column = |row: &Row| Column {
            type_name: row.get(1),
            modifier: row.get(2),
            must_be_filled: row.get(3),
            is_key: row.get(4),
        };
        let columns = rows.iter().map(|row| (row.get(0), column(row))).collect();
        Ok(Self { table, columns })
    }

    fn column(&self, name: &str) -> Result<&Column> {
        self.columns.get(name).ok_or_else(|| {
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

    /// The modifier is the length and four.
    fn has_text(&self, name: &str, length: i32) -> Result<()> {
        let column = self.column(name)?;
        let is_text = matches!(column.type_name.as_str(), "character varying" | "text");
        if is_text && (column.modifier < 0 || column.modifier - 4 >= length) {
            return Ok(());
        }
        Err(self.other_type(name, &format!("varchar({length})")))
    }

    /// Milliseconds at least. With a time zone, what a row means would depend on the time zone of whoever wrote it.
    fn has_time(&self, name: &str) -> Result<()> {
        let column = self.column(name)?;
        let is_time = column.type_name == "timestamp without time zone";
        if is_time && (column.modifier < 0 || column.modifier >= 3) {
            return Ok(());
        }
        Err(self.other_type(name, "timestamp(3) (in UTC, without time zone)"))
    }

    fn other_type(&self, name: &str, wanted: &str) -> crate::error::Error {
        let found = self
            .columns
            .get(name)
            .map_or("", |column| &column.type_name);
        failure::unusable(format!(
            "the column {name} of {} is a {found} and must be {wanted}, in every program that uses it: alter it, or give another table",
            self.table
        ))
    }

    fn needs_no_more_than(&self, known: &[&str]) -> Result<()> {
        let mut others = self.columns.iter();
        match others.find(|(name, column)| column.must_be_filled && !known.contains(&name.as_str()))
        {
            None => Ok(()),
            Some((name, _)) => Err(failure::unusable(format!(
                "the table {} has a further column {name} without a default: give it one, or give another table",
                self.table
            ))),
        }
    }

    fn has_key(&self, name: &str) -> Result<()> {
        match self.column(name)?.is_key {
            true => Ok(()),
            false => Err(failure::unusable(format!(
                "{name} is not the key of {}: two rows could stand for one lock; run: ALTER TABLE {} ADD PRIMARY KEY ({name})",
                self.table, self.table
            ))),
        }
    }
}

async fn one(client: &Client, statement: &str) -> Result<Row> {
    let row = client.query_one(statement, &[]).await;
    row.map_err(|cause| failure::of_statement(Operation::Open, cause))
}

async fn find(client: &Client, table: &str) -> Result<Option<String>> {
    let row = client.query_opt(FIND, &[&table]).await;
    let row = row.map_err(|cause| failure::of_statement(Operation::Open, cause))?;
    Ok(row.map(|row| row.get(0)))
}
