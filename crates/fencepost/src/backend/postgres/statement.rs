//! The statements. Everything in them is a number, hexadecimal, or encoded so that it cannot be anything but a comment.

use std::time::Duration;

use super::fence::{MAY_NOT, Source};
use super::session::millis;
use crate::claim::OwnerId;

/// One who was granted a lock has to say so within this time, or the server ends its session. Longer than the pauses of a process that
/// is alive, shorter than a TTL: those behind it wait for that long when it is stopped or cut off.
pub(super) const CLAIM_WINDOW: Duration = Duration::from_millis(1500);

/// What makes a transaction wait for the disk, and for the standbys that are waited for.
const WRITE: &str = "pg_logical_emit_message(true, 'fencepost', '')";

/// What is done at the moment of a grant.
pub(super) struct Granting<'a> {
    pub(super) owner: OwnerId,
    /// From now on the server ends the session when nothing was asked of it for this long.
    pub(super) session_ttl: Duration,
    /// The program's part of `application_name`.
    pub(super) program: &'a str,
    pub(super) source: Source,
}

impl Granting<'_> {
    /// Owner, fence, server time in ms, and the settings that make it a lease; one text.
    ///
    /// The message makes this transaction one that writes: its end waits until the log is on the disk, and the standbys that are waited
    /// for have it. Without it a crash or a failover could give the same fence to the next holder.
    fn columns(&self) -> String {
        let Self { owner, program, .. } = self;
        let (ttl_ms, draw) = (millis(self.session_ttl), self.source.draw());
        format!(
            "concat_ws(' ', set_config('application_name', concat('{program} ', {draw}, ' {owner}'), false), \
             (extract(epoch from clock_timestamp()) * 1000)::bigint, \
             {WRITE}, set_config('idle_session_timeout', '{ttl_ms}', false))"
        )
    }
}

/// Takes the lock if it is free, and the session may draw a fence. `case` comes first: a number is drawn by the one who has the lock, not
/// before and not else.
/// `spare`: nothing is left to the session when it is not, and the server may end it after that time.
pub(super) fn try_lock(key: i64, granting: &Granting<'_>, spare: Option<Duration>) -> String {
    let columns = granting.columns();
    let otherwise = spare.map_or("''".to_owned(), |keep| {
        let keep_ms = millis(keep);
        format!("left(set_config('idle_session_timeout', '{keep_ms}', false), 0)")
    });
    let may_draw = granting.source.may_draw();
    format!(
        "select pg_backend_pid(), case when ({may_draw}) is not true then '{MAY_NOT}' \
         when pg_try_advisory_lock('{key}'::bigint) then {columns} else {otherwise} end"
    )
}

/// Waits for the lock in the server's own line.
pub(super) fn wait(key: i64) -> String {
    let window_ms = millis(CLAIM_WINDOW);
    format!(
        "set idle_session_timeout = {window_ms}; \
         select pg_backend_pid(), pg_advisory_lock('{key}'::bigint)"
    )
}

/// What [`try_lock`] does beside taking the lock, for one who has waited for it.
pub(super) fn fence(granting: &Granting<'_>) -> String {
    let (may_draw, columns) = (granting.source.may_draw(), granting.columns());
    format!(
        "select pg_backend_pid(), case when ({may_draw}) is not true then '{MAY_NOT}' else {columns} end"
    )
}

/// A sign of life, which lets others go whose time is over.
///
/// Where standbys are waited for, it writes, so that they have to confirm it: a primary that was replaced and does not know it
/// gets no confirmation, and its holders stop believing in time.
pub(super) fn renew(session_ttl: Duration, overdue: &[i64]) -> String {
    let ttl_ms = millis(session_ttl);
    let mut statement = format!(
        "select pg_backend_pid(), set_config('idle_session_timeout', '{ttl_ms}', false), \
         case when current_setting('synchronous_standby_names') <> '' then {WRITE} end"
    );
    for key in overdue {
        statement.push_str(&format!(", pg_advisory_unlock('{key}'::bigint)"));
    }
    statement
}

/// Gives the lock back. `spare`: nothing is left to the session, and the server may end it after that time.
pub(super) fn unlock(key: i64, spare: Option<(Duration, &str)>) -> String {
    let mut statement = format!("select pg_backend_pid(), pg_advisory_unlock('{key}'::bigint)");
    if let Some((keep, program)) = spare {
        let keep_ms = millis(keep);
        statement.push_str(&format!(
            ", set_config('idle_session_timeout', '{keep_ms}', false), \
             set_config('application_name', '{program}', false)"
        ));
    }
    statement
}

/// The same statement, after which nothing is left to the session.
pub(super) fn spare(keep: Duration, statement: &str) -> String {
    let keep_ms = millis(keep);
    format!("set idle_session_timeout = {keep_ms}; {statement}")
}

/// Makes the process `pid` stop waiting for `key`, if it still does.
pub(super) fn cancel(pid: i32, key: i64) -> String {
    let place = place(key);
    format!(
        "select pg_backend_pid(), (select pg_cancel_backend(pid) from pg_locks \
         where pid = {pid} and not granted and {place})"
    )
}

/// Ends the session of the process `pid` if it has to do with this lock and no other, and waits for its end: how many locks it
/// has to do with, and whether it is gone.
pub(super) fn terminate(pid: i32, key: i64) -> String {
    let place = place(key);
    format!(
        "select pg_backend_pid(), locks, case when locks = 1 then pg_terminate_backend({pid}, 2000) end \
         from (select count(*) as locks, coalesce(bool_or({place}), false) as this from pg_locks \
         where pid = {pid} and locktype = 'advisory') as found where this"
    )
}

/// Who holds locks and who waits for them, holders first, then those who wait in their order.
pub(super) fn look(key: Option<i64>) -> String {
    let place = key.map_or("locktype = 'advisory' and objsubid = 1".to_owned(), place);
    format!(
        "select pg_backend_pid(), l.pid, l.granted, (l.classid::bigint << 32) | l.objid::bigint, \
         coalesce((extract(epoch from clock_timestamp() - l.waitstart) * 1000)::bigint, 0), \
         a.application_name, a.query, \
         case when a.state = 'idle' then (extract(epoch from clock_timestamp() - a.state_change) * 1000)::bigint end, \
         (extract(epoch from clock_timestamp()) * 1000)::bigint \
         from pg_locks l left join pg_stat_activity a on a.pid = l.pid \
         where {place} \
         and l.database = (select oid from pg_database where datname = current_database()) \
         order by l.granted desc, l.waitstart nulls last"
    )
}

/// How `pg_locks` writes a number of 64 bits.
fn place(key: i64) -> String {
    let bits = key.cast_unsigned();
    let (high, low) = (bits >> 32, bits & 0xffff_ffff);
    format!("locktype = 'advisory' and classid = '{high}' and objid = '{low}' and objsubid = 1")
}
