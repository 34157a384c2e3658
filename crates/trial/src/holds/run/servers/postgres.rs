//! A Postgres primary and its standby, which takes over without the last writes, or while the primary lives on.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fencepost_rig::{Postgres, Proxy};

use super::deposed::Copied;
use super::redis::ANSWER_TIMEOUT;
use super::{Seen, Servers, Watched, now, seen};
use crate::history::Change;
use crate::protocol::Failure;
use crate::store::TrialStore;
use crate::store::postgres::{Connection, StoreError};

const PRIMARY: &str = "primary";
const STANDBY: &str = "standby";
/// How often the lab asks a server again.
const LOOK: Duration = Duration::from_millis(10);

/// A standby follows this server.
const IS_FOLLOWED: &str = "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'";
/// The standby has everything that was written on this server.
const IS_COPIED: &str =
    "SELECT count(*) = 1 FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_insert_lsn()";
/// This standby receives nothing.
const IS_CUT_OFF: &str = "SELECT count(*) = 0 FROM pg_stat_wal_receiver";
/// This server takes writes.
const IS_PRIMARY: &str = "SELECT NOT pg_is_in_recovery()";
/// This server's commits wait for its standby.
const IS_WAITED_FOR: &str =
    "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
/// Makes this standby a primary.
const PROMOTE: &str = "SELECT pg_promote()";

/// A primary and its asynchronous standby, behind an address that moves from one to the other.
pub(super) struct Lagging {
    front: Proxy,
    primary: Postgres,
    standby: Postgres,
    /// The store that the user asked for.
    store: TrialStore,
}

impl Lagging {
    /// Starts both servers and waits until the standby follows the primary.
    pub(super) fn start(store: &TrialStore) -> Result<Self, Failure> {
        let (primary, standby) = pair()?;
        let front = Proxy::start(primary.address()).map_err(Failure::definite)?;
        Ok(Self {
            front,
            primary,
            standby,
            store: store.clone(),
        })
    }
}

impl Servers for Lagging {
    fn store(&self) -> TrialStore {
        behind(&self.front, &self.primary, &self.store)
    }

    fn cut_off(&mut self) -> Result<Vec<Seen>, Failure> {
        // The tables of the trial are there. The lock is not.
        until(&self.primary, IS_COPIED)?;
        let mut standby = connect(&self.standby)?;
        standby
            .run("ALTER SYSTEM SET primary_conninfo = ''")
            .map_err(StoreError::into_read_failure)?;
        is(&mut standby, "SELECT pg_reload_conf()")?;
        until(&self.standby, IS_CUT_OFF)?;
        Ok(vec![now(STANDBY, Change::CutOff)])
    }

    fn kill(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        let inspected = watched.on(PRIMARY, &self.primary.url())?;
        // Taken before the kill: from here on the server answers nobody.
        let at = Instant::now();
        self.primary.crash();
        if !self.primary.has_ended() {
            return Err(Failure::definite("the primary did not die"));
        }
        let killed = seen(at, PRIMARY, Change::Killed);
        Ok(inspected.into_iter().chain([killed]).collect())
    }

    fn serve_again(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        // Before it takes writes: looking at a lock may use up a number of a transaction, which a lock may use as its fence.
        let inspected = watched.on(STANDBY, &self.standby.url())?;
        promote(&self.standby)?;
        self.front.point_at(self.standby.address());
        let promoted = now(STANDBY, Change::Promoted);
        Ok(inspected.into_iter().chain([promoted]).collect())
    }
}

/// A primary whose commits wait for its standby.
pub(super) struct Synchronous {
    primary: Postgres,
    standby: Postgres,
    /// The store that the user asked for.
    store: TrialStore,
}

impl Synchronous {
    /// Starts both servers and waits until the primary waits for its standby.
    pub(super) fn start(store: &TrialStore) -> Result<Self, Failure> {
        let (primary, standby) = pair()?;
        let mut connection = connect(&primary)?;
        connection
            .run("ALTER SYSTEM SET synchronous_standby_names = '*'")
            .map_err(StoreError::into_read_failure)?;
        is(&mut connection, "SELECT pg_reload_conf()")?;
        until(&primary, IS_WAITED_FOR)?;
        Ok(Self {
            primary,
            standby,
            store: store.clone(),
        })
    }
}

impl Copied for Synchronous {
    fn copy(&self) -> &'static str {
        STANDBY
    }

    fn primary(&self) -> SocketAddr {
        self.primary.address()
    }

    fn behind(&self, front: &Proxy) -> TrialStore {
        behind(front, &self.primary, &self.store)
    }

    fn promote(&mut self, watched: &Watched<'_>) -> Result<(SocketAddr, Option<Seen>), Failure> {
        // Everything that the primary has confirmed is on the disk of the standby. What the lab sees there must have been read from it.
        until(&self.primary, IS_COPIED)?;
        // Before it takes writes, as above.
        let inspected = watched.on(STANDBY, &self.standby.url())?;
        promote(&self.standby)?;
        Ok((self.standby.address(), inspected))
    }

    fn lives_on(&self) -> Result<bool, Failure> {
        is(&mut connect(&self.primary)?, IS_PRIMARY)
    }

    fn end(&mut self) {
        self.primary.crash();
    }
}

/// Starts a primary and a standby that follows it.
fn pair() -> Result<(Postgres, Postgres), Failure> {
    let primary = Postgres::start_with(&["fsync=off"]).map_err(Failure::definite)?;
    let standby = primary.standby().map_err(Failure::definite)?;
    until(&primary, IS_FOLLOWED)?;
    Ok((primary, standby))
}

/// Returns the store as clients reach it through this proxy.
fn behind(front: &Proxy, server: &Postgres, store: &TrialStore) -> TrialStore {
    let direct = server.address().to_string();
    let url = server.url().replace(&direct, &front.address().to_string());
    let address = format!("{url}{}", store.parameters());
    store.clone().at(address)
}

/// Makes the standby a primary, and waits until it takes writes.
fn promote(standby: &Postgres) -> Result<(), Failure> {
    if !is(&mut connect(standby)?, PROMOTE)? {
        return Err(Failure::definite("the standby was not promoted"));
    }
    until(standby, IS_PRIMARY)
}

fn connect(server: &Postgres) -> Result<Connection, Failure> {
    Connection::open(&format!("{}#public", server.url()))
}

/// Asks a question that is answered with true or false.
fn is(connection: &mut Connection, question: &'static str) -> Result<bool, Failure> {
    let row = connection
        .ask_one(question, &[])
        .map_err(StoreError::into_read_failure)?;
    Ok(row.is_some_and(|row| row.get(0)))
}

/// Waits until the server answers a question with true.
fn until(server: &Postgres, question: &'static str) -> Result<(), Failure> {
    let mut connection = connect(server)?;
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    while !is(&mut connection, question)? {
        if Instant::now() > deadline {
            let seconds = ANSWER_TIMEOUT.as_secs();
            let message = format!("not within {seconds} s: {question}");
            return Err(Failure::definite(message));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
