//! Locks that are rows of a table, either under a unique index or with an expiry.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::super::hand_made::{Latch, Recipe, released_if};
use super::super::{Failure, Halt};
use crate::protocol::ReleaseResult;
use crate::store::latch::Latches;
use crate::store::latch::postgres::microseconds;
use crate::store::postgres::{Connection, StoreError};

/// Takes the record without an expiry, and deletes it if it is its own.
pub(super) const UNTIMED: Recipe = Recipe {
    take: insert,
    worked: |_| Ok(()),
    give_back: delete_own,
};

fn insert(latch: &mut Latch<'_>, halt: &mut dyn Halt) -> Result<bool, Failure> {
    let taken = latch.store.set_if_absent(latch.key, latch.token, None)?;
    if taken {
        halt.after(1, 1, "inserts the row");
    }
    Ok(taken)
}

fn delete_own(latch: &mut Latch<'_>, halt: &mut dyn Halt) -> Result<ReleaseResult, Failure> {
    let deleted = latch.store.delete_if(latch.key, latch.token)?;
    halt.after(1, 1, "deletes the row if it is its own");
    Ok(released_if(deleted))
}

/// Rows that exist or not: the index refuses a second one with the same name.
pub(super) struct UniqueRows(Connection);

impl UniqueRows {
    pub(super) fn open(endpoint: &str) -> Result<Self, Failure> {
        Ok(Self(Connection::open(endpoint)?))
    }
}

impl Latches for UniqueRows {
    fn set_if_absent(
        &mut self,
        key: &str,
        token: &str,
        _ttl: Option<Duration>,
    ) -> Result<bool, Failure> {
        const SQL: &str = "INSERT INTO lock_row (name, owner) VALUES ($1, $2)";
        match self.0.change(SQL, &[&key, &token]) {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(false),
            Err(error) => Err(error.into_write_failure()),
        }
    }

    fn delete_if(&mut self, key: &str, token: &str) -> Result<bool, Failure> {
        const SQL: &str = "DELETE FROM lock_row WHERE name = $1 AND owner = $2";
        let changed = self.0.change(SQL, &[&key, &token]);
        Ok(changed.map_err(StoreError::into_write_failure)? == 1)
    }
}

/// Rows with an expiry, in ShedLock's table and with its statements.
pub(super) struct LeaseRows(Connection);

impl LeaseRows {
    pub(super) fn open(endpoint: &str) -> Result<Self, Failure> {
        Ok(Self(Connection::open(endpoint)?))
    }
}

impl Latches for LeaseRows {
    fn set_if_absent(
        &mut self,
        key: &str,
        token: &str,
        ttl: Option<Duration>,
    ) -> Result<bool, Failure> {
        const SQL: &str = "INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
            VALUES ($1, timezone('utc', clock_timestamp()) + $3::bigint * interval '1 microsecond',
                timezone('utc', clock_timestamp()), $2)
            ON CONFLICT (name) DO UPDATE SET lock_until = excluded.lock_until,
                locked_at = excluded.locked_at, locked_by = excluded.locked_by
            WHERE shedlock.lock_until <= timezone('utc', clock_timestamp())";
        let ttl = microseconds(ttl.unwrap_or(Duration::MAX));
        let changed = self.0.change(SQL, &[&key, &token, &ttl]);
        Ok(changed.map_err(StoreError::into_write_failure)? == 1)
    }

    /// Rows are never deleted; a release sets their expiry.
    fn delete_if(&mut self, key: &str, token: &str) -> Result<bool, Failure> {
        const SQL: &str = "UPDATE shedlock SET lock_until = timezone('utc', clock_timestamp())
            WHERE name = $1 AND locked_by = $2
                AND lock_until > timezone('utc', clock_timestamp())";
        let changed = self.0.change(SQL, &[&key, &token]);
        Ok(changed.map_err(StoreError::into_write_failure)? == 1)
    }
}
