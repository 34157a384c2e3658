//! Redis servers that lose acknowledged writes: a replicated pair that fails over, and a single server that restarts empty.

use std::time::{Duration, Instant};

use fencepost::stores::kinds::REDIS;
use fencepost_rig::resp::{Connection, Value};
use fencepost_rig::{Direction, Proxy, Redis};

use super::{Seen, Servers, Watched, now, seen};
use crate::history::Change;
use crate::protocol::Failure;
use crate::store::TrialStore;

/// How long a server may take to do what it was asked.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
const PRIMARY: &str = "primary";
const REPLICA: &str = "replica";
pub(super) const SERVER: &str = "server";

/// A primary and its replica, behind an address that moves from one to the other.
pub(super) struct Pair {
    front: Proxy,
    /// The connection from the primary to its replica.
    replication: Proxy,
    primary: Redis,
    replica: Redis,
    /// A replica of the replica. Whoever waits for a replica finds it when the first one has taken over.
    second: Option<Redis>,
}

impl Pair {
    /// Starts both servers and waits until the replica follows the primary. If a second replica is wanted, it follows the first.
    pub(super) fn start(has_second: bool) -> Result<Self, Failure> {
        // Without this setting, the primary waits five seconds for further replicas before it serves the first.
        let primary = Redis::builder().arguments(["--repl-diskless-sync-delay", "0"]);
        let primary = primary.start().map_err(Failure::definite)?;
        let replication = Proxy::start(primary.address()).map_err(Failure::definite)?;
        let port = replication.address().port().to_string();
        let replica = Redis::builder().arguments(["--replicaof", "127.0.0.1", &port]);
        let replica = replica.start().map_err(Failure::definite)?;
        let front = Proxy::start(primary.address()).map_err(Failure::definite)?;
        until(&replica, "replication", "master_link_status:up")?;
        let second = has_second.then(|| replica_of(&replica)).transpose()?;
        Ok(Self {
            front,
            replication,
            primary,
            replica,
            second,
        })
    }
}

impl Servers for Pair {
    fn store(&self) -> TrialStore {
        private(&self.front)
    }

    fn cut_off(&mut self) -> Result<Vec<Seen>, Failure> {
        self.replication.swallow(Direction::ToClient);
        Ok(vec![now(REPLICA, Change::CutOff)])
    }

    fn kill(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        let inspected = watched.on(PRIMARY, &self.primary.url())?;
        let killed = crash(&mut self.primary, PRIMARY)?;
        Ok(inspected.into_iter().chain([killed]).collect())
    }

    fn serve_again(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        ask(&self.replica, &["REPLICAOF", "NO", "ONE"])?;
        until(&self.replica, "replication", "role:master")?;
        if self.second.is_some() {
            // It was told to connect again, and does so within a second.
            until(&self.replica, "replication", "connected_slaves:1")?;
        }
        let inspected = watched.on(REPLICA, &self.replica.url())?;
        self.front.point_at(self.replica.address());
        let promoted = now(REPLICA, Change::Promoted);
        Ok(inspected.into_iter().chain([promoted]).collect())
    }
}

/// Starts a server that follows this one, and waits until it does.
fn replica_of(server: &Redis) -> Result<Redis, Failure> {
    let port = server.address().port().to_string();
    let replica = Redis::builder().arguments(["--replicaof", "127.0.0.1", &port]);
    let replica = replica.start().map_err(Failure::definite)?;
    until(&replica, "replication", "master_link_status:up")?;
    Ok(replica)
}

/// One server that keeps nothing on disk.
pub(super) struct Single {
    front: Proxy,
    server: Redis,
}

impl Single {
    /// Starts the server.
    pub(super) fn start() -> Result<Self, Failure> {
        let server = Redis::start().map_err(Failure::definite)?;
        let front = Proxy::start(server.address()).map_err(Failure::definite)?;
        Ok(Self { front, server })
    }
}

impl Servers for Single {
    fn store(&self) -> TrialStore {
        private(&self.front)
    }

    fn kill(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        let inspected = watched.on(SERVER, &self.server.url())?;
        let killed = crash(&mut self.server, SERVER)?;
        Ok(inspected.into_iter().chain([killed]).collect())
    }

    fn serve_again(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        self.server.restart().map_err(Failure::definite)?;
        let restarted = now(SERVER, Change::RestartedEmpty);
        let inspected = watched.on(SERVER, &self.server.url())?;
        Ok([restarted].into_iter().chain(inspected).collect())
    }
}

/// Returns a private server, as clients reach it through this proxy.
pub(super) fn private(front: &Proxy) -> TrialStore {
    TrialStore::private(&REDIS).at(format!("redis://{}", front.address()))
}

/// Kills the server and makes sure that it is dead.
pub(super) fn crash(server: &mut Redis, name: &str) -> Result<Seen, Failure> {
    // Taken before the kill: from here on the server answers nobody.
    let at = Instant::now();
    server.crash();
    if server.has_ended() {
        Ok(seen(at, name, Change::Killed))
    } else {
        Err(Failure::definite(format!("the {name} did not die")))
    }
}

pub(super) fn ask(server: &Redis, words: &[&str]) -> Result<Value, Failure> {
    let answer = Connection::open(server.address(), ANSWER_TIMEOUT)
        .and_then(|mut connection| connection.ask(words))
        .map_err(Failure::definite)?;
    match answer {
        Value::Error(message) => Err(Failure::definite(message)),
        answer => Ok(answer),
    }
}

/// Waits until a section of the server's `INFO` contains this line.
pub(super) fn until(server: &Redis, section: &str, line: &str) -> Result<(), Failure> {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    loop {
        let info = ask(server, &["INFO", section])?;
        if matches!(&info, Value::Text(info) if info.lines().any(|said| said == line)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let message = format!("no {line} within {} s: {info:?}", ANSWER_TIMEOUT.as_secs());
            return Err(Failure::definite(message));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
