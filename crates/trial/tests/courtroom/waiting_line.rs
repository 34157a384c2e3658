//! The waiting line of the lock in a file.

use std::time::Duration;

use rusqlite::{Connection, Transaction, params};

use crate::flaw::Flaw;

/// How long a waiter that does not ask again keeps its place in line.
const PLACE: Duration = Duration::from_millis(200);

/// Takes or keeps a place in line. Returns whether it is the first.
pub(crate) fn is_first(
    transaction: &Transaction<'_>,
    key: &str,
    token: &str,
    now_ns: i64,
    (flaw, is_fair): (Option<Flaw>, bool),
) -> bool {
    // Whoever stands in line clears what is over.
    let sql = "DELETE FROM latch WHERE expires_ns <= ?1";
    transaction.execute(sql, [now_ns]).unwrap();
    if flaw != Some(Flaw::LineKeepsDead) {
        let sql = "DELETE FROM courtroom_line WHERE until_ns < ?1";
        transaction.execute(sql, [now_ns]).unwrap();
    }
    let sql = "INSERT INTO courtroom_line (key, token, until_ns) VALUES (?1, ?2, ?3)
        ON CONFLICT (token) DO UPDATE SET until_ns = excluded.until_ns";
    let place = match flaw {
        // On a busy machine too.
        Some(Flaw::TakesAfterGivingUp) => 10 * PLACE,
        _ if is_fair => 10 * PLACE,
        _ => PLACE,
    };
    let until_ns = now_ns + i64::try_from(place.as_nanos()).unwrap();
    transaction
        .execute(sql, params![key, token, until_ns])
        .unwrap();
    let sql = match flaw {
        Some(Flaw::LineIsReversed) => {
            "SELECT token FROM courtroom_line WHERE key = ?1 ORDER BY n DESC LIMIT 1"
        }
        _ => "SELECT token FROM courtroom_line WHERE key = ?1 ORDER BY n LIMIT 1",
    };
    let first: String = transaction.query_row(sql, [key], |row| row.get(0)).unwrap();
    first == token
}

pub(crate) fn leave_line(connection: &Connection, token: &str) {
    let sql = "DELETE FROM courtroom_line WHERE token = ?1";
    connection.execute(sql, [token]).unwrap();
}
