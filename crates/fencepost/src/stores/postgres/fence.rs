//! The source of fences: two sequences of the database, which [`pg_tx`](crate::pg_tx) uses as well.
//!
//! A fence is the sum of `fencepost_fence`, which counts every draw, and `fencepost_lift`. A *lift* raises the second one so that the next
//! fence is past the server's time, in units of 7.8125 µs since 2024. Every session of the server lifts before its first draw. Fences
//! therefore grow even after a failover to a standby that has not received the last draws, because nobody draws faster than the units pass.
//!
//! Draws and lifts need not exclude each other. Both numbers only ever grow, and a client that draws has the lock: it finds both at least
//! as high as the last holder did. Neither is read from a snapshot, which might be older than the grant. Two lifts exclude each other with
//! a lock of the transaction, which ends with the statement. See `docs/decisions/0009-the-fence-of-postgres.md` and its model,
//! `crates/models/tests/pg_fence_model`.
//!
//! The session at the server records that it has lifted, in a setting of our own, because behind a pooler a client may get another session.

use tokio_postgres::SimpleQueryRow;
use tokio_postgres::error::SqlState;

use super::connect::Connection;
use super::rows::{number, rows, text};
use super::{STORE, failure};
use crate::error::{Error, ErrorKind, Operation, Result};

/// Creates both sequences. The schema is fixed, because advisory locks belong to the database and not to a schema.
macro_rules! create_sequences {
    () => {
        "\
CREATE SEQUENCE IF NOT EXISTS public.fencepost_fence AS bigint MINVALUE 1 MAXVALUE 140737488355327 CACHE 1 NO CYCLE;
CREATE SEQUENCE IF NOT EXISTS public.fencepost_lift AS bigint MINVALUE 0 MAXVALUE 140737488355327 START 0 CACHE 1 NO CYCLE"
    };
}
pub(crate) use create_sequences;

const CREATE: &str = create_sequences!();

/// Returns PL/pgSQL statements that create the missing sequences. They check first whether a sequence is missing, because IF NOT EXISTS
/// requires the permission to create before it looks.
pub(crate) fn make_missing() -> String {
    let sequences = CREATE.split(';').map(|create| {
        let name = create.split_whitespace().nth(5).unwrap_or_default();
        format!("IF to_regclass('{name}') IS NULL THEN {create}; END IF; ")
    });
    sequences.collect()
}

/// Returns a statement that executes PL/pgSQL statements which create something, in one program at a time: two programs that create at the
/// same time would make each other fail, although each checks first. It is one statement, which leaves no transaction open if it fails or
/// if nobody waits for its answer.
///
/// A lock with two numbers never conflicts with the lock of a name. The first number spells `fenc`.
pub(crate) fn in_turn(statements: &str) -> String {
    format!("DO $make$ BEGIN PERFORM pg_advisory_xact_lock(1717923427, 1); {statements} END $make$")
}

/// Makes the surrounding transaction not wait for the disk and the standbys. The grant waits for them, and then everything written before
/// is there as well.
const WITHOUT_WAITING: &str = "SELECT set_config('synchronous_commit', 'off', true)";

/// Makes lifts happen one after the other.
pub(crate) const LIFT_IN_TURN: &str = "SELECT pg_advisory_xact_lock(1717923427, 2)";

/// The condition that the session has lifted.
const LIFTED: &str = "current_setting('fencepost.lifted', true) = 'yes'";
/// Records a lift again after a rollback, which undoes the setting but not the sequence.
pub(crate) const NOTE_LIFTED: &str = "SELECT set_config('fencepost.lifted', 'yes', false)";

/// Draws the next fence, or NULL in a session that has not lifted.
pub(crate) const DRAW: &str = "CASE WHEN current_setting('fencepost.lifted', true) = 'yes' THEN \
nextval('public.fencepost_fence') + pg_sequence_last_value('public.fencepost_lift') END";

/// Fences are never lifted to this value or beyond, neither by time (which reaches it in 2041) nor by a stored epoch, because it is close
/// to the end of the range.
pub(crate) const LIFT_END: i64 = 1 << 46;

/// The answer of a session that must not grant; see [`Source::may_draw_sql`].
pub(super) const MAY_NOT: &str = "may not draw";

/// Finds sessions of this database that hold or wait for locks and draw their fences from transaction ids. They are recognised by
/// `application_name`: programs that draw from the sequences have a `/` there. The store of leases in a table uses the same name, and takes
/// an advisory lock while it creates its tables, but its statements have no comment of ours.
const OTHER_KIND: &str = "\
SELECT a.pid FROM pg_stat_activity AS a WHERE a.datname = current_database() AND position('/' in a.application_name) = 0 \
AND (a.application_name ~ ' [0-9]+ [0-9a-f]{32}$' OR (a.application_name = 'fencepost' \
AND (a.query LIKE '/*fencepost %' OR a.query = '<insufficient privilege>') AND EXISTS \
(SELECT 1 FROM pg_locks AS l WHERE l.pid = a.pid AND l.locktype = 'advisory' AND l.objsubid = 1))) LIMIT 1";

/// Finds a table of locks in transactions of an older version, in any schema. Programs that use it take the same advisory locks, but draw
/// their fences from the table.
const OLDER_TABLE: &str = "\
SELECT quote_ident(n.nspname) || '.fencepost_tx' FROM pg_class AS t JOIN pg_namespace AS n ON n.oid = t.relnamespace \
JOIN pg_attribute AS e ON e.attrelid = t.oid WHERE t.relname = 'fencepost_tx' AND t.relkind IN ('r', 'p') \
AND e.attname = 'epoch' AND NOT e.attisdropped LIMIT 1";

/// The source of a store's fences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// The sequences, which are created if they do not exist and `create` is set.
    Sequences { create: bool },
    /// The number of the granting transaction. Fences repeat after a failover to a standby that lags behind.
    TransactionIds,
}

impl Source {
    /// Returns the end of the program's part of `application_name`.
    pub(super) fn mark(self) -> &'static str {
        match self {
            Self::Sequences { .. } => "/2",
            Self::TransactionIds => "",
        }
    }

    /// Returns an SQL expression for whether the session may grant: it has lifted, or nobody here draws from sequences.
    pub(super) fn may_draw_sql(self) -> &'static str {
        match self {
            Self::Sequences { .. } => LIFTED,
            Self::TransactionIds => "to_regclass('public.fencepost_fence') is null",
        }
    }

    pub(super) fn draw(self) -> &'static str {
        match self {
            Self::Sequences { .. } => DRAW,
            Self::TransactionIds => "pg_current_xact_id()",
        }
    }

    /// Returns what a session has to send before its first grant, if anything.
    pub(super) fn lift(self) -> Option<String> {
        let Self::Sequences { .. } = self else {
            return None;
        };
        let own = lift("0");
        Some(format!("{WITHOUT_WAITING}; {LIFT_IN_TURN}; {own}"))
    }

    /// Makes sure that fences can be drawn over this connection.
    pub(super) async fn ready(self, operation: Operation, connection: &Connection) -> Result<()> {
        let mut state = State::of(operation, connection).await?;
        if let Self::Sequences { create: true } = self
            && state.found < 2
            && state.is_alone()
        {
            let make = format!("{WITHOUT_WAITING}; {}", in_turn(&make_missing()));
            let made = rows(connection, operation, &make).await;
            made.map_err(|error| match failure::code(&error).map(SqlState::code) {
                // The user may not create sequences, or the schema does not exist.
                Some("42501" | "3F000") => missing(operation).with_source(error),
                _ => error,
            })?;
            state = State::of(operation, connection).await?;
        }
        self.judge(operation, &state)
    }

    fn judge(self, operation: Operation, state: &State) -> Result<()> {
        let unusable = |message| Error::new(ErrorKind::Unusable, STORE, operation, message);
        match self {
            Self::TransactionIds if state.found > 0 => Err(met_sequences(operation)),
            Self::TransactionIds => Ok(()),
            Self::Sequences { .. } => match state {
                State {
                    other_kind: Some(pid),
                    ..
                } => Err(other_kind(STORE, operation, *pid)),
                State {
                    older_table: Some(table),
                    ..
                } => Err(older_table(STORE, operation, table)),
                State { found: 0 | 1, .. } => Err(missing(operation)),
                State {
                    is_allowed: false, ..
                } => {
                    let user = &state.user;
                    Err(unusable(format!(
                        "the user may not draw fences; let the owner of the sequences run: GRANT USAGE, SELECT, UPDATE ON SEQUENCE public.fencepost_fence, public.fencepost_lift TO {user}"
                    )))
                }
                State {
                    is_sound: false, ..
                } => Err(unusable(format!(
                    "public.fencepost_fence or public.fencepost_lift has unsafe settings: it must be logged, with increment 1, cache 1 and no cycle; otherwise fences could decrease. Expected: {CREATE}"
                ))),
                _ => Ok(()),
            },
        }
    }
}

/// The state of the sequences.
struct State {
    found: u32,
    is_allowed: bool,
    is_sound: bool,
    /// The process of a session that draws in the other way.
    other_kind: Option<i32>,
    /// See [`OLDER_TABLE`].
    older_table: Option<String>,
    user: String,
}

impl State {
    /// Returns whether no program that draws in another way was found.
    fn is_alone(&self) -> bool {
        self.other_kind.is_none() && self.older_table.is_none()
    }

    async fn of(operation: Operation, connection: &Connection) -> Result<Self> {
        let look = format!(
            "SELECT count(*), bool_and(has_schema_privilege(n.oid, 'USAGE') AND has_sequence_privilege(c.oid, 'USAGE') \
             AND has_sequence_privilege(c.oid, 'SELECT') AND has_sequence_privilege(c.oid, 'UPDATE')), \
             bool_and(c.relpersistence = 'p' AND s.seqincrement = 1 AND s.seqcache = 1 AND NOT s.seqcycle), \
             ({OTHER_KIND}), quote_ident(current_user), ({OLDER_TABLE}) \
             FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_sequence AS s ON s.seqrelid = c.oid \
             WHERE n.nspname = 'public' AND c.relname IN ('fencepost_fence', 'fencepost_lift')"
        );
        let answer = rows(connection, operation, &look).await?;
        let row = answer.first();
        let row = row.ok_or_else(|| Error::unexpected_answer(STORE, operation, "no row"))?;
        Ok(Self {
            found: number(row, 0).unwrap_or(0),
            is_allowed: text(row, 1) == "t",
            is_sound: text(row, 2) == "t",
            other_kind: number(row, 3),
            user: text(row, 4).to_owned(),
            older_table: row.get(5).map(str::to_owned),
        })
    }
}

/// Returns a statement that lifts past the time, and to `least` if that is larger, and records it. Its first column is the session that
/// draws in the other way, and its second column the table of an older version, if there is one; the statement does nothing then.
pub(crate) fn lift(least: &str) -> String {
    format!(
        "WITH other AS MATERIALIZED (SELECT ({OTHER_KIND}) AS pid, ({OLDER_TABLE}) AS older), \
         age AS (SELECT floor((extract(epoch FROM clock_timestamp()) - 1704067200) * 128000)::bigint AS units) \
         SELECT pid, older, CASE WHEN pid IS NULL AND older IS NULL THEN concat(\
         setval('public.fencepost_lift', greatest(pg_sequence_last_value('public.fencepost_lift'), \
         greatest(CASE WHEN units BETWEEN 0 AND {LIFT_END} THEN units ELSE 0 END, {least}) \
         - coalesce(pg_sequence_last_value('public.fencepost_fence'), 0), 0)), set_config('fencepost.lifted', 'yes', false)) END FROM age, other"
    )
}

/// Checks the row that a lift returned, which may be missing. Returns an error if the lift did not succeed.
pub(crate) fn lifted(store: &'static str, row: Option<&SimpleQueryRow>) -> Result<()> {
    let operation = Operation::Acquire;
    let row = row.ok_or_else(|| Error::unexpected_answer(store, operation, "no row of a lift"))?;
    match (number(row, 0), row.get(1)) {
        (Some(pid), _) => Err(other_kind(store, operation, pid)),
        (None, Some(table)) => Err(older_table(store, operation, table)),
        (None, None) => Ok(()),
    }
}

/// Returns the error for a program from before the sequences, or one that was configured to use transaction ids.
fn other_kind(store: &'static str, operation: Operation, pid: i32) -> Error {
    let message = format!(
        "process {pid} of the server takes locks in this database for a program that draws fences from transaction ids (an older version, or fence=transaction-id); those cannot be compared with the fences of this one: stop that program first"
    );
    Error::new(ErrorKind::Unusable, store, operation, message)
}

/// Returns the error for a table that programs of an older version use, or could use, to lock in transactions.
fn older_table(store: &'static str, operation: Operation, table: &str) -> Error {
    let message = format!(
        "the table {table} is one of an older version, whose programs take the same locks under fences that cannot be compared with those of this one: \
         stop them, and run PgTxLock::create_table, or: ALTER TABLE {table} RENAME COLUMN epoch TO fence"
    );
    Error::new(ErrorKind::Unusable, store, operation, message)
}

/// Returns the error for a store that uses transaction ids in a database that has the sequences.
pub(super) fn met_sequences(operation: Operation) -> Error {
    let message = "fences are drawn from the sequence public.fencepost_fence here, and this store takes transaction ids, which cannot be compared with them: leave out fence=transaction-id";
    Error::new(ErrorKind::Unusable, STORE, operation, message)
}

fn missing(operation: Operation) -> Error {
    let message = format!(
        "there is no sequence to draw fences from; let somebody with the right to create in the schema public run: {CREATE}; GRANT USAGE, SELECT, UPDATE ON SEQUENCE public.fencepost_fence, public.fencepost_lift TO the user of this program"
    );
    Error::new(ErrorKind::Unusable, STORE, operation, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::Fence;

    #[test]
    fn the_largest_number_is_the_last_epoch() {
        let most = format!("MAXVALUE {}", Fence::EPOCH_END - 1);
        assert_eq!(CREATE.matches(&most).count(), 2);
        assert!(LIFT_END.cast_unsigned() < Fence::EPOCH_END);
    }

    #[test]
    fn each_sequence_is_made_if_it_is_missing() {
        let make = make_missing();
        for name in ["public.fencepost_fence", "public.fencepost_lift"] {
            let look = format!("IF to_regclass('{name}') IS NULL THEN");
            assert_eq!(make.matches(&look).count(), 1, "{make}");
        }
    }
}
