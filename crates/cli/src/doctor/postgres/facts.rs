//! Queries the version, settings and statistics of a Postgres server.

use std::collections::HashMap;

use fencepost::stores::postgres::Connection;
use fencepost::stores::postgres::client::SimpleQueryMessage;
use fencepost::{Error, ErrorKind, Operation};

use super::super::ANSWER_TIMEOUT;

/// The oldest version with all the session settings that the locks need.
const OLDEST: i64 = 140_000;

/// Works on every version.
const FIRST: &str = "
    select current_setting('server_version') as version, current_setting('server_version_num') as version_number,
           current_user::text as role, pg_is_in_recovery() as standby,
           extract(epoch from clock_timestamp() - pg_postmaster_start_time())::bigint as uptime";

/// Works on version 14 and later, for every user. Subscribers of logical replication do not count as standbys.
const MORE: &str = "
    select current_setting('transaction_read_only') as read_only,
           current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
           current_setting('synchronous_commit') as synchronous_commit,
           current_setting('synchronous_standby_names') as synchronous_standbys,
           (select setting from pg_settings where name = 'statement_timeout') as statement_timeout,
           (select setting from pg_settings where name = 'idle_session_timeout') as idle_session_timeout,
           current_setting('track_activities') as track_activities,
           (select setting from pg_settings where name = 'track_activity_query_size') as track_bytes,
           (select count(*) from pg_stat_replication where pid not in
              (select active_pid from pg_replication_slots where slot_type = 'logical' and active_pid is not null)) as standbys,
           (select count(sync_state) from pg_stat_replication) as standbys_seen,
           (select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum')) as standbys_waited_for,
           (select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum', 'potential')) as standbys_able,
           current_setting('max_connections') as connections,
           current_setting('superuser_reserved_connections') as reserved,
           (select sum(numbackends) from pg_stat_database) as connected,
           rolsuper as is_super, rolconnlimit as role_limit,
           (select count(*) from pg_stat_activity where usename = current_user) as role_connected,
           datconnlimit as database_limit,
           (select numbackends from pg_stat_database where datname = current_database()) as database_connected,
           (select coalesce(string_agg(name, ', '), '') from unnest(array[
              'pg_try_advisory_lock(bigint)', 'pg_advisory_lock(bigint)', 'pg_advisory_unlock(bigint)',
              'pg_sequence_last_value(regclass)', 'pg_logical_emit_message(boolean, text, text)']) as name
            where not has_function_privilege(name, 'execute')) as denied,
           coalesce((select has_schema_privilege(oid, 'create') from pg_namespace where nspname = 'public'), false) as may_create
    from pg_roles, pg_database where rolname = current_user and datname = current_database()";

/// Names and values of the columns, as text.
#[derive(Debug, Default)]
pub(super) struct Facts(HashMap<String, String>);

impl Facts {
    pub(super) async fn first(connection: &Connection) -> Result<Self, Error> {
        Ok(Self(ask(connection, FIRST).await?))
    }

    pub(super) async fn learn(&mut self, connection: &Connection) -> Result<(), Error> {
        self.0.extend(ask(connection, MORE).await?);
        Ok(())
    }

    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.get(name).parse().ok()
    }

    pub(super) fn version(&self) -> &str {
        // `15.14 (Debian 15.14-1)`
        self.get("version").split(' ').next().unwrap_or_default()
    }

    pub(super) fn user(&self) -> &str {
        self.get("role")
    }

    pub(super) fn is_old(&self) -> bool {
        self.number("version_number").unwrap_or_default() < OLDEST
    }

    pub(super) fn is_standby(&self) -> bool {
        self.get("standby") == "t"
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.get("read_only") == "on"
    }

    #[cfg(test)]
    pub(super) fn of(pairs: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self(pairs.iter().map(owned).collect())
    }
}

/// Runs a statement and returns its only row by column name, without the columns that are NULL.
pub(super) async fn ask(
    connection: &Connection,
    statement: &str,
) -> Result<HashMap<String, String>, Error> {
    let asking = connection.client.simple_query(statement);
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, asking).await;
    let failed = |kind, words: String| Error::new(kind, "postgres", Operation::Inspect, words);
    let answer =
        answer.map_err(|_| failed(ErrorKind::Unavailable, "the server does not answer".into()))?;
    let answer = answer.map_err(|cause| {
        let kind = match cause.as_db_error() {
            Some(_) => ErrorKind::Unusable,
            None => ErrorKind::Unavailable,
        };
        let said = cause.as_db_error().map(|said| said.message().to_owned());
        failed(kind, said.unwrap_or_else(|| cause.to_string()))
    })?;
    let row = answer.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let mut values = HashMap::new();
    for (at, column) in row.iter().flat_map(|row| row.columns().iter().enumerate()) {
        if let Some(value) = row.as_ref().and_then(|row| row.get(at)) {
            values.insert(column.name().to_owned(), value.to_owned());
        }
    }
    Ok(values)
}
