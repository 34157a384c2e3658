//! A fence admitted inside a transaction of sqlx (SQLite): the tested source of `docs/fenced-resources.md`.
//!
//! With a guard of fencepost in hand, `fence` is `guard.fence().as_i64()` and `owner` is `guard.owner().to_string()`.

use sqlx::{Sqlite, SqlitePool, Transaction};

/// Why a fenced operation did not happen.
#[derive(Debug)]
pub enum Failure {
    /// A later holder has been here already, or another one with the same fence: this lock is lost.
    Refused,
    /// The database failed.
    Sql(sqlx::Error),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

/// Creates the gate (once, with your other tables).
pub async fn create_gate(pool: &SqlitePool) -> Result<(), Failure> {
    let gate = "CREATE TABLE IF NOT EXISTS fencepost_gate (
                    resource TEXT PRIMARY KEY, fence BIGINT NOT NULL, owner TEXT NOT NULL)";
    sqlx::query(gate).execute(pool).await?;
    Ok(())
}

/// Admits a fence to `resource`, or refuses it. The first statement of every fenced transaction, reads included.
pub async fn admit(
    tx: &mut Transaction<'_, Sqlite>,
    resource: &str,
    fence: i64,
    owner: &str,
) -> Result<(), Failure> {
    let admitted = sqlx::query(
        "INSERT INTO fencepost_gate (resource, fence, owner) VALUES ($1, $2, $3)
         ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence, owner = excluded.owner
         WHERE excluded.fence > fencepost_gate.fence
            OR (excluded.fence = fencepost_gate.fence AND excluded.owner = fencepost_gate.owner)",
    )
    .bind(resource)
    .bind(fence)
    .bind(owner)
    .execute(&mut **tx)
    .await?;
    match admitted.rows_affected() {
        0 => Err(Failure::Refused),
        _ => Ok(()),
    }
}

/// A fenced write. On `Err` the transaction is dropped, and that rolls it back.
pub async fn write_stock(
    pool: &SqlitePool,
    fence: i64,
    owner: &str,
    pieces: i64,
) -> Result<(), Failure> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    admit(&mut tx, "stock", fence, owner).await?;
    sqlx::query("UPDATE stock SET pieces = $1")
        .bind(pieces)
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(())
}

/// A fenced read. It commits too: the gate has to remember that this fence was here.
pub async fn read_stock(pool: &SqlitePool, fence: i64, owner: &str) -> Result<i64, Failure> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    admit(&mut tx, "stock", fence, owner).await?;
    let pieces = sqlx::query_scalar("SELECT pieces FROM stock")
        .fetch_one(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::sqlite::SqliteConnectOptions;
    use tempfile::TempDir;

    async fn shop_with_10_pieces() -> (SqlitePool, TempDir) {
        let folder = TempDir::new().unwrap();
        let file = SqliteConnectOptions::new()
            .filename(folder.path().join("shop.db"))
            .create_if_missing(true);
        let pool = SqlitePool::connect_with(file).await.unwrap();
        create_gate(&pool).await.unwrap();
        for statement in [
            "CREATE TABLE stock (pieces BIGINT NOT NULL)",
            "INSERT INTO stock VALUES (10)",
        ] {
            sqlx::query(statement).execute(&pool).await.unwrap();
        }
        (pool, folder)
    }

    async fn pieces(pool: &SqlitePool) -> i64 {
        let found = sqlx::query_scalar("SELECT pieces FROM stock");
        found.fetch_one(pool).await.unwrap()
    }

    #[tokio::test]
    async fn the_same_holder_and_later_ones_are_admitted() {
        let (pool, _folder) = shop_with_10_pieces().await;
        write_stock(&pool, 7, "ann", 9).await.unwrap();
        assert_eq!(read_stock(&pool, 7, "ann").await.unwrap(), 9);
        write_stock(&pool, 8, "bob", 8).await.unwrap();
        assert_eq!(read_stock(&pool, 9, "eve").await.unwrap(), 8);
    }

    #[tokio::test]
    async fn an_older_write_is_refused_and_rolled_back() {
        let (pool, _folder) = shop_with_10_pieces().await;
        write_stock(&pool, 8, "bob", 8).await.unwrap();
        let refused = write_stock(&pool, 7, "ann", 3).await;
        assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
        let refused = write_stock(&pool, 8, "eve", 3).await;
        assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");

        // What the transaction did before it was refused is undone as well.
        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let early = sqlx::query("UPDATE stock SET pieces = 3");
        early.execute(&mut *tx).await.unwrap();
        let refused = admit(&mut tx, "stock", 7, "ann").await;
        assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
        drop(tx);
        assert_eq!(pieces(&pool).await, 8);
    }

    #[tokio::test]
    async fn an_older_read_is_refused_once_a_later_holder_has_only_read() {
        let (pool, _folder) = shop_with_10_pieces().await;
        assert_eq!(read_stock(&pool, 8, "bob").await.unwrap(), 10);
        let refused = read_stock(&pool, 7, "ann").await;
        assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
        let refused = write_stock(&pool, 7, "ann", 3).await;
        assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
        assert_eq!(pieces(&pool).await, 10);
    }
}
