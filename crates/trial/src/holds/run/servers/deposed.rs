//! A primary that lives on when its copy has taken over: its clients go on talking to it, and everybody else reaches the new primary.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

#[cfg(feature = "postgres")]
use fencepost::stores::kinds::POSTGRES;
use fencepost::stores::kinds::REDIS;
use fencepost_rig::{Proxy, Redis};

#[cfg(feature = "postgres")]
use super::postgres::Synchronous;
use super::redis::{ANSWER_TIMEOUT, ask, until};
use super::{Seen, Servers, Watched, now};
use crate::history::Change;
use crate::protocol::Failure;
use crate::store::TrialStore;

const OLD: &str = "old primary";

/// A primary, and a copy of it that is ready to take over.
pub(super) trait Copied {
    /// The name of the copy.
    fn copy(&self) -> &'static str;

    /// Returns the address of the primary.
    fn primary(&self) -> SocketAddr;

    /// Returns the store, as clients reach it through this proxy.
    fn behind(&self, front: &Proxy) -> TrialStore;

    /// Makes the copy a primary once it has everything that the old one has. Returns its address, and what was seen of the lock there.
    fn promote(&mut self, watched: &Watched<'_>) -> Result<(SocketAddr, Option<Seen>), Failure>;

    /// Returns whether the old primary answers, and takes itself for one.
    fn lives_on(&self) -> Result<bool, Failure>;

    /// Ends the old primary, so that nobody waits for its answers any more.
    fn end(&mut self);
}

/// Both servers, behind an address that moves to the copy.
pub(super) struct Deposed {
    front: Proxy,
    servers: Box<dyn Copied>,
}

impl Deposed {
    /// Starts both servers. Returns `None` if the lab cannot do this with the servers of this store.
    pub(super) fn start(store: &TrialStore) -> Result<Option<Self>, Failure> {
        let servers: Box<dyn Copied> = match store {
            _ if store.is(&REDIS) => Box::new(Replicated::start()?),
            #[cfg(feature = "postgres")]
            _ if store.is(&POSTGRES) => Box::new(Synchronous::start(store)?),
            _ => return Ok(None),
        };
        let front = Proxy::start(servers.primary()).map_err(Failure::definite)?;
        Ok(Some(Self { front, servers }))
    }

    /// Looks whether the old primary is still there.
    fn look(&self) -> Result<Vec<Seen>, Failure> {
        let lives_on = self.servers.lives_on()?;
        let seen = lives_on.then(|| now(OLD, Change::LivesOn));
        Ok(seen.into_iter().collect())
    }
}

impl Servers for Deposed {
    fn store(&self) -> TrialStore {
        self.servers.behind(&self.front)
    }

    fn first_primary(&self) -> Option<SocketAddr> {
        Some(self.servers.primary())
    }

    fn misbehave(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        let (address, inspected) = self.servers.promote(watched)?;
        self.front.point_at(address);
        let promoted = now(self.servers.copy(), Change::Promoted);
        let lives_on = self.look()?;
        let seen = inspected.into_iter().chain([promoted]);
        Ok(seen.chain(lives_on).collect())
    }

    fn last_look(&mut self, _: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        let seen = self.look()?;
        self.servers.end();
        Ok(seen)
    }
}

/// A Redis primary and its replica.
struct Replicated {
    primary: Redis,
    replica: Redis,
}

impl Replicated {
    fn start() -> Result<Self, Failure> {
        // Without this setting, the primary waits five seconds for further replicas before it serves the first.
        let primary = Redis::builder().arguments(["--repl-diskless-sync-delay", "0"]);
        let primary = primary.start().map_err(Failure::definite)?;
        let port = primary.address().port().to_string();
        let replica = Redis::builder().arguments(["--replicaof", "127.0.0.1", &port]);
        let replica = replica.start().map_err(Failure::definite)?;
        until(&replica, "replication", "master_link_status:up")?;
        Ok(Self { primary, replica })
    }

    /// Waits until the replica has everything that the primary had written by now.
    fn catch_up(&self) -> Result<(), Failure> {
        let written = offset(&self.primary)?;
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        while offset(&self.replica)? < written {
            if Instant::now() > deadline {
                let seconds = ANSWER_TIMEOUT.as_secs();
                let message = format!("the replica is still behind after {seconds} s");
                return Err(Failure::definite(message));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// How often the lab asks a server again.
const LOOK: Duration = Duration::from_millis(2);

/// Returns how much of the history of writes a server has.
fn offset(server: &Redis) -> Result<u64, Failure> {
    use fencepost_rig::resp::Value;
    let info = ask(server, &["INFO", "replication"])?;
    let Value::Text(info) = &info else {
        return Err(Failure::definite(format!("{info:?}")));
    };
    let mut lines = info.lines();
    let offset = lines.find_map(|line| line.strip_prefix("master_repl_offset:"));
    let offset = offset.and_then(|offset| offset.parse().ok());
    offset.ok_or_else(|| Failure::definite("the server does not say what it has"))
}

impl Copied for Replicated {
    fn copy(&self) -> &'static str {
        "replica"
    }

    fn primary(&self) -> SocketAddr {
        self.primary.address()
    }

    fn behind(&self, front: &Proxy) -> TrialStore {
        super::redis::private(front)
    }

    fn promote(&mut self, watched: &Watched<'_>) -> Result<(SocketAddr, Option<Seen>), Failure> {
        self.catch_up()?;
        ask(&self.replica, &["REPLICAOF", "NO", "ONE"])?;
        until(&self.replica, "replication", "role:master")?;
        let inspected = watched.on(self.copy(), &self.replica.url())?;
        Ok((self.replica.address(), inspected))
    }

    fn lives_on(&self) -> Result<bool, Failure> {
        until(&self.primary, "replication", "role:master")?;
        Ok(true)
    }

    fn end(&mut self) {
        self.primary.crash();
    }
}
