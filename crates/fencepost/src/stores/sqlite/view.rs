//! Inspects one lock or lists all of them, on one consistent snapshot of the file.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{OptionalExtension, Row, params};

use super::columns::{moment, unsigned};
use super::failure::Result;
use super::session::Database;
use crate::backend::{Holder, Listed, Record, Waiter, name_matches};
use crate::claim::LockName;
use crate::clock::Moment;

impl Database {
    /// Returns who holds the lock and who waits for it.
    pub(super) fn inspect(&self, name: &LockName) -> Result<Option<Record>> {
        const ONE: &str = "name = ?1 AND boot = ?2";
        if !self.features.has_tables {
            return Ok(None);
        }
        self.read(|connection, now| {
            let key = params![name.as_str(), self.boot];
            let holder = connection
                .prepare_cached(&self.features.holders(ONE))?
                .query_row(key, |row| holder(row, now))
                .optional()?
                .flatten();
            let waiting: Vec<_> = connection
                .prepare_cached(&self.features.lines(ONE))?
                .query_map(key, |row| waiter(row, now))?
                .collect::<rusqlite::Result<_>>()?;
            Ok((holder.is_some() || !waiting.is_empty()).then(|| Record::new(holder, waiting)))
        })
    }

    /// Returns the locks that are held or waited for and match the pattern.
    pub(super) fn list(&self, pattern: Option<&str>) -> Result<Vec<Listed>> {
        const ALL: &str = "boot = ?1";
        if !self.features.has_tables {
            return Ok(Vec::new());
        }
        let matches =
            |name: &String| pattern.is_none_or(|pattern| name_matches(pattern, name.as_str()));
        self.read(|connection, now| {
            let mut records: BTreeMap<String, Record> = BTreeMap::new();
            let mut holders = connection.prepare_cached(&self.features.holders(ALL))?;
            let mut rows = holders.query([&self.boot])?;
            while let Some(row) = rows.next()? {
                if let Some(holder) = holder(row, now)? {
                    let record = records.entry(row.get(0)?).or_insert_with(nobody);
                    record.holder = Some(holder);
                }
            }
            let mut lines = connection.prepare_cached(&self.features.lines(ALL))?;
            let mut rows = lines.query([&self.boot])?;
            while let Some(row) = rows.next()? {
                let record = records.entry(row.get(0)?).or_insert_with(nobody);
                record.waiting.push(waiter(row, now)?);
            }
            records.retain(|name, _| matches(name));
            let listed = records.into_iter();
            Ok(listed
                .map(|(name, record)| Listed { name, record })
                .collect())
        })
    }
}

fn nobody() -> Record {
    Record::new(None, Vec::new())
}

/// Returns `None` if the row only says since when the lock is free.
fn holder(row: &Row<'_>, now: Moment) -> rusqlite::Result<Option<Holder>> {
    let ttl_left = moment(row, 5)?.saturating_duration_since(now);
    if ttl_left == Duration::ZERO {
        return Ok(None);
    }
    let owner: String = row.get(1)?;
    let owner = owner
        .parse()
        .map_err(|_| rusqlite::Error::InvalidColumnType(1, "owner".into(), Type::Text))?;
    Ok(Some(Holder {
        owner: Some(owner),
        epoch: Some(unsigned(row, 3)?),
        since: Some(moment(row, 4)?),
        ttl_left: Some(ttl_left),
        ttl: Some(Duration::from_nanos(unsigned(row, 6)?)).filter(|ttl| !ttl.is_zero()),
        ..Holder::new(row.get::<_, String>(2)?)
    }))
}

fn waiter(row: &Row<'_>, now: Moment) -> rusqlite::Result<Waiter> {
    let joined = Some(moment(row, 2)?).filter(|joined| *joined != Moment::ZERO);
    let waited = joined.map_or(Duration::ZERO, |joined| {
        now.saturating_duration_since(joined)
    });
    Ok(Waiter::new(row.get::<_, String>(1)?, waited))
}
