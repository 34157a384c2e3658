//! The SQL statements. Every value in them is a number, hexadecimal, or encoded so that it can only be a comment.

use std::time::Duration;

use super::fence::{MAY_NOT, Source};
use super::session::millis;
use crate::claim::OwnerId;

/// How long a session may take to confirm that it was granted a lock before the server ends it. This is longer than the pauses of a live
/// process, and shorter than a TTL: waiters behind a stopped or disconnected client wait this long.
pub(super) const CONFIRM_WITHIN: Duration = Duration::from_millis(1500);

/// How long a session lasts at least if it is used for anything but renewals, so that the server does not end it between two consecutive
/// statements. A lease that is over by then is released with the next statement, or lasts this much longer.
const LEAST: Duration = Duration::from_secs(1);
/// Makes a transaction wait for the disk and for the synchronous standbys.
const WRITE: &str = "pg_logical_emit_message(true, 'fencepost', '')";

/// What happens at the moment of a grant.
pub(super) struct Granting<'a> {
    pub(super) owner: OwnerId,
    /// After this long without a statement, the server ends the session.
    pub(super) session_ttl: Duration,
    /// The program's part of `application_name`.
    pub(super) program: &'a str,
    pub(super) source: Source,
}

impl Granting<'_> {
    /// Returns the owner, the fence, the server time in ms, and the settings that turn the lock into a lease, as one text.
    ///
    /// The message makes this a writing transaction, so its end waits until the log is on disk and on the synchronous standbys. Otherwise a
    /// crash or a failover could give the same fence to the next holder.
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

/// Takes the lock if it is free and the session may draw a fence. `case` comes first, so that only the holder of the lock draws a number.
/// If somebody else has the lock, the session lasts as long as it would without this statement.
pub(super) fn try_lock(key: i64, granting: &Granting<'_>, without: &Lasting) -> String {
    let columns = granting.columns();
    let ttl_ms = millis(without.session_ttl());
    let unlocks = without.unlocks();
    let may_draw_sql = granting.source.may_draw_sql();
    format!(
        "select pg_backend_pid(), case when ({may_draw_sql}) is not true then '{MAY_NOT}' \
         when pg_try_advisory_lock('{key}'::bigint) then {columns} \
         else left(set_config('idle_session_timeout', '{ttl_ms}', false), 0) end{unlocks}"
    )
}

/// Waits for the lock in the server's own line, for at most `longest`, because the statement has a snapshot while it waits.
pub(super) fn wait(key: i64, longest: Duration) -> String {
    let (window_ms, longest_ms) = (millis(CONFIRM_WITHIN), millis(longest));
    format!(
        "set idle_session_timeout = {window_ms}; set local lock_timeout = {longest_ms}; \
         select pg_backend_pid(), pg_advisory_lock('{key}'::bigint)"
    )
}

/// Does what [`try_lock`] does besides taking the lock, for a session that has waited for the lock.
pub(super) fn fence(granting: &Granting<'_>) -> String {
    let (may_draw_sql, columns) = (granting.source.may_draw_sql(), granting.columns());
    format!(
        "select pg_backend_pid(), case when ({may_draw_sql}) is not true then '{MAY_NOT}' else {columns} end"
    )
}

/// How long a session lasts after a statement, and which of its leases have ended.
///
/// The server starts to count again with every statement, whatever its purpose. Every statement therefore sets the time that is left for
/// the leases of the session, and releases those that are over. Otherwise a lease that nobody renews would last as long as its session is
/// used.
pub(super) struct Lasting {
    /// How long the leases of the session still need it; zero if it has none.
    pub(super) needed: Duration,
    /// How long a session without leases lasts.
    pub(super) spare: Duration,
    /// The locks whose leases are over.
    pub(super) overdue: Vec<i64>,
}

impl Lasting {
    fn session_ttl(&self) -> Duration {
        if self.needed.is_zero() {
            self.spare
        } else {
            self.needed.max(LEAST)
        }
    }

    fn unlocks(&self) -> String {
        let keys = self.overdue.iter();
        keys.map(|key| format!(", pg_advisory_unlock('{key}'::bigint)"))
            .collect()
    }
}

/// Renews the leases of the session that are not over.
///
/// If there are synchronous standbys, it writes, so that they have to confirm it. A primary that was replaced without knowing it gets no
/// confirmation, and its holders stop believing in time.
pub(super) fn renew(lasting: &Lasting) -> String {
    let write =
        format!(", case when current_setting('synchronous_standby_names') <> '' then {WRITE} end");
    last(lasting.needed, lasting) + &write
}

/// Sets how long the session lasts, without renewing its leases.
pub(super) fn keep(lasting: &Lasting) -> String {
    last(lasting.session_ttl(), lasting)
}

fn last(session_ttl: Duration, lasting: &Lasting) -> String {
    let ttl_ms = millis(session_ttl);
    let unlocks = lasting.unlocks();
    format!(
        "select pg_backend_pid(), set_config('idle_session_timeout', '{ttl_ms}', false){unlocks}"
    )
}

/// Releases the lock, and sets how long the session then lasts. If `shown` is given, it becomes the session's `application_name`.
pub(super) fn unlock(key: i64, lasting: &Lasting, shown: Option<&str>) -> String {
    let ttl_ms = millis(lasting.session_ttl());
    let unlocks = lasting.unlocks();
    let name = shown.map_or(String::new(), |shown| {
        format!(", set_config('application_name', '{shown}', false)")
    });
    format!(
        "{}, set_config('idle_session_timeout', '{ttl_ms}', false){name}{unlocks}",
        only_unlock(key)
    )
}

/// Releases the lock, and changes nothing else.
pub(super) fn only_unlock(key: i64) -> String {
    format!("select pg_backend_pid(), pg_advisory_unlock('{key}'::bigint)")
}

/// Returns the statement with the settings of a session that has no locks left after it.
pub(super) fn spare(keep: Duration, statement: &str) -> String {
    let keep_ms = millis(keep);
    format!("set idle_session_timeout = {keep_ms}; {statement}")
}

/// Makes the process `pid` stop waiting for `key`, if it still waits.
pub(super) fn cancel(pid: i32, key: i64) -> String {
    let place = place(key);
    format!(
        "select pg_backend_pid(), (select pg_cancel_backend(pid) from pg_locks \
         where pid = {pid} and not granted and {place})"
    )
}

/// Where a session shows the owner of its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShownIn {
    /// In the comment before its last statement.
    Comment,
    /// In `application_name`.
    ApplicationName,
}

/// Ends the session of the process `pid` if it is concerned with this lock only and still shows this owner, and waits for its end. Returns
/// how many locks the session is concerned with, and whether it is gone, which is null if the session was not ended.
///
/// The statement reads the owner last, right before it ends the session: the process may have released the lock and taken it for another
/// owner.
pub(super) fn terminate(pid: i32, key: i64, owner: OwnerId, shown_in: ShownIn) -> String {
    let place = place(key);
    let is_owner = match shown_in {
        ShownIn::Comment => format!("strpos(query, ' {owner} ') > 0"),
        ShownIn::ApplicationName => format!("application_name like '% {owner}'"),
    };
    format!(
        "select pg_backend_pid(), locks, case when locks = 1 then \
           (select pg_terminate_backend(pid, 2000) from pg_stat_get_activity({pid}) where {is_owner}) end \
         from (select count(*) as locks, coalesce(bool_or({place}), false) as this from pg_locks \
         where pid = {pid} and locktype = 'advisory') as found where this"
    )
}

/// Returns who holds locks and who waits for them, each with the number of locks of its session: holders first, then waiters in their order.
pub(super) fn look(key: Option<i64>) -> String {
    let place = key.map_or("locktype = 'advisory' and objsubid = 1".to_owned(), place);
    format!(
        "select pg_backend_pid(), l.pid, l.granted, (l.classid::bigint << 32) | l.objid::bigint, \
         coalesce((extract(epoch from clock_timestamp() - l.waitstart) * 1000)::bigint, 0), \
         a.application_name, a.query, \
         case when a.state = 'idle' then (extract(epoch from clock_timestamp() - a.state_change) * 1000)::bigint end, \
         (extract(epoch from clock_timestamp()) * 1000)::bigint, s.locks \
         from pg_locks l left join pg_stat_activity a on a.pid = l.pid \
         left join (select pid, count(*) as locks from pg_locks where locktype = 'advisory' and objsubid = 1 group by pid) s \
           on s.pid = l.pid \
         where {place} \
         and l.database = (select oid from pg_database where datname = current_database()) \
         order by l.granted desc, l.waitstart nulls last"
    )
}

/// Returns how `pg_locks` represents a 64-bit number.
fn place(key: i64) -> String {
    let bits = key.cast_unsigned();
    let (high, low) = (bits >> 32, bits & 0xffff_ffff);
    format!("locktype = 'advisory' and classid = '{high}' and objid = '{low}' and objsubid = 1")
}
