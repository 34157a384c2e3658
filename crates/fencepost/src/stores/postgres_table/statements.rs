//! The SQL statements. Each request is one statement, which is executed completely or not at all, however the client stops.
//!
//! All times are the server's, as in ShedLock. `lock_until` has a resolution of milliseconds. The end of a lease is rounded up, and its end
//! after a release is rounded down, so that nobody is let in before a lease is over or kept out after it was released.

use futures_util::future::try_join_all;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Statement};

use super::tables::Tables;
use crate::stores::kit::turn_window::{FIRST, NEXT};

const NOW: &str = "timezone('utc', current_timestamp)";

/// Parameters: `$1` row, `$2` owner, `$3` holder, `$4` TTL in microseconds, `$5` the full name of the lock.
///
/// Takes the lock if it is free and everybody ahead of this owner has let their time pass, or continues the lease that this owner has. A
/// refused request has only read. The epoch is raised while the row of the lock is locked. A continued lease (same owner, same grant) keeps
/// its epoch. Otherwise the new epoch is past the last one and past the time since 2024 in units of 62.5 µs, so that a table that was lost
/// or restored from a copy does not repeat epochs. A time outside the valid range does not count.
///
/// Returns the epoch or NULL, the microseconds until it is worth asking again, how many waiters are ahead of this owner, its ticket, and
/// for how many microseconds another program has held the lock, if one does.
const ACQUIRE: &str = "
WITH mine AS MATERIALIZED (SELECT ticket FROM {line} WHERE name = $1::text AND owner = $2::text),
before AS MATERIALIZED (
    SELECT count(*) AS ahead FROM {line}
    WHERE name = $1 AND owner <> $2 AND ticket < coalesce((SELECT ticket FROM mine), 9223372036854775807)),
pause AS MATERIALIZED (
    SELECT CASE ahead WHEN 0 THEN interval '0'
                      ELSE interval '{first} microseconds' + (ahead - 1) * interval '{next} microseconds' END AS pause
    FROM before),
seen AS MATERIALIZED (
    SELECT lock_until, locked_at, locked_by, left(locked_by, 32) = $2 AND lock_until > {now} AS ours
    FROM {locks} WHERE name = $1),
taken AS (
    INSERT INTO {locks} AS l (name, lock_until, locked_at, locked_by)
    SELECT $1, date_trunc('milliseconds', {now} + $4::bigint * interval '1 microsecond' + interval '999 microseconds'),
           date_trunc('milliseconds', {now}), $3::text
    WHERE NOT EXISTS (SELECT 1 FROM seen WHERE NOT ours AND lock_until + (SELECT pause FROM pause) > {now})
    ON CONFLICT (name) DO UPDATE SET
        lock_until = greatest(l.lock_until, excluded.lock_until),
        locked_at = CASE WHEN l.lock_until > {now} THEN l.locked_at ELSE excluded.locked_at END,
        locked_by = CASE WHEN l.lock_until > excluded.lock_until THEN l.locked_by ELSE excluded.locked_by END
    WHERE (left(l.locked_by, 32) = $2 AND l.lock_until > {now})
       OR l.lock_until + (SELECT pause FROM pause) <= {now}
    RETURNING locked_at),
fenced AS (
    INSERT INTO {fence} AS f (name, lock, epoch, owner, since)
    SELECT $1, $5::text, CASE WHEN units < 70368744177664 THEN greatest(units, 1) ELSE 1 END, $2, locked_at
    FROM taken, (SELECT floor((extract(epoch FROM current_timestamp) - 1704067200) * 16000)::bigint AS units) AS age
    ON CONFLICT (name) DO UPDATE SET
        lock = excluded.lock,
        epoch = CASE WHEN f.owner = excluded.owner AND f.since = excluded.since THEN f.epoch
                     ELSE greatest(f.epoch + 1, excluded.epoch) END,
        owner = excluded.owner,
        since = excluded.since
    RETURNING epoch),
served AS (
    DELETE FROM {line} WHERE name = $1 AND EXISTS (SELECT 1 FROM taken) AND (owner = $2
        OR (NOT EXISTS (SELECT 1 FROM seen WHERE ours)
            AND ticket < coalesce((SELECT ticket FROM mine), 9223372036854775807))))
SELECT (SELECT epoch FROM fenced),
       (SELECT (extract(epoch FROM lock_until + (SELECT pause FROM pause) - {now}) * 1000000)::bigint FROM seen),
       (SELECT ahead FROM before),
       (SELECT ticket FROM mine),
       (SELECT (extract(epoch FROM {now} - locked_at) * 1000000)::bigint FROM seen
        WHERE lock_until > {now} AND locked_by !~ '^[0-9a-f]{32} ')";

/// Parameters: `$1` row, `$2` owner, `$3` label, `$4` the full name of the lock. An owner that already stands in line keeps its place.
///
/// A ticket is the time, but larger than all tickets before it. A counter would not work: a crash of the server empties the line and would
/// restart the counter, and newcomers would then overtake waiters that come back with their old tickets.
const JOIN: &str = "
INSERT INTO {line} AS w (name, owner, label, lock, ticket, joined)
SELECT $1::text, $2::text, $3::text, $4::text,
       greatest((SELECT max(ticket) + 1 FROM {line} WHERE name = $1), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), {now}
ON CONFLICT (name, owner) DO UPDATE SET label = excluded.label";

/// Joins the line again with the ticket `$5`, waiting since `$6` microseconds, for an owner whose place was given away.
const RETURN: &str = "
INSERT INTO {line} AS w (name, owner, label, lock, ticket, joined)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::bigint, {now} - $6::bigint * interval '1 microsecond')
ON CONFLICT (name, owner) DO UPDATE SET label = excluded.label";

/// Parameters: `$1` row, `$2` owner. Returns whether this owner had the lock.
const RELEASE: &str = "
WITH freed AS (
    UPDATE {locks} SET lock_until = date_trunc('milliseconds', {now})
    WHERE name = $1::text AND left(locked_by, 32) = $2::text AND lock_until > {now}
    RETURNING name),
ended AS (UPDATE {fence} AS f SET owner = '' FROM freed WHERE f.name = freed.name AND f.owner = $2),
gone AS (DELETE FROM {line} WHERE name = $1 AND owner = $2)
SELECT EXISTS (SELECT 1 FROM freed)";

/// Parameter: `$1` row. Notifies the first waiter that the lock is free. This is a separate statement after the release, so it sees
/// everybody who was in line before the release became visible.
const TELL: &str = "
SELECT pg_notify('{channel}', owner || ' ' || $1::text)::text FROM {line}
WHERE name = $1 AND NOT EXISTS (SELECT 1 FROM {locks} WHERE name = $1 AND lock_until > {now})
ORDER BY ticket LIMIT 1";

/// Parameters, all arrays: `$1` rows, `$2` owners, `$3` holders, `$4` TTLs in microseconds. Returns the owners whose leases were extended.
const RENEW: &str = "
UPDATE {locks} AS l SET
    lock_until = greatest(l.lock_until,
        date_trunc('milliseconds', {now} + r.ttl * interval '1 microsecond' + interval '999 microseconds')),
    locked_by = CASE WHEN {now} + r.ttl * interval '1 microsecond' > l.lock_until THEN r.holder ELSE l.locked_by END
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS r (name, owner, holder, ttl)
WHERE l.name = r.name AND left(l.locked_by, 32) = r.owner AND l.lock_until > {now}
RETURNING r.owner";

/// Parameter: `$1` row. Returns the holder, if there is one, and then the waiters in order: the full name of the lock, the holder's text or
/// NULL, the waiter's label or NULL, the microseconds left or waited, the microseconds since the grant, and the epoch.
const INSPECT: &str = "
SELECT coalesce(f.lock, l.name), l.locked_by, NULL,
       (extract(epoch FROM l.lock_until - {now}) * 1000000)::bigint,
       (extract(epoch FROM {now} - l.locked_at) * 1000000)::bigint,
       CASE WHEN f.owner = left(l.locked_by, 32) THEN f.epoch END,
       NULL AS ticket
FROM {locks} AS l LEFT JOIN {fence} AS f ON f.name = l.name
WHERE l.name = $1::text AND l.lock_until > {now}
UNION ALL
SELECT lock, NULL, label, (extract(epoch FROM {now} - joined) * 1000000)::bigint, NULL, NULL, ticket
FROM {line} WHERE name = $1
ORDER BY ticket NULLS FIRST";

/// Returns the same for all locks.
const LIST: &str = "
SELECT coalesce(f.lock, l.name), l.locked_by, NULL,
       (extract(epoch FROM l.lock_until - {now}) * 1000000)::bigint,
       (extract(epoch FROM {now} - l.locked_at) * 1000000)::bigint,
       CASE WHEN f.owner = left(l.locked_by, 32) THEN f.epoch END,
       NULL AS ticket
FROM {locks} AS l LEFT JOIN {fence} AS f ON f.name = l.name
WHERE l.lock_until > {now}
UNION ALL
SELECT lock, NULL, label, (extract(epoch FROM {now} - joined) * 1000000)::bigint, NULL, NULL, ticket
FROM {line}
ORDER BY ticket NULLS FIRST";

/// Deletes tickets of locks that have been free for an hour: such a lock has no waiter that is awake.
const FORGET: &str = "
DELETE FROM {line} AS w
WHERE joined < {now} - interval '1 hour'
  AND NOT EXISTS (SELECT 1 FROM {locks} AS l WHERE l.name = w.name AND l.lock_until > {now} - interval '1 hour')";

/// The prepared statements of one connection.
pub(super) struct Statements {
    pub(super) acquire: Statement,
    pub(super) join: Statement,
    pub(super) come_back: Statement,
    pub(super) release: Statement,
    pub(super) tell: Statement,
    pub(super) renew: Statement,
    pub(super) inspect: Statement,
    pub(super) list: Statement,
}

impl Statements {
    pub(super) async fn prepare(client: &Client, tables: &Tables) -> Result<Self, Error> {
        let texts = [ACQUIRE, JOIN, RETURN, RELEASE, TELL, RENEW, INSPECT, LIST]
            .map(|text| fill_in(text, tables));
        let prepared = texts.iter().map(|text| client.prepare_typed(text, NONE));
        let prepared = try_join_all(prepared).await?;
        let [
            acquire,
            join,
            come_back,
            release,
            tell,
            renew,
            inspect,
            list,
        ] = <[Statement; 8]>::try_from(prepared)
            .unwrap_or_else(|_| unreachable!("as many as there are texts"));
        Ok(Self {
            acquire,
            join,
            come_back,
            release,
            tell,
            renew,
            inspect,
            list,
        })
    }
}

/// Returns the statement that deletes tickets whose owners do not come back.
pub(super) fn forget(tables: &Tables) -> String {
    fill_in(FORGET, tables)
}

/// No parameter types, because the statements contain the types themselves.
const NONE: &[Type] = &[];

fn fill_in(text: &str, tables: &Tables) -> String {
    text.replace("{locks}", &tables.locks())
        .replace("{fence}", &tables.fence())
        .replace("{line}", &tables.line())
        .replace("{channel}", &tables.channel())
        .replace("{now}", NOW)
        .replace("{first}", &FIRST.as_micros().to_string())
        .replace("{next}", &NEXT.as_micros().to_string())
}
