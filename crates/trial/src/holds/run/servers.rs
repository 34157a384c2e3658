//! Private servers that a trial makes fail: what stands between "the store is there" and "the store is there again".
//!
//! A trial has three turns for them: one is cut off, one is killed, and clients are served again. What that means is the affair of
//! each store: a replica takes over without the last writes, a server comes back empty, or a majority elects a new leader and nothing is lost.
//! Every turn returns only once its effect was seen.

use std::time::Instant;

use fencepost::stores::kinds::{ETCD, REDLOCK};

use crate::history::{Change, What};
use crate::holds::{Scenario, Trial};
use crate::protocol::Failure;
use crate::store::locks;
use crate::store::{Ground, TrialStore};

mod etcd;
mod redis;
mod redlock;

use etcd::Members;
use redis::{Pair, Single};
use redlock::Three;

/// Something that a turn did, and when.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) at: Instant,
    pub(super) what: What,
}

/// The servers of one trial; gone with it.
pub(super) trait Servers {
    /// Where the processes find the store, before and after.
    fn store(&self) -> TrialStore;

    /// From here on a server hears nothing of what the others write. By default nothing happens.
    fn cut_off(&mut self) -> Result<Vec<Seen>, Failure> {
        Ok(Vec::new())
    }

    /// Kills the server that has the lock on `key`.
    fn kill(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure>;

    /// Clients are served again at the same address.
    fn serve_again(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure>;
}

/// The lock that the lab looks at, server by server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watched<'a> {
    /// Where the processes believe it to be.
    pub(super) ground: &'a Ground,
    pub(super) key: &'a str,
    /// Whether the lab knows where this lock keeps its records.
    pub(super) is_known: bool,
}

impl Watched<'_> {
    /// Looks at the lock on one server; nothing where the lab would not know it.
    fn on(&self, server: &str, url: &str) -> Result<Option<Seen>, Failure> {
        let look = match (self.ground, self.is_known) {
            (Ground::Redis(endpoint), true) => {
                let space = endpoint.split_once('#').map_or("", |(_, space)| space);
                Ground::Redis(format!("{url}#{space}")).look(self.key)?
            }
            (Ground::Locks(apart), true) => locks::look_at_one(url, &apart.name(self.key))?,
            _ => return Ok(None),
        };
        Ok(Some(Seen {
            at: Instant::now(),
            what: What::StoreRead {
                key: self.key.into(),
                taken: look.taken,
                ttl_left_ms: look.ttl_left.map(|left| left.as_secs_f64() * 1e3),
                server: Some(server.into()),
            },
        }))
    }
}

/// Starts the servers that this trial makes fail; none for the trials that leave the store alone.
pub(super) fn start(trial: &Trial) -> Result<Option<Box<dyn Servers>>, Failure> {
    let store = &trial.store;
    Ok(match trial.scenario {
        Scenario::Failover if store.is(&ETCD) => Some(Box::new(Members::start()?)),
        Scenario::Failover => Some(Box::new(Pair::start()?)),
        Scenario::RestartEmpty if store.is(&REDLOCK) => Some(Box::new(Three::start(store)?)),
        Scenario::RestartEmpty => Some(Box::new(Single::start()?)),
        _ => None,
    })
}

fn now(server: &str, change: Change) -> Seen {
    seen(Instant::now(), server, change)
}

fn seen(at: Instant, server: &str, change: Change) -> Seen {
    let server = server.into();
    Seen {
        at,
        what: What::Server { server, change },
    }
}
