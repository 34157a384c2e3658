//! The records in the table `fencepost_record`: reading one, replacing one in a transaction, and listing their names.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::unsigned;
use super::failure::{Failure, Result};
use super::requests::RAISE_EPOCH;
use super::session::Database;
use crate::backend::records::{RecordKey, RecordKind, Replaced, Snapshot, StoreTime};
use crate::claim::LockName;
use crate::clock::Moment;
use crate::random::{Random, SystemRandom};

/// Reads the record and the counter of fences, both of the same moment.
const READ: &str = "
SELECT fence.epoch, record.version, record.value
FROM fencepost_fence AS fence
LEFT JOIN fencepost_record AS record ON record.kind = ?1 AND record.name = ?2
WHERE fence.id = 1";

const VERSION: &str = "SELECT version FROM fencepost_record WHERE kind = ?1 AND name = ?2";

const CREATE: &str = "
INSERT INTO fencepost_record (kind, name, value, version) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";

const REPLACE: &str = "
UPDATE fencepost_record SET value = ?3, version = ?4 WHERE kind = ?1 AND name = ?2 AND version = ?5";

const NAMES: &str = "SELECT name FROM fencepost_record WHERE kind = ?1";

/// The record that a replacement replaces.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Zero if there was none.
    pub(super) version: u128,
    pub(super) asked_at: Moment,
}

impl Database {
    /// Reads a record that was asked for at this moment.
    ///
    /// The next epoch of the file's counter is the lowest that a grant may have. As every replacement raises the counter by one (see
    /// [`replace_record`](Self::replace_record)), it never is below an epoch that a record of this file has used.
    pub(super) fn read_record(&self, key: &RecordKey, asked_at: Moment) -> Result<Snapshot> {
        let mut seen = Snapshot::absent(asked_at);
        if self.features.has_records {
            let mut statement = self.connection.prepare_cached(READ)?;
            let mut rows = statement.query(params![key.kind.as_str(), key.name.as_str()])?;
            let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            seen = seen.with_epoch_floor(unsigned(row, 0)?.saturating_add(1));
            if let Some(version) = row.get(1)? {
                let value: Vec<u8> = row.get(2)?;
                seen = seen.with_value(value, version_of(version)?);
            }
        }
        // The time comes last: it must not be earlier than the one at which somebody wrote the record.
        Ok(seen.with_time(StoreTime {
            now: self.now().saturating_duration_since(Moment::ZERO),
            era: self.boot.as_str().into(),
        }))
    }

    /// Returns the version of a record, or zero if there is none.
    pub(super) fn record_version(&self, key: &RecordKey) -> Result<u128> {
        if !self.features.has_records {
            return Ok(0);
        }
        let mut statement = self.connection.prepare_cached(VERSION)?;
        let key = params![key.kind.as_str(), key.name.as_str()];
        let version = statement.query_row(key, |row| row.get(0)).optional()?;
        version.map_or(Ok(0), version_of)
    }

    /// Replaces a record if it still is the one that was seen, and raises the counter of fences.
    ///
    /// A snapshot offers the counter's next epoch, and the replacement that uses this epoch raises the counter. So the counter is never
    /// behind the epochs in the records, and what raises it after a boot or in a new file raises them, too. Without that, the epochs that a
    /// power cut takes from a record could be granted again, because the record would be ahead of the counter.
    pub(super) fn replace_record(
        &self,
        key: &RecordKey,
        seen: Seen,
        value: &[u8],
    ) -> Result<Replaced> {
        if !self.features.has_records {
            return Err(Failure::Unusable(
                "the file was opened to look at its locks".to_owned(),
            ));
        }
        // Nothing is known of this file: an epoch in the value may be one that somebody else has used in an earlier file.
        if seen.version == 0 && seen.asked_at < self.opened_at {
            return Ok(Replaced::Outdated);
        }
        let (kind, name) = (key.kind.as_str(), key.name.as_str());
        let version = new_version();
        let work = |connection: &Connection, _| {
            let changed = if seen.version == 0 {
                let mut create = connection.prepare_cached(CREATE)?;
                create.execute(params![kind, name, value, version])?
            } else {
                let before = seen.version.to_be_bytes();
                let mut replace = connection.prepare_cached(REPLACE)?;
                replace.execute(params![kind, name, value, version, before])?
            };
            if changed == 0 {
                return Ok(Replaced::Outdated);
            }
            connection.prepare_cached(RAISE_EPOCH)?.execute([])?;
            Ok(Replaced::Yes)
        };
        match key.kind {
            // A power cut must not take away that a slot was run. Permits and leaders end with the boot.
            RecordKind::Runs => self.write_durably(work),
            RecordKind::Shares | RecordKind::Leader => self.write(work),
        }
    }

    /// Returns the names of the records of this kind.
    pub(super) fn record_names(&self, kind: RecordKind) -> Result<Vec<LockName>> {
        if !self.features.has_records {
            return Ok(Vec::new());
        }
        let mut statement = self.connection.prepare_cached(NAMES)?;
        let names = statement.query_map([kind.as_str()], |row| row.get::<_, String>(0))?;
        let names = names.collect::<rusqlite::Result<Vec<String>>>()?;
        // Only somebody else writes a row whose name is none.
        Ok(names
            .iter()
            .filter_map(|name| LockName::new(name).ok())
            .collect())
    }
}

/// Returns a random version, so that none returns, not even in a new file.
fn new_version() -> [u8; 16] {
    loop {
        let version = SystemRandom.next_u128();
        if version != 0 {
            return version.to_be_bytes();
        }
    }
}

fn version_of(bytes: Vec<u8>) -> Result<u128> {
    let bytes: [u8; 16] = bytes
        .try_into()
        .map_err(|_| rusqlite::Error::InvalidColumnType(1, "version".into(), Type::Blob))?;
    Ok(u128::from_be_bytes(bytes))
}
