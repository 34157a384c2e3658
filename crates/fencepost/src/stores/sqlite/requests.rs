//! The lock requests on the tables (acquire, renew, release), each in one transaction.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

use super::columns::{moment, to_sql, unsigned};
use super::failure::{Failure, Result};
use super::session::Database;
use crate::backend::{Release, Renewal};
use crate::claim::{Claim, Grant, LockName};
use crate::clock::Moment;
use crate::fence::Fence;
use crate::stores::kit::turn_window;

/// Reads the lock, the owner's ticket, and how many wait ahead of it; without a ticket, how many wait.
const STATE: &str = "
SELECT held.owner, held.expires_ns, held.epoch, mine.ticket, mine.joined_ns,
       (SELECT count(*) FROM fencepost_line AS other
        WHERE other.name = :name AND other.boot = :boot
          AND other.ticket < coalesce(mine.ticket, 9223372036854775807))
FROM (SELECT 1)
LEFT JOIN fencepost_lock AS held ON held.name = :name AND held.boot = :boot
LEFT JOIN fencepost_line AS mine ON mine.name = :name AND mine.boot = :boot AND mine.owner = :owner";

/// There are two statements because SQLite would create a temporary table with its own page cache for `RETURNING`.
pub(super) const RAISE_EPOCH: &str = "UPDATE fencepost_fence SET epoch = epoch + 1 WHERE id = 1";
const EPOCH: &str = "SELECT epoch FROM fencepost_fence WHERE id = 1";

const SET_LOCK: &str = "
INSERT OR REPLACE INTO fencepost_lock (name, owner, label, boot, acquired_ns, expires_ns, epoch, ttl_ns)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

const FREE_LOCK: &str = "
UPDATE fencepost_lock SET owner = '', label = '', expires_ns = min(expires_ns, ?2) WHERE name = ?1";

const DELETE_LOCK: &str = "DELETE FROM fencepost_lock WHERE name = ?1";

const EXTEND: &str = "
UPDATE fencepost_lock SET expires_ns = max(expires_ns, :until),
    ttl_ns = CASE WHEN :until > expires_ns THEN :ttl ELSE ttl_ns END
WHERE name = :name AND owner = :owner AND boot = :boot AND expires_ns > :now";

const RETURN_TO_LINE: &str = "
INSERT INTO fencepost_line (ticket, name, owner, label, boot, joined_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO NOTHING";

const JOIN_LINE: &str = "
INSERT OR REPLACE INTO fencepost_line (name, owner, label, boot, joined_ns) VALUES (?1, ?2, ?3, ?4, ?5)";

const SERVE_LINE: &str = "DELETE FROM fencepost_line WHERE name = ?1 AND ticket <= ?2";

const LEAVE_LINE: &str = "DELETE FROM fencepost_line WHERE name = ?1 AND owner = ?2";

const SOMEBODY_WAITS: &str =
    "SELECT EXISTS (SELECT 1 FROM fencepost_line WHERE name = ?1 AND boot = ?2)";

const FREE_AT: &str = "SELECT expires_ns FROM fencepost_lock WHERE name = ?1 AND boot = ?2";

const LINE: &str = "SELECT owner FROM fencepost_line WHERE name = ?1 AND boot = ?2 ORDER BY ticket";

/// The answer to a claim.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The claim got the lock.
    Granted(Grant),
    /// The claim did not get the lock. From `due` on it is worth asking again if nothing changes.
    Refused {
        /// Its ticket, if it waits.
        ticket: Option<Ticket>,
        due: Moment,
    },
}

/// A place in a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    number: i64,
    /// When the ticket was drawn, for people only.
    joined: Moment,
}

/// What a claim does if it does not get the lock.
#[derive(Debug, Clone, Copy)]
pub(super) enum IfBusy {
    /// It does not wait.
    GoAway,
    /// It waits. `ticket` is the one it had, which may have been taken away.
    Wait { ticket: Option<Ticket> },
}

struct State {
    held: Option<LockRow>,
    ticket: Option<Ticket>,
    ahead: u32,
}

struct LockRow {
    owner: String,
    expires: Moment,
    epoch: u64,
}

impl State {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let owner: Option<String> = row.get(0)?;
        let held = match owner {
            None => None,
            Some(owner) => Some(LockRow {
                owner,
                expires: moment(row, 1)?,
                epoch: unsigned(row, 2)?,
            }),
        };
        let ticket = match row.get(3)? {
            None => None,
            Some(number) => Some(Ticket {
                number,
                joined: moment(row, 4)?,
            }),
        };
        Ok(Self {
            held,
            ticket,
            ahead: row.get(5)?,
        })
    }

    /// Returns from when on the owner may take the lock, or `None` if others wait and it is unknown since when the lock is free.
    fn due(&self) -> Option<Moment> {
        match &self.held {
            Some(held) => Some(turn_window::opens_at(held.expires, self.ahead)),
            None if self.ahead == 0 => Some(Moment::ZERO),
            None => None,
        }
    }
}

impl Database {
    /// Takes the lock if it is free and everybody ahead of this claim in line has let their time pass.
    pub(super) fn ask(&self, claim: &Claim, if_busy: IfBusy) -> Result<Outcome> {
        let asked_at = self.now();
        let owner = claim.owner.to_string();
        self.write(|connection, now| {
            let state = self.state(claim, &owner)?;
            let granted = |epoch| {
                Outcome::Granted(Grant {
                    epoch,
                    asked_at,
                    lease: claim.ttl,
                })
            };
            match (&state.held, state.due()) {
                (Some(held), _) if held.owner == owner && held.expires > now => {
                    self.extend(claim, now)?;
                    Ok(granted(held.epoch))
                }
                (_, Some(due)) if due <= now => {
                    Ok(granted(self.grant(claim, &owner, &state, now)?))
                }
                (_, Some(due)) => {
                    let ticket = self.refuse(claim, &owner, &state, if_busy, now)?;
                    Ok(Outcome::Refused { ticket, due })
                }
                (_, None) => {
                    // Somebody deleted the row by hand. From now on the time counts for the line.
                    let since = to_sql(now);
                    connection.prepare_cached(SET_LOCK)?.execute(params![
                        claim.name.as_str(),
                        "",
                        "",
                        self.boot,
                        since,
                        since,
                        0,
                        0
                    ])?;
                    let due = turn_window::opens_at(now, state.ahead);
                    let ticket = self.refuse(claim, &owner, &state, if_busy, now)?;
                    Ok(Outcome::Refused { ticket, due })
                }
            }
        })
    }

    fn state(&self, claim: &Claim, owner: &str) -> Result<State> {
        let parameters =
            named_params! { ":name": claim.name.as_str(), ":owner": owner, ":boot": self.boot };
        let mut statement = self.connection.prepare_cached(STATE)?;
        Ok(statement.query_row(parameters, State::from_row)?)
    }

    fn grant(&self, claim: &Claim, owner: &str, state: &State, now: Moment) -> Result<u64> {
        let name = claim.name.as_str();
        let connection = &self.connection;
        connection.prepare_cached(RAISE_EPOCH)?.execute([])?;
        let epoch: i64 = connection
            .prepare_cached(EPOCH)?
            .query_row([], |row| row.get(0))?;
        let epoch = u64::try_from(epoch).map_err(|_| Failure::FenceExhausted)?;
        if epoch >= Fence::EPOCH_END {
            return Err(Failure::FenceExhausted);
        }
        connection.prepare_cached(SET_LOCK)?.execute(params![
            name,
            owner,
            claim.label,
            self.boot,
            to_sql(now),
            to_sql(now + claim.ttl),
            epoch as i64,
            to_sql(Moment::ZERO + claim.ttl),
        ])?;
        // Those ahead of it are overdue. If one of them is alive, it comes back with its old ticket.
        if state.ticket.is_some() || state.ahead > 0 {
            let last = state.ticket.map_or(i64::MAX, |ticket| ticket.number);
            connection
                .prepare_cached(SERVE_LINE)?
                .execute(params![name, last])?;
        }
        Ok(epoch)
    }

    fn refuse(
        &self,
        claim: &Claim,
        owner: &str,
        state: &State,
        if_busy: IfBusy,
        now: Moment,
    ) -> Result<Option<Ticket>> {
        Ok(match (state.ticket, if_busy) {
            (Some(ticket), _) => Some(ticket),
            (None, IfBusy::GoAway) => None,
            (None, IfBusy::Wait { ticket }) => Some(self.join_line(claim, owner, ticket, now)?),
        })
    }

    fn join_line(
        &self,
        claim: &Claim,
        owner: &str,
        ticket: Option<Ticket>,
        now: Moment,
    ) -> Result<Ticket> {
        let name = claim.name.as_str();
        let connection = &self.connection;
        if let Some(ticket) = ticket {
            let returned = connection.prepare_cached(RETURN_TO_LINE)?.execute(params![
                ticket.number,
                name,
                owner,
                claim.label,
                self.boot,
                to_sql(ticket.joined),
            ])?;
            if returned == 1 {
                return Ok(ticket);
            }
        }
        connection.prepare_cached(JOIN_LINE)?.execute(params![
            name,
            owner,
            claim.label,
            self.boot,
            to_sql(now),
        ])?;
        Ok(Ticket {
            number: connection.last_insert_rowid(),
            joined: now,
        })
    }

    /// Extends the lease. Returns whether it existed.
    fn extend(&self, claim: &Claim, now: Moment) -> Result<bool> {
        let extended = self
            .connection
            .prepare_cached(EXTEND)?
            .execute(named_params! {
                ":name": claim.name.as_str(),
                ":owner": claim.owner.to_string(),
                ":boot": self.boot,
                ":now": to_sql(now),
                ":until": to_sql(now + claim.ttl),
                ":ttl": to_sql(Moment::ZERO + claim.ttl),
            })?;
        Ok(extended == 1)
    }

    /// Extends all leases that have not ended, in one transaction.
    pub(super) fn renew(&self, claims: &[Claim]) -> Result<Vec<Renewal>> {
        self.write(|_, now| {
            let renewal = |claim| {
                Ok(if self.extend(claim, now)? {
                    Renewal::Extended
                } else {
                    Renewal::Lost
                })
            };
            claims.iter().map(renewal).collect()
        })
    }

    /// Ends the lease of this owner, or removes it from the line, and deletes the row of the lock if nobody needs it any more.
    pub(super) fn release(&self, claim: &Claim) -> Result<Release> {
        let name = claim.name.as_str();
        let owner = claim.owner.to_string();
        self.write(|connection, now| {
            let mut leave = connection.prepare_cached(LEAVE_LINE)?;
            leave.execute(params![name, owner])?;
            let held = self.state(claim, &owner)?.held;
            let Some(held) = held else {
                return Ok(Release::NotHeld);
            };
            let is_mine = held.owner == owner;
            let has_ended = held.expires <= now;
            let somebody_waits = self.somebody_waits(connection, name)?;
            if is_mine && somebody_waits {
                let mut free = connection.prepare_cached(FREE_LOCK)?;
                free.execute(params![name, to_sql(now)])?;
            } else if (is_mine || has_ended) && !somebody_waits {
                connection.prepare_cached(DELETE_LOCK)?.execute([name])?;
            }
            Ok(if is_mine && !has_ended {
                Release::Freed
            } else {
                Release::NotHeld
            })
        })
    }

    fn somebody_waits(&self, connection: &Connection, name: &str) -> Result<bool> {
        let mut waits = connection.prepare_cached(SOMEBODY_WAITS)?;
        Ok(waits.query_row(params![name, self.boot], |row| row.get(0))?)
    }

    /// Returns the line of a lock, and since when the lock is free or until when it is taken.
    pub(super) fn line(&self, name: &LockName) -> Result<WaitingOrder> {
        let key = params![name.as_str(), self.boot];
        let free_at = self
            .connection
            .prepare_cached(FREE_AT)?
            .query_row(key, |row| moment(row, 0))
            .optional()?;
        let ahead = self
            .connection
            .prepare_cached(LINE)?
            .query_map(key, |row| row.get(0))?
            .zip(0..)
            .map(|(owner, ahead)| owner.map(|owner| (owner, ahead)))
            .collect::<rusqlite::Result<_>>()?;
        Ok(WaitingOrder { free_at, ahead })
    }
}

/// The waiters for a lock, in order.
#[derive(Debug)]
pub(super) struct WaitingOrder {
    free_at: Option<Moment>,
    /// How many waiters are ahead of each owner.
    ahead: HashMap<String, u32>,
}

impl WaitingOrder {
    /// Returns from when on this owner should ask. That is now if its place or the row of the lock is gone.
    pub(super) fn due(&self, owner: &str) -> Moment {
        match (self.free_at, self.ahead.get(owner)) {
            (Some(free_at), Some(ahead)) => turn_window::opens_at(free_at, *ahead),
            _ => Moment::ZERO,
        }
    }
}
