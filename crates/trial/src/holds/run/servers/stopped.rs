//! Servers that are out of action for a while and come back with everything that they had: the only one, the leader, or some of three. They
//! are stopped (SIGSTOP) and go on, or killed and started again.

use std::time::{Duration, Instant};

use fencepost::stores::kinds::{ETCD, POSTGRES, REDIS, REDLOCK, ZOOKEEPER};
use fencepost_rig::{EtcdCluster, Postgres, Redis, RedisBuilder, Signal, Zookeeper};

use super::question::Question;
use super::redis::{ANSWER_TIMEOUT, SERVER};
use super::{KEEPS_ALL, LEADER, SEVERAL, Seen, Servers, Stop, THREE, Watched, look_at, now, seen};
use crate::history::Change;
use crate::protocol::Failure;
use crate::store::{TrialStore, locks};

/// How long it may take until a server is seen to be stopped.
const TO_STOP: Duration = Duration::from_secs(10);
/// How often the lab looks whether a server of several processes is stopped.
const LOOK: Duration = Duration::from_millis(1);

/// Servers that can be stopped.
enum Programs {
    Redis(Redis),
    Redlock(Vec<Redis>),
    Postgres(Postgres),
    Etcd(EtcdCluster),
    Zookeeper(Zookeeper),
}

/// The servers of a trial, some of which are stopped now.
pub(super) struct Stoppable {
    programs: Programs,
    /// The store that the user asked for.
    store: TrialStore,
    /// Those that are stopped, each with a question that it has not answered.
    stopped: Vec<(usize, Question)>,
    /// The one that is dead.
    dead: Option<usize>,
}

impl Stoppable {
    /// Starts the servers of this store and waits until they serve clients.
    pub(super) fn start(store: &TrialStore) -> Result<Self, Failure> {
        Self::start_with(store, &Redis::builder())
    }

    /// Starts servers that also keep everything if they are killed.
    pub(super) fn start_durable(store: &TrialStore) -> Result<Self, Failure> {
        Self::start_with(store, &Redis::builder().arguments(KEEPS_ALL))
    }

    fn start_with(store: &TrialStore, redis: &RedisBuilder) -> Result<Self, Failure> {
        Ok(Self {
            programs: Programs::start(store, redis)?,
            store: store.clone(),
            stopped: Vec::new(),
            dead: None,
        })
    }
}

impl Programs {
    fn start(store: &TrialStore, redis: &RedisBuilder) -> Result<Self, Failure> {
        let redis = || redis.start().map_err(Failure::definite);
        Ok(match store {
            store if store.is(&REDIS) => Self::Redis(redis()?),
            store if store.is(&REDLOCK) => {
                let servers = (0..SEVERAL).map(|_| redis());
                let servers = servers.collect::<Result<_, _>>()?;
                locks::wait_until_voting(store);
                Self::Redlock(servers)
            }
            store if store.is(&POSTGRES) => {
                let server = Postgres::start_with(&["fsync=off"]);
                Self::Postgres(server.map_err(Failure::definite)?)
            }
            store if store.is(&ETCD) => {
                let cluster = EtcdCluster::start(SEVERAL);
                Self::Etcd(cluster.map_err(Failure::definite)?)
            }
            store if store.is(&ZOOKEEPER) => {
                Self::Zookeeper(Zookeeper::start().map_err(Failure::definite)?)
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
        match self {
            Self::Redis(server) => server.url(),
            Self::Redlock(servers) => {
                let hosts = servers.iter().map(|server| server.address().to_string());
                let hosts = hosts.collect::<Vec<_>>().join(",");
                format!("redlock://{hosts}{parameters}")
            }
            Self::Postgres(server) => format!("{}{parameters}", server.url()),
            Self::Etcd(cluster) => cluster.url(),
            Self::Zookeeper(server) => format!("zk://{}", server.address()),
        }
    }

    /// Returns which servers are stopped: those without which the lock cannot be taken, or fewer for a short time.
    fn chosen(&self, stop: Stop) -> Result<Vec<usize>, Failure> {
        Ok(match (self, stop) {
            (Self::Redlock(_), Stop::BeyondLease) => vec![0, 1],
            (Self::Etcd(cluster), _) => {
                let leader = cluster.leader();
                vec![leader.ok_or_else(|| Failure::definite("etcd elects no leader"))?]
            }
            _ => vec![0],
        })
    }

    fn name(&self, number: usize) -> &'static str {
        match self {
            Self::Redlock(_) => THREE[number],
            Self::Etcd(_) => LEADER,
            Self::Redis(_) | Self::Postgres(_) | Self::Zookeeper(_) => SERVER,
        }
    }

    fn signal(&self, number: usize, signal: Signal) -> Result<(), Failure> {
        let sent = match self {
            Self::Redis(server) => server.signal(signal),
            Self::Redlock(servers) => servers[number].signal(signal),
            Self::Postgres(server) => server.signal(signal),
            Self::Etcd(cluster) => cluster.members()[number].signal(signal),
            Self::Zookeeper(server) => server.signal(signal),
        };
        sent.map_err(Failure::definite)
    }

    /// Kills a server. Returns whether it is dead.
    fn crash(&mut self, number: usize) -> bool {
        match self {
            Self::Redis(server) => crash_redis(server),
            Self::Redlock(servers) => crash_redis(&mut servers[number]),
            Self::Postgres(server) => {
                server.crash();
                server.has_ended()
            }
            Self::Etcd(cluster) => {
                cluster.member(number).crash();
                cluster.member(number).has_ended()
            }
            Self::Zookeeper(server) => {
                server.crash();
                server.has_ended()
            }
        }
    }

    /// Starts a dead server again and waits until it serves clients.
    fn restart(&mut self, number: usize) -> Result<(), Failure> {
        let restarted = match self {
            Self::Redis(server) => server.restart(),
            Self::Redlock(servers) => servers[number].restart(),
            Self::Postgres(server) => server.restart(),
            Self::Etcd(cluster) => cluster.member(number).restart(),
            Self::Zookeeper(server) => server.restart(),
        };
        restarted.map_err(Failure::definite)
    }

    /// Waits until all processes of a server are in state T.
    fn is_stopped(&self, number: usize) -> bool {
        match self {
            Self::Redis(server) => server.wait_stopped(TO_STOP),
            Self::Redlock(servers) => servers[number].wait_stopped(TO_STOP),
            Self::Postgres(server) => {
                let deadline = Instant::now() + TO_STOP;
                while !server.is_stopped() && Instant::now() < deadline {
                    std::thread::sleep(LOOK);
                }
                server.is_stopped()
            }
            Self::Etcd(cluster) => cluster.members()[number].wait_stopped(TO_STOP),
            Self::Zookeeper(server) => server.wait_stopped(TO_STOP),
        }
    }

    /// Asks a server something that it answers at once if it runs.
    fn ask(&self, number: usize) -> Result<Question, Failure> {
        match self {
            Self::Redis(server) => Question::of_redis(server.address()),
            Self::Redlock(servers) => Question::of_redis(servers[number].address()),
            Self::Postgres(server) => Question::of_postgres(server.address()),
            Self::Etcd(cluster) => Question::of_etcd(cluster.members()[number].health_address()),
            Self::Zookeeper(server) => Question::of_zookeeper(server.address()),
        }
    }
}

fn crash_redis(server: &mut Redis) -> bool {
    server.crash();
    server.has_ended()
}

impl Servers for Stoppable {
    fn store(&self) -> TrialStore {
        let address = self.programs.url(self.store.parameters());
        self.store.clone().at(address)
    }

    fn kill(&mut self, _: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        let mut all = Vec::new();
        for number in self.programs.chosen(Stop::WithinLease)? {
            // Taken before the kill: from here on the server answers nobody.
            let at = Instant::now();
            if !self.programs.crash(number) {
                return Err(Failure::definite("a server did not die"));
            }
            all.push(seen(at, self.programs.name(number), Change::Killed));
            self.dead = Some(number);
        }
        Ok(all)
    }

    fn stop(&mut self, stop: Stop) -> Result<Vec<Seen>, Failure> {
        let mut all = Vec::new();
        for number in self.programs.chosen(stop)? {
            // A server that does not answer while it runs would show nothing by its silence.
            if !self.programs.ask(number)?.is_answered(ANSWER_TIMEOUT) {
                return Err(Failure::definite("a server does not answer the lab"));
            }
            self.programs.signal(number, Signal::SIGSTOP)?;
            let is_stopped = self.programs.is_stopped(number);
            let at = Instant::now();
            let question = self.programs.ask(number)?;
            self.stopped.push((number, question));
            if is_stopped {
                all.push(seen(at, self.programs.name(number), Change::Stopped));
            }
        }
        Ok(all)
    }

    fn serve_again(&mut self, _: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        let mut all = Vec::new();
        let stopped = std::mem::take(&mut self.stopped);
        for (number, question) in &stopped {
            if !question.is_answered(Duration::ZERO) {
                all.push(now(self.programs.name(*number), Change::Silent));
            }
        }
        for (number, question) in &stopped {
            self.programs.signal(*number, Signal::SIGCONT)?;
            if !question.is_answered(ANSWER_TIMEOUT) {
                return Err(Failure::definite("a server does not go on"));
            }
            // When it has answered, not when the signal was sent: a lock must not be blamed for a server that is slow to go on.
            all.push(now(self.programs.name(*number), Change::Continued));
        }
        if let Some(number) = self.dead.take() {
            self.programs.restart(number)?;
            all.push(now(self.programs.name(number), Change::Restarted));
        }
        Ok(all)
    }

    fn last_look(&mut self, watched: &Watched<'_>) -> Result<Vec<Seen>, Failure> {
        Ok(look_at(watched))
    }
}
