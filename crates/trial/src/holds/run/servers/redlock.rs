//! Three Redis servers of a Redlock, one of which restarts empty.
//!
//! The third server cannot be reached while the lock is taken, so the lock is on a bare majority. Then the third server is
//! reachable again, and the first restarts without its data: two of the three servers know nothing of the lock.

use fencepost_rig::{Direction, Proxy, Redis};

use super::redis::crash;
use super::{Seen, Servers, THREE, Watched, now};
use crate::history::Change;
use crate::protocol::Failure;
use crate::store::{TrialStore, locks};

const FORGETS: usize = 0;
const CUT_OFF: usize = 2;

/// Three servers that keep nothing on disk, each behind its own proxy.
pub(super) struct Three {
    roads: Vec<Proxy>,
    servers: Vec<Redis>,
    /// The store that the user asked for.
    store: TrialStore,
}

impl Three {
    /// Starts the servers and waits until they vote.
    pub(super) fn start(store: &TrialStore) -> Result<Self, Failure> {
        let servers = THREE.map(|_| Redis::start().map_err(Failure::definite));
        let servers: Vec<Redis> = servers.into_iter().collect::<Result<_, _>>()?;
        let road = |server: &Redis| Proxy::start(server.address()).map_err(Failure::definite);
        let roads = servers.iter().map(road).collect::<Result<_, _>>()?;
        locks::wait_until_voting(store);
        Ok(Self {
            roads,
            servers,
            store: store.clone(),
        })
    }

    /// Inspects the lock on each of these servers that runs.
    fn inspect(&self, watched: &Watched<'_>, which: &[usize]) -> Result<Vec<Seen>, Failure> {
        let inspect = |at: &usize| watched.on(THREE[*at], &self.servers[*at].url());
        let seen: Vec<Option<Seen>> = which.iter().map(inspect).collect::<Result<_, _>>()?;
        Ok(seen.into_iter().flatten().collect())
    }
}

impl Servers for Three {
    fn store(&self) -> TrialStore {
        let hosts: Vec<String> = self
            .roads
            .iter()
            .map(|road| road.address().to_string())
            .collect();
        let parameters = self.store.parameters();
        let address = format!("redlock://{}{parameters}", hosts.join(","));
        self.store.clone().at(address)
    }

    fn cut_off(&mut self) -> Result<Vec<Seen>, Failure> {
        self.roads[CUT_OFF].swallow(Direction::ToServer);
        Ok(vec![now(THREE[CUT_OFF], Change::CutOff)])
    }

    fn kill(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        self.roads[CUT_OFF].heal();
        // Requests that the proxy swallowed are never answered, so clients must reconnect.
        self.roads[CUT_OFF].cut();
        let mut seen = vec![now(THREE[CUT_OFF], Change::Reconnected)];
        seen.extend(self.inspect(watched, &[0, 1, 2])?);
        seen.push(crash(&mut self.servers[FORGETS], THREE[FORGETS])?);
        Ok(seen)
    }

    fn serve_again(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        self.servers[FORGETS].restart().map_err(Failure::definite)?;
        let mut seen = vec![now(THREE[FORGETS], Change::RestartedEmpty)];
        seen.extend(self.inspect(watched, &[FORGETS])?);
        Ok(seen)
    }
}
