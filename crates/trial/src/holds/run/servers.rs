//! Private servers that a trial makes fail, from the first cut to the moment at which clients are served again.
//!
//! A trial has three events for servers that die: one is cut off, one is killed, and clients are served again. Each store decides
//! what that means: a replica takes over without the last writes, a server comes back empty, or a majority elects a new leader
//! and nothing is lost. Two events are for servers that live on: one misbehaves (its clock is set, keys are evicted, or the lab
//! deletes them), or servers are stopped for a while. Every event returns only after its effect was observed.

use std::net::SocketAddr;
use std::time::Instant;

#[cfg(feature = "postgres")]
use fencepost::stores::kinds::POSTGRES;
use fencepost::stores::kinds::{ETCD, REDIS, REDLOCK};

use crate::history::{Change, What};
use crate::holds::{Scenario, Trial};
use crate::protocol::Failure;
use crate::store::locks;
use crate::store::{Ground, TrialStore};

mod clock;
mod deposed;
mod etcd;
mod eviction;
mod leaders;
mod majority;
#[cfg(feature = "postgres")]
mod postgres;
mod question;
mod redis;
mod redlock;
mod stopped;
mod taken_away;

use clock::{Behind, Clocked, Jump};
use deposed::Deposed;
use etcd::Members;
use eviction::Crowded;
use leaders::Leaders;
use majority::Majority;
#[cfg(feature = "postgres")]
use postgres::Lagging;
use redis::{Pair, Single};
use redlock::Three;
use stopped::Stoppable;
use taken_away::Robbed;

/// The smallest number of servers that survives the loss of one.
const SEVERAL: usize = 3;
/// The names of three servers that are alike.
const THREE: [&str; SEVERAL] = ["first server", "second server", "third server"];
/// The name of the server that leads the others.
const LEADER: &str = "leader";

/// Makes a Redis server keep every write.
const KEEPS_ALL: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// For how long servers are stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// For less than a lease.
    WithinLease,
    /// For more than a lease.
    BeyondLease,
}

/// Something that the lab observed during an event, and when.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) at: Instant,
    pub(super) what: What,
}

/// The servers of one trial. They are stopped when this value is dropped.
pub(super) trait Servers {
    /// Returns the store as the processes reach it, before and after the failure.
    fn store(&self) -> TrialStore;

    /// Returns the address of the server that is the primary at first, if another one takes over while it lives on.
    fn first_primary(&self) -> Option<SocketAddr> {
        None
    }

    /// Cuts a server off from what the others write. Does nothing by default.
    fn cut_off(&mut self) -> Result<Vec<Seen>, Failure> {
        Ok(Vec::new())
    }

    /// Kills the server that has the watched lock. Does nothing by default.
    fn kill(&mut self, _: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        Ok(Vec::new())
    }

    /// Stops servers, which keep everything that they have. Does nothing by default.
    fn stop(&mut self, _: Stop) -> Result<Vec<Seen>, Failure> {
        Ok(Vec::new())
    }

    /// Makes clients reach a server at the same address again. Does nothing by default.
    fn serve_again(&mut self, _: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        Ok(Vec::new())
    }

    /// Makes the server do what the scenario is about, and live on. Does nothing by default.
    fn misbehave(&mut self, _: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        Ok(Vec::new())
    }

    /// Inspects the lock when the trial is over, if that matters then.
    fn last_look(&mut self, _: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        Ok(Vec::new())
    }
}

/// The lock that the lab inspects on each server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watched<'a> {
    /// The place where the processes expect the lock.
    pub(super) ground: &'a Ground,
    pub(super) key: &'a str,
    /// Whether the lab knows where this lock keeps its records.
    pub(super) is_known: bool,
}

impl Watched<'_> {
    /// Inspects the lock on one server. Returns `None` if the lab does not know where the lock keeps its records.
    fn on(&self, server: &str, url: &str) -> Result<Option<Seen>, Failure> {
        let state = match (self.ground, self.is_known) {
            (Ground::Redis(endpoint), true) => {
                let space = endpoint.split_once('#').map_or("", |(_, space)| space);
                Ground::Redis(format!("{url}#{space}")).inspect(self.key)?
            }
            (Ground::Postgres(endpoint), true) => {
                let schema = endpoint.rsplit_once('#').map_or("", |(_, schema)| schema);
                Ground::Postgres(format!("{url}#{schema}")).inspect(self.key)?
            }
            (Ground::Locks(servers), true) => locks::inspect_one(url, &servers.name(self.key))?,
            _ => return Ok(None),
        };
        Ok(Some(Seen {
            at: Instant::now(),
            what: What::StoreRead {
                key: self.key.into(),
                taken: state.taken,
                ttl_left_ms: state.ttl_left.map(|left| left.as_secs_f64() * 1e3),
                server: Some(server.into()),
            },
        }))
    }
}

/// Starts the servers that this trial makes fail. Returns `None` for trials that leave the store alone.
pub(super) fn start(trial: &Trial) -> Result<Option<Box<dyn Servers>>, Failure> {
    if !trial.fails_servers() {
        return Ok(None);
    }
    let store = &trial.store;
    Ok(Some(match trial.scenario {
        Scenario::Failover if store.is(&ETCD) => Box::new(Members::start()?),
        Scenario::Failover if store.is(&REDIS) => {
            Box::new(Pair::start(trial.strategy.claims.survives)?)
        }
        #[cfg(feature = "postgres")]
        Scenario::Failover if store.is(&POSTGRES) => Box::new(Lagging::start(store)?),
        Scenario::RestartEmpty if store.is(&REDLOCK) => Box::new(Three::start(store)?),
        Scenario::RestartEmpty if store.is(&REDIS) => Box::new(Single::start()?),
        Scenario::RestartBehind if store.is(&REDIS) => Box::new(Behind::start()?),
        Scenario::ServerClock if store.is(&REDIS) => Box::new(Clocked::start(Jump::Forward)?),
        Scenario::ClockBack if store.is(&REDIS) => Box::new(Clocked::start(Jump::Back)?),
        Scenario::Eviction if store.is(&REDIS) => Box::new(Crowded::start()?),
        Scenario::TakenAway => match Robbed::start(store)? {
            Some(servers) => Box::new(servers),
            None => return Err(not_available(store)),
        },
        Scenario::Deposed => match Deposed::start(store)? {
            Some(servers) => Box::new(servers),
            None => return Err(not_available(store)),
        },
        Scenario::ServerStall => Box::new(Stoppable::start(store)?),
        Scenario::Storm => Box::new(Stoppable::start_durable(store)?),
        Scenario::MajorityDown => Box::new(Majority::start(store)?),
        Scenario::LeaderDeaths if store.is(&ETCD) => Box::new(Leaders::start()?),
        _ => return Err(not_available(store)),
    }))
}

fn not_available(store: &TrialStore) -> Failure {
    let kind = store.kind().title;
    Failure::definite(format!("this trial is not available on {kind}"))
}

/// Inspects the lock where the processes expect it. Sees nothing if the lab does not know where the lock keeps its records, or if the servers
/// do not answer it in time.
fn look_at(watched: &Watched<'_>) -> Vec<Seen> {
    if !watched.is_known {
        return Vec::new();
    }
    let Ok(state) = watched.ground.inspect(watched.key) else {
        return Vec::new();
    };
    vec![Seen {
        at: Instant::now(),
        what: What::StoreRead {
            key: watched.key.into(),
            taken: state.taken,
            ttl_left_ms: state.ttl_left.map(|left| left.as_secs_f64() * 1e3),
            server: None,
        },
    }]
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

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost::stores::KINDS;

    use crate::store::ServerFault;
    use crate::strategy;

    #[test]
    fn a_store_without_such_servers_is_refused_instead_of_replaced() {
        let mut refused = 0;
        for kind in KINDS {
            for scenario in Scenario::ALL {
                if !scenario.fails_servers() {
                    continue;
                }
                let mut trial = Trial::new(scenario, strategy::find("safe").unwrap(), 1);
                trial.store = TrialStore::private(kind);
                if scenario.server_fault(trial.store.facts()) == Some(ServerFault::Available) {
                    continue;
                }
                let failure = start(&trial).err().unwrap();
                assert!(failure.definite, "{failure}");
                let expected = format!("is not available on {}", kind.title);
                assert!(failure.message.ends_with(&expected), "{failure}");
                refused += 1;
            }
        }
        assert!(refused >= 25, "{refused}");
    }

    #[test]
    fn a_trial_that_leaves_the_store_alone_starts_no_servers() {
        let trial = Trial::new(Scenario::Crash, strategy::find("safe").unwrap(), 1);
        assert!(start(&trial).unwrap().is_none());
    }
}
