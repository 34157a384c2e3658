//! Lock records as rows in a Postgres database, timed by the clock of the database.

use std::time::Duration;

use tokio_postgres::Row;

use super::Latches;
use crate::protocol::Failure;
use crate::store::LockState;
use crate::store::postgres::{Connection, StoreError, table_of};

/// A connection to the lock records in a Postgres database.
pub(crate) struct PostgresLatches(Connection);

impl PostgresLatches {
    /// Connects to the database of an endpoint that has been prepared, `postgres://…#SCHEMA`.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached.
    pub(crate) fn open(endpoint: &str) -> Result<Self, Failure> {
        Ok(Self(Connection::open(endpoint)?))
    }
}

/// Converts a duration to the unit of the statements.
pub(crate) fn microseconds(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the number of the advisory lock for this name. All schemas of a database share these numbers, so the schema is part
/// of the hash.
pub(crate) fn advisory_key(schema: &str, name: &str) -> i64 {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(format!("{schema}/{name}"));
    i64::from_be_bytes(std::array::from_fn(|at| digest[at]))
}

impl Latches for PostgresLatches {
    fn set_if_absent(
        &mut self,
        key: &str,
        token: &str,
        ttl: Option<Duration>,
    ) -> Result<bool, Failure> {
        const SQL: &str = "INSERT INTO latch AS held (key, token, expires)
            VALUES ($1, $2, clock_timestamp() + $3::bigint * interval '1 microsecond')
            ON CONFLICT (key) DO UPDATE SET token = $2, expires = excluded.expires
            WHERE held.expires <= clock_timestamp()";
        // Seeing that the key is taken needs no write lock. Whether it is free is decided below.
        if self.get(key)?.is_some() {
            return Ok(false);
        }
        let ttl = ttl.map(microseconds);
        let changed = self.0.change(SQL, &[&key, &token, &ttl]);
        Ok(changed.map_err(StoreError::into_write_failure)? == 1)
    }

    fn expire(&mut self, key: &str, ttl: Duration) -> Result<bool, Failure> {
        const SQL: &str =
            "UPDATE latch SET expires = clock_timestamp() + $2::bigint * interval '1 microsecond'
            WHERE key = $1 AND (expires IS NULL OR expires > clock_timestamp())";
        let changed = self.0.change(SQL, &[&key, &microseconds(ttl)]);
        Ok(changed.map_err(StoreError::into_write_failure)? == 1)
    }

    fn get(&mut self, key: &str) -> Result<Option<String>, Failure> {
        const SQL: &str = "SELECT token FROM latch
            WHERE key = $1 AND (expires IS NULL OR expires > clock_timestamp())";
        let row = self
            .0
            .ask_one(SQL, &[&key])
            .map_err(StoreError::into_read_failure)?;
        Ok(row.map(|row| row.get(0)))
    }

    fn delete(&mut self, key: &str) -> Result<bool, Failure> {
        const SQL: &str =
            "DELETE FROM latch WHERE key = $1 AND (expires IS NULL OR expires > clock_timestamp())";
        let changed = self.0.change(SQL, &[&key]);
        Ok(changed.map_err(StoreError::into_write_failure)? == 1)
    }

    fn delete_if(&mut self, key: &str, token: &str) -> Result<bool, Failure> {
        const SQL: &str = "DELETE FROM latch
            WHERE key = $1 AND token = $2 AND (expires IS NULL OR expires > clock_timestamp())";
        let changed = self.0.change(SQL, &[&key, &token]);
        Ok(changed.map_err(StoreError::into_write_failure)? == 1)
    }

    /// Also sees leases, lock rows, and the locks of the database itself.
    fn inspect(&mut self, key: &str) -> Result<LockState, Failure> {
        let row = self.record(key).map_err(StoreError::into_read_failure)?;
        if let Some(row) = row {
            let left: Option<f64> = row.get(0);
            let left = left.map(|seconds| Duration::from_secs_f64(seconds.max(0.0)));
            return Ok(LockState {
                taken: true,
                ttl_left: left,
            });
        }
        let taken = self
            .is_row_locked(key)
            .map_err(StoreError::into_read_failure)?;
        Ok(LockState {
            taken,
            ..LockState::FREE
        })
    }
}

impl PostgresLatches {
    /// Returns the record of a lock: the seconds until it expires, or NULL if it does not expire.
    fn record(&mut self, key: &str) -> Result<Option<Row>, StoreError> {
        const SQL: &str = "
            SELECT extract(epoch FROM expires - clock_timestamp())::float8 FROM latch
                WHERE key = $1 AND (expires IS NULL OR expires > clock_timestamp())
            UNION ALL
            SELECT extract(epoch FROM lock_until - timezone('utc', clock_timestamp()))::float8
                FROM shedlock WHERE name = $1 AND lock_until > timezone('utc', clock_timestamp())
            UNION ALL
            SELECT NULL FROM lock_row WHERE name = $1
            UNION ALL
            SELECT NULL FROM pg_locks WHERE granted AND locktype = 'advisory' AND objsubid = 1
                AND ((classid::bigint << 32) | objid::bigint) = $2
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            UNION ALL
            SELECT NULL FROM pg_locks WHERE granted AND locktype = 'relation'
                AND mode = 'ExclusiveLock' AND relation IN (to_regclass($3), 'stock'::regclass)";
        let number = advisory_key(self.0.schema(), key);
        self.0.ask_one(SQL, &[&key, &number, &table_of(key)])
    }

    /// Returns whether a transaction has locked the row. Row locks are not recorded anywhere. The only way to detect one is to request it.
    /// Nobody has one on a standby.
    fn is_row_locked(&mut self, key: &str) -> Result<bool, StoreError> {
        let recovers = self.0.ask_one("SELECT pg_is_in_recovery()", &[])?;
        if recovers.is_some_and(|row| row.get(0)) {
            return Ok(false);
        }
        const THERE: &str = "SELECT (SELECT count(*) FROM thing WHERE name = $1)
            + (SELECT count(*) FROM stock WHERE product = $1)";
        const THING: &str = "SELECT 1 FROM thing WHERE name = $1 FOR UPDATE SKIP LOCKED";
        const STOCK: &str = "SELECT 1 FROM stock WHERE product = $1 FOR UPDATE SKIP LOCKED";
        let there = self.0.ask_one(THERE, &[&key])?;
        let there: i64 = there.map_or(0, |row| row.get(0));
        let free = self.0.ask(THING, &[&key])?.len() + self.0.ask(STOCK, &[&key])?.len();
        Ok(there > free as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::postgres;

    #[test]
    fn they_are_latches() {
        let Some(database) = postgres() else { return };
        let ground = database.store().ground(std::path::Path::new(""));
        ground.prepare().unwrap();
        let open = || PostgresLatches::open(&ground.to_string()).unwrap();
        super::super::tests::keeps_its_promises(&mut open(), &mut open());
        ground.clear().unwrap();
    }
}
