//! Creates the tables in Postgres; the first instance does, and later ones find them.

use fencepost::resource::CREATE_GATE;

use super::connection::Connection;
use super::pool::Fault;
use crate::storage::{Decision, sql};

/// A lock, so that instances that start at the same time create the tables one after the other.
const TAKE_TURNS: &str = "SELECT pg_advisory_xact_lock(7163846502)";
/// Checks whether the tables exist, because `CREATE … IF NOT EXISTS` and `ALTER TABLE` would wait for all transactions under way and block
/// new ones: no further instance could start in a busy shop. If the database is read-only, creating the tables reports it.
const IS_MADE: &str = "SELECT to_regclass('checkout_keys_by_time') IS NOT NULL AND NOT current_setting('transaction_read_only')::boolean";
const HAS_KEY_TIME: &str = "\
SELECT EXISTS (SELECT 1 FROM pg_attribute
    WHERE attrelid = to_regclass('checkout_keys') AND attname = 'made_ms' AND NOT attisdropped)";

/// Creates the tables if they are missing.
pub(super) async fn make(connection: &mut Connection) -> Result<Decision<()>, Fault> {
    if connection.query_bool(IS_MADE).await? {
        return Ok(Decision::RollBack(()));
    }
    connection.batch(TAKE_TURNS).await?;
    connection.batch(sql::TABLES).await?;
    connection.batch(CREATE_GATE).await?;
    if !connection.query_bool(HAS_KEY_TIME).await? {
        connection.batch(sql::ADD_KEY_TIME).await?;
    }
    connection.batch(sql::KEYS_BY_TIME).await?;
    Ok(Decision::Commit(()))
}
