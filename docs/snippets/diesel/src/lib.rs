//! A fence admitted inside a transaction of Diesel (SQLite): the tested source of `docs/fenced-resources.md`.
//!
//! With a guard of fencepost in hand, `fence` is `guard.fence().as_i64()` and `owner` is `guard.owner().to_string()`.

use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Text};

diesel::table! {
    stock (id) {
        id -> Integer,
        pieces -> BigInt,
    }
}

/// Why a fenced operation did not happen.
#[derive(Debug)]
pub enum Failure {
    /// A later holder has been here already, or another one with the same fence: this lock is lost.
    Refused,
    /// The database failed.
    Sql(diesel::result::Error),
}

impl From<diesel::result::Error> for Failure {
    fn from(error: diesel::result::Error) -> Self {
        Self::Sql(error)
    }
}

/// Creates the gate (once, with your other tables).
pub fn create_gate(db: &mut SqliteConnection) -> Result<(), Failure> {
    let gate = "CREATE TABLE IF NOT EXISTS fencepost_gate (
                    resource TEXT PRIMARY KEY, fence BIGINT NOT NULL, owner TEXT NOT NULL)";
    sql_query(gate).execute(db)?;
    Ok(())
}

/// Admits a fence to `resource`, or refuses it. The first statement of every fenced transaction, reads included.
pub fn admit(
    db: &mut SqliteConnection,
    resource: &str,
    fence: i64,
    owner: &str,
) -> Result<(), Failure> {
    let rows = sql_query(
        "INSERT INTO fencepost_gate (resource, fence, owner) VALUES ($1, $2, $3)
         ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence, owner = excluded.owner
         WHERE excluded.fence > fencepost_gate.fence
            OR (excluded.fence = fencepost_gate.fence AND excluded.owner = fencepost_gate.owner)",
    )
    .bind::<Text, _>(resource)
    .bind::<BigInt, _>(fence)
    .bind::<Text, _>(owner)
    .execute(db)?;
    match rows {
        0 => Err(Failure::Refused),
        _ => Ok(()),
    }
}

/// A fenced write. On `Err` Diesel rolls the transaction back.
pub fn write_stock(
    db: &mut SqliteConnection,
    fence: i64,
    owner: &str,
    pieces: i64,
) -> Result<(), Failure> {
    db.immediate_transaction(|tx| {
        admit(tx, "stock", fence, owner)?;
        diesel::update(stock::table)
            .set(stock::pieces.eq(pieces))
            .execute(tx)?;
        Ok(())
    })
}

/// A fenced read. It commits too: the gate has to remember that this fence was here.
pub fn read_stock(db: &mut SqliteConnection, fence: i64, owner: &str) -> Result<i64, Failure> {
    db.immediate_transaction(|tx| {
        admit(tx, "stock", fence, owner)?;
        Ok(stock::table.select(stock::pieces).first(tx)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn shop_with_10_pieces() -> (SqliteConnection, TempDir) {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("shop.db");
        let mut db = SqliteConnection::establish(file.to_str().unwrap()).unwrap();
        create_gate(&mut db).unwrap();
        for statement in [
            "CREATE TABLE stock (id INTEGER PRIMARY KEY, pieces BIGINT NOT NULL)",
            "INSERT INTO stock VALUES (1, 10)",
        ] {
            sql_query(statement).execute(&mut db).unwrap();
        }
        (db, folder)
    }

    fn pieces(db: &mut SqliteConnection) -> i64 {
        stock::table.select(stock::pieces).first(db).unwrap()
    }

    #[test]
    fn the_same_holder_and_later_ones_are_admitted() {
        let (mut db, _folder) = shop_with_10_pieces();
        write_stock(&mut db, 7, "ann", 9).unwrap();
        assert_eq!(read_stock(&mut db, 7, "ann").unwrap(), 9);
        write_stock(&mut db, 8, "bob", 8).unwrap();
        assert_eq!(read_stock(&mut db, 9, "eve").unwrap(), 8);
    }

    #[test]
    fn an_older_write_is_refused_and_rolled_back() {
        let (mut db, _folder) = shop_with_10_pieces();
        write_stock(&mut db, 8, "bob", 8).unwrap();
        let refused = write_stock(&mut db, 7, "ann", 3);
        assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
        let refused = write_stock(&mut db, 8, "eve", 3);
        assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");

        // What the transaction did before it was refused is undone as well.
        let refused = db.immediate_transaction(|tx| {
            let early = diesel::update(stock::table).set(stock::pieces.eq(3));
            early.execute(tx)?;
            admit(tx, "stock", 7, "ann")
        });
        assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
        assert_eq!(pieces(&mut db), 8);
    }

    #[test]
    fn an_older_read_is_refused_once_a_later_holder_has_only_read() {
        let (mut db, _folder) = shop_with_10_pieces();
        assert_eq!(read_stock(&mut db, 8, "bob").unwrap(), 10);
        let refused = read_stock(&mut db, 7, "ann");
        assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
        let refused = write_stock(&mut db, 7, "ann", 3);
        assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
        assert_eq!(pieces(&mut db), 10);
    }
}
