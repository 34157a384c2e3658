//! The records of this store: rows of a table of their own, each read and replaced by one statement.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::PostgresTable;
use super::failure;
use super::hub::Hub;
use super::record_statements::{RecordStatements, TableState};
use super::session::{Parameters, Session};
use crate::backend::records::{RecordKey, RecordKind, Records, Replaced, Snapshot, StoreTime};
use crate::claim::LockName;
use crate::clock::{BootClock, BoxFuture, Clock, within};
use crate::error::{Error, Operation, Result};
use crate::random::{Random, SystemRandom};
use crate::stores::kit::silence::ANSWER_TIMEOUT;

/// How often those who wait for a change ask, in case a notification was lost.
const SLOW_POLL: Duration = Duration::from_millis(250);

/// The time does not lift epochs to this or beyond: such a time is not the present.
const LIFT_END: u64 = 1 << 46;

/// The server's clock counts from 1970. It is the same clock for all clients, also after a failover, as far as its machines agree.
const ERA: &str = "";

impl Records for PostgresTable {
    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(read(&self.hub, key))
    }

    fn replace<'a>(
        &'a self,
        key: &'a RecordKey,
        seen: &'a Snapshot,
        value: &'a [u8],
        _keep_for: Duration,
    ) -> BoxFuture<'a, Result<Replaced>> {
        Box::pin(replace(&self.hub, key, seen, value))
    }

    fn changed<'a>(&'a self, key: &'a RecordKey, seen: &'a Snapshot) -> BoxFuture<'a, ()> {
        Box::pin(changed(&self.hub, key, seen.version))
    }

    fn names<'a>(&'a self, kind: RecordKind) -> BoxFuture<'a, Result<Vec<LockName>>> {
        Box::pin(names(&self.hub, kind))
    }
}

/// A connection with the statements on the table of records.
struct Prepared<'a> {
    hub: &'a Hub,
    session: Arc<Session>,
    operation: Operation,
    statements: Arc<RecordStatements>,
}

impl<'a> Prepared<'a> {
    async fn get(hub: &'a Arc<Hub>, operation: Operation) -> Result<Self> {
        let session = hub.session(operation).await?;
        let statements = match session.record_statements() {
            Some(statements) => statements,
            None => {
                let prepared = prepare(hub, &session, operation).await?;
                session.keep_record_statements(prepared)
            }
        };
        Ok(Self {
            hub,
            session,
            operation,
            statements,
        })
    }

    async fn ask(
        &self,
        statement: impl FnOnce(&RecordStatements) -> &tokio_postgres::Statement,
        parameters: &Parameters<'_>,
    ) -> Result<Vec<Row>> {
        let statement = statement(&self.statements);
        let asked = self.session.ask(self.operation, statement, parameters);
        asked.await.map_err(|error| {
            if failure::code(&error) != Some(&SqlState::UNDEFINED_TABLE) {
                return error;
            }
            // Somebody has dropped the table. The next request checks it again.
            self.session.forget_record_statements();
            no_records(self.hub, self.operation)
        })
    }

    fn unexpected(&self) -> Error {
        failure::unexpected(self.operation, "other columns")
    }
}

/// Checks the table of records and prepares the statements. Does not create the table: all requests of the store would wait behind that.
async fn prepare(hub: &Hub, session: &Session, operation: Operation) -> Result<RecordStatements> {
    let (client, tables) = (session.client(), hub.tables());
    let looking = TableState::look(client, tables);
    match session.track(operation, looking).await? {
        TableState::Good => {}
        TableState::Missing => return Err(no_records(hub, operation)),
        TableState::Unlogged => {
            return Err(failure::unlogged_records(operation, &tables.record()));
        }
        TableState::NotForUs => {
            return Err(failure::no_right_to_records(operation, &tables.record()));
        }
    }
    let preparing = RecordStatements::prepare(client, tables);
    session.track(operation, preparing).await
}

fn no_records(hub: &Hub, operation: Operation) -> Error {
    let tables = hub.tables();
    failure::no_records(operation, &tables.record(), &tables.create_record())
}

async fn read(hub: &Arc<Hub>, key: &RecordKey) -> Result<Snapshot> {
    let prepared = Prepared::get(hub, Operation::ReadRecord).await?;
    let asked_at = BootClock.now();
    let (kind, name) = (key.kind.as_str(), key.name.as_str());
    let rows = prepared.ask(|all| &all.read, &[&kind, &name]).await?;
    let seen = rows
        .first()
        .and_then(|row| snapshot(row, Snapshot::absent(asked_at)));
    seen.ok_or_else(|| prepared.unexpected())
}

fn snapshot(row: &Row, seen: Snapshot) -> Option<Snapshot> {
    let micros: i64 = row.try_get(0).ok()?;
    let seen = seen
        .with_epoch_floor(epoch_floor(micros))
        .with_time(StoreTime {
            now: Duration::from_micros(micros.try_into().ok()?),
            era: ERA.into(),
        });
    let version: Option<&[u8]> = row.try_get(1).ok()?;
    let Some(version) = version else {
        return Some(seen);
    };
    let value: &[u8] = row.try_get(2).ok()?;
    Some(seen.with_value(value, version_of(version)?))
}

/// Returns the time since 2024 in units of 62.5 µs, as the fence of this store does: a time outside the valid range does not count.
fn epoch_floor(micros_since_1970: i64) -> u64 {
    const START_OF_2024: i64 = 1_704_067_200_000_000;
    let units = micros_since_1970.saturating_sub(START_OF_2024) / 125 * 2;
    let units = u64::try_from(units).unwrap_or(0);
    if (1..LIFT_END).contains(&units) {
        units
    } else {
        1
    }
}

fn version_of(bytes: &[u8]) -> Option<u128> {
    let version = u128::from_be_bytes(bytes.try_into().ok()?);
    (version != 0).then_some(version)
}

async fn replace(
    hub: &Arc<Hub>,
    key: &RecordKey,
    seen: &Snapshot,
    value: &[u8],
) -> Result<Replaced> {
    let prepared = Prepared::get(hub, Operation::ReplaceRecord).await?;
    // This may be another server. It may have the record that was seen although others have replaced that since, and granted what is unknown
    // here.
    if seen.asked_at < prepared.session.connected_at {
        return Ok(Replaced::Outdated);
    }
    let (kind, name) = (key.kind.as_str(), key.name.as_str());
    let version = new_version();
    let rows = if seen.version == 0 {
        let parameters: &Parameters<'_> = &[&kind, &name, &value, &&version[..]];
        prepared.ask(|all| &all.create, parameters).await?
    } else {
        let before = seen.version.to_be_bytes();
        let parameters: &Parameters<'_> = &[&kind, &name, &value, &&version[..], &&before[..]];
        prepared.ask(|all| &all.replace, parameters).await?
    };
    Ok(if rows.is_empty() {
        Replaced::Outdated
    } else {
        Replaced::Yes
    })
}

/// Returns a random version, so that none returns, not even in a table that was restored from a copy.
fn new_version() -> [u8; 16] {
    loop {
        let version = SystemRandom.next_u128();
        if version != 0 {
            return version.to_be_bytes();
        }
    }
}

/// Waits for the server's notification, and asks from time to time, too.
async fn changed(hub: &Arc<Hub>, key: &RecordKey, seen: u128) {
    let listener = hub
        .record_bells
        .listen(&format!("{}:{}", key.kind.as_str(), key.name));
    loop {
        let mut rung = std::pin::pin!(listener.bell.notified());
        rung.as_mut().enable();
        let until = BootClock.now() + ANSWER_TIMEOUT;
        match within(&BootClock, until, version(hub, key)).await {
            Some(Ok(version)) if version == seen => {}
            Some(Ok(_)) => return,
            // The next read returns the error.
            Some(Err(_)) | None => {
                return BootClock.sleep_until(BootClock.now() + SLOW_POLL).await;
            }
        }
        tokio::select! {
            () = rung => return,
            () = BootClock.sleep_until(BootClock.now() + SLOW_POLL) => {}
        }
    }
}

/// Returns the version of the record, or zero if there is none.
async fn version(hub: &Arc<Hub>, key: &RecordKey) -> Result<u128> {
    let prepared = Prepared::get(hub, Operation::ReadRecord).await?;
    let (kind, name) = (key.kind.as_str(), key.name.as_str());
    let rows = prepared.ask(|all| &all.version, &[&kind, &name]).await?;
    match rows.first() {
        None => Ok(0),
        Some(row) => {
            let version = row.try_get(0).ok().and_then(version_of);
            version.ok_or_else(|| prepared.unexpected())
        }
    }
}

async fn names(hub: &Arc<Hub>, kind: RecordKind) -> Result<Vec<LockName>> {
    let prepared = Prepared::get(hub, Operation::ReadRecord).await?;
    let rows = prepared.ask(|all| &all.names, &[&kind.as_str()]).await?;
    let name = |row: &Row| LockName::new(row.try_get(0).ok()?).ok();
    // Only somebody else writes a row whose name is none.
    Ok(rows.iter().filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_has_the_units_of_the_fence() {
        const START_OF_2024: i64 = 1_704_067_200_000_000;
        assert_eq!(epoch_floor(START_OF_2024 + 1_000_000), 16_000);
        let last = 1_i64 << 46;
        assert_eq!(
            epoch_floor(START_OF_2024 + (last - 2) / 2 * 125),
            (1 << 46) - 2
        );
        for another_age in [0, i64::MIN, START_OF_2024, i64::MAX] {
            assert_eq!(epoch_floor(another_age), 1, "{another_age}");
        }
    }
}
