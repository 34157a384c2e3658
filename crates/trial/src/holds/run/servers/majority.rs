//! Three servers, two of which are killed and started again with their data.

use std::time::Instant;

use fencepost::stores::kinds::{ETCD, REDLOCK, ZOOKEEPER};
use fencepost_rig::{EtcdCluster, Redis, ZookeeperEnsemble};

use super::{KEEPS_ALL, SEVERAL, Seen, Servers, THREE, Watched, look_at, seen};
use crate::history::Change;
use crate::protocol::Failure;
use crate::store::{TrialStore, locks};

/// Three servers of one kind.
enum Programs {
    Redlock(Vec<Redis>),
    Etcd(EtcdCluster),
    Zookeeper(ZookeeperEnsemble),
}

/// The servers of a trial, two of which may be dead.
pub(super) struct Majority {
    programs: Programs,
    /// The store that the user asked for.
    store: TrialStore,
    dead: Vec<usize>,
}

impl Majority {
    /// Starts the servers of this store and waits until they serve clients.
    pub(super) fn start(store: &TrialStore) -> Result<Self, Failure> {
        Ok(Self {
            programs: Programs::start(store)?,
            store: store.clone(),
            dead: Vec::new(),
        })
    }
}

impl Programs {
    fn start(store: &TrialStore) -> Result<Self, Failure> {
        Ok(match store {
            store if store.is(&REDLOCK) => {
                let server = |_| Redis::builder().arguments(KEEPS_ALL).start();
                let servers = (0..SEVERAL).map(server).collect::<Result<_, _>>();
                let servers = servers.map_err(Failure::definite)?;
                locks::wait_until_voting(store);
                Self::Redlock(servers)
            }
            store if store.is(&ETCD) => {
                let cluster = EtcdCluster::start(SEVERAL);
                Self::Etcd(cluster.map_err(Failure::definite)?)
            }
            store if store.is(&ZOOKEEPER) => {
                Self::Zookeeper(ZookeeperEnsemble::start().map_err(Failure::definite)?)
            }
            store => {
                let kind = store.kind().title;
                let message = format!("this trial is not available on {kind}");
                return Err(Failure::definite(message));
            }
        })
    }

    /// Returns the address for clients, with these parameters.
    fn url(&self, parameters: &str) -> String {
        let list = |hosts: &mut dyn Iterator<Item = String>| hosts.collect::<Vec<_>>().join(",");
        match self {
            Self::Redlock(servers) => {
                let hosts = list(&mut servers.iter().map(|server| server.address().to_string()));
                format!("redlock://{hosts}{parameters}")
            }
            Self::Etcd(cluster) => cluster.url(),
            Self::Zookeeper(ensemble) => {
                let servers = ensemble.servers.iter();
                let hosts = list(&mut servers.map(|server| server.address().to_string()));
                format!("zk://{hosts}")
            }
        }
    }

    /// Returns the server that leads the others, if one does; otherwise the first.
    fn leader(&self) -> Result<usize, Failure> {
        let leader = match self {
            Self::Redlock(_) => Some(0),
            Self::Etcd(cluster) => cluster.leader(),
            Self::Zookeeper(ensemble) => ensemble.leader(),
        };
        leader.ok_or_else(|| Failure::definite("nobody leads the servers"))
    }

    /// Kills a server. Returns whether it is dead.
    fn crash(&mut self, number: usize) -> bool {
        match self {
            Self::Redlock(servers) => {
                servers[number].crash();
                servers[number].has_ended()
            }
            Self::Etcd(cluster) => {
                cluster.member(number).crash();
                cluster.member(number).has_ended()
            }
            Self::Zookeeper(ensemble) => {
                ensemble.servers[number].crash();
                ensemble.servers[number].has_ended()
            }
        }
    }

    /// Starts dead servers again and waits until they serve clients.
    fn restart(&mut self, dead: &[usize]) -> Result<(), Failure> {
        match self {
            Self::Redlock(servers) => {
                for number in dead {
                    servers[*number].restart().map_err(Failure::definite)?;
                }
            }
            Self::Etcd(cluster) => {
                // One alone has no majority to serve with.
                for number in dead {
                    let started = cluster.member(*number).respawn();
                    started.map_err(Failure::definite)?;
                }
                for number in dead {
                    let ready = cluster.member(*number).wait_until_ready();
                    ready.map_err(Failure::definite)?;
                }
            }
            Self::Zookeeper(ensemble) => {
                for number in dead {
                    let restarted = ensemble.servers[*number].restart();
                    restarted.map_err(Failure::definite)?;
                }
            }
        }
        Ok(())
    }
}

impl Servers for Majority {
    fn store(&self) -> TrialStore {
        let address = self.programs.url(self.store.parameters());
        self.store.clone().at(address)
    }

    fn kill(&mut self, _: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        let leader = self.programs.leader()?;
        let mut all = Vec::new();
        for number in [leader, (leader + 1) % SEVERAL] {
            // Taken before the kill: from here on the server answers nobody.
            let at = Instant::now();
            if !self.programs.crash(number) {
                return Err(Failure::definite("a server did not die"));
            }
            all.push(seen(at, THREE[number], Change::Killed));
            self.dead.push(number);
        }
        Ok(all)
    }

    fn serve_again(&mut self, _: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        // Taken before: from here on, there may be a majority.
        let at = Instant::now();
        let dead = std::mem::take(&mut self.dead);
        self.programs.restart(&dead)?;
        locks::wait_until_voting(&self.store);
        let back = dead.iter();
        Ok(back
            .map(|number| seen(at, THREE[*number], Change::Restarted))
            .collect())
    }

    fn last_look(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        Ok(look_at(watched))
    }
}
