//! Servers that keep locks and nothing else: started for one run, or the user's own.

use fencepost_rig::{Etcd, EtcdCluster, Redis, RedisError, ServerError, Zookeeper};
use fencepost_trial::store::Place;
use fencepost_trial::store::locks::{self, Kind};
use fencepost_trial::store::reach::NotReached;
use fencepost_trial::text::numbers::decimal;

use super::server_kind::ServerKind;
use super::trial_store::{PrivateServer, Site, no_server};
use super::{PATIENCE, WITH_ALL_STORES};
use crate::exit;
use crate::fault::Fault;
use crate::values::{BadValue, without_password};

/// The least that outlives the loss of one.
const SERVERS: usize = 3;
const NOTHING: &str = "none: no process was started";

/// The value of `--store` for such servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockServers {
    pub(crate) kind: Kind,
    /// As it was typed: a name for private ones, or an address.
    typed: String,
}

/// What was started for this run.
#[derive(Debug)]
#[expect(dead_code, reason = "only kept alive")]
pub(super) enum PrivateLockServers {
    Redlock(Vec<Redis>),
    Etcd(EtcdCluster),
    Zookeeper(Zookeeper),
}

impl LockServers {
    /// `None` if `text` names another kind of store.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, BadValue>> {
        let kind = Kind::of(text)?;
        if !kind.is_built_in() {
            return Some(Err(BadValue {
                what: format!("this program was built without {}", kind.title()),
                advice: format!("{WITH_ALL_STORES} · --store sqlite or redis meanwhile"),
            }));
        }
        let typed = text.to_owned();
        let is_plain = typed.contains("://") || typed == kind.name();
        let is_delayed = typed.contains('?') && locks::restart_delay(&typed).is_some();
        Some(match is_plain || is_delayed {
            true => Ok(Self { kind, typed }),
            false => Err(BadValue {
                what: format!("there is no store '{text}' in this version"),
                advice: "--store redlock · --store 'redlock?restart_delay=30s'".into(),
            }),
        })
    }

    /// Private ones of this kind.
    pub(crate) fn private(kind: Kind) -> Self {
        Self {
            kind,
            typed: kind.name().into(),
        }
    }

    pub(crate) fn is_private(&self) -> bool {
        !self.typed.contains("://")
    }

    /// What `--store` calls them, fit to be shown.
    pub(crate) fn name(&self) -> String {
        without_password(&self.typed)
    }

    /// `?restart_delay=30s`, if anything.
    fn parameters(&self) -> &str {
        let at = self.typed.find('?').unwrap_or(self.typed.len());
        &self.typed[at..]
    }

    pub(super) fn open(&self) -> Result<Site, Fault> {
        if !self.is_private() {
            let name = self.name();
            locks::reach(&self.typed, PATIENCE).map_err(|reason| self.not_reached(&reason))?;
            return Ok(Site {
                place: Place::Locks {
                    url: self.typed.clone(),
                    name,
                },
                _server: PrivateServer::None,
            });
        }
        let (url, started) = self.start()?;
        let place = Place::Locks {
            url,
            name: self.typed.clone(),
        };
        // Whether they serve, and whether what was asked of them makes sense.
        if let Place::Locks { url, .. } = &place {
            locks::reach(url, 10 * PATIENCE).map_err(|reason| self.not_reached(&reason))?;
        }
        Ok(Site {
            place,
            _server: PrivateServer::Locks(started),
        })
    }

    fn start(&self) -> Result<(String, PrivateLockServers), Fault> {
        match self.kind {
            Kind::Redlock => {
                let started = (0..SERVERS).map(|_| Redis::start());
                let servers: Result<Vec<Redis>, RedisError> = started.collect();
                let servers = servers.map_err(|error| no_server(&error, "redlock"))?;
                let hosts: Vec<String> = servers
                    .iter()
                    .map(|server| server.address().to_string())
                    .collect();
                let url = format!("redlock://{}{}", hosts.join(","), self.parameters());
                locks::grow_old(&self.typed);
                Ok((url, PrivateLockServers::Redlock(servers)))
            }
            Kind::Etcd => {
                let cluster = EtcdCluster::start(SERVERS);
                let cluster = cluster.map_err(|error| self.not_started(&error))?;
                Ok((cluster.url(), PrivateLockServers::Etcd(cluster)))
            }
            Kind::Zookeeper => {
                let server = Zookeeper::start();
                let server = server.map_err(|error| self.not_started(&error))?;
                Ok((
                    format!("zk://{}", server.address()),
                    PrivateLockServers::Zookeeper(server),
                ))
            }
        }
    }

    /// For a trial that starts and kills its own: only whether it can.
    pub(crate) fn open_to_fail(&self) -> Result<Site, Fault> {
        let is_installed = match self.kind {
            Kind::Redlock => Redis::is_installed(),
            Kind::Etcd => Etcd::is_installed(),
            Kind::Zookeeper => Zookeeper::is_installed(),
        };
        if !is_installed {
            return Err(self.not_installed(None));
        }
        let name = self.typed.clone();
        Ok(Site {
            place: Place::Locks {
                url: name.clone(),
                name,
            },
            _server: PrivateServer::None,
        })
    }

    fn not_started(&self, error: &ServerError) -> Fault {
        match error {
            ServerError::NotInstalled { install, .. } => self.not_installed(Some(install)),
            ServerError::NotRunning {
                program,
                what,
                last_words,
            } => {
                let fault = self.cannot_start();
                let fault = fault.at(format_args!("{}: {what}", program.display()));
                let fault = last_words
                    .iter()
                    .fold(fault, |fault, words| fault.with("said", words));
                fault.effect(NOTHING)
            }
            error => self.cannot_start().at(error).effect(NOTHING),
        }
    }

    fn cannot_start(&self) -> Fault {
        let what = format!("cannot start a private {}", self.kind.title());
        Fault::new(exit::STORE, what)
    }

    fn not_installed(&self, install: Option<&str>) -> Fault {
        let (what, install) = match (self.kind, install) {
            (Kind::Redlock, _) => ("no redis-server in PATH", RedisError::INSTALL),
            (Kind::Etcd, told) => (
                "no etcd or etcdctl in PATH",
                told.unwrap_or("apt-get install etcd-server etcd-client"),
            ),
            (Kind::Zookeeper, told) => (
                "no ZooKeeper in /usr/share/java, or no java",
                told.unwrap_or("apt-get install zookeeper default-jdk-headless"),
            ),
        };
        let name = self.kind.name();
        let title = format!("--store {name} starts private servers, and none is installed");
        Fault::new(exit::STORE, title)
            .at(what)
            .effect(NOTHING)
            .try_this(format_args!(
                "{install} · --store {name}://HOST for your own"
            ))
    }

    fn not_reached(&self, reason: &NotReached) -> Fault {
        let (name, kind) = (self.name(), self.kind.name());
        let others = format!("--store {kind} for private ones · no --store for sqlite");
        match reason {
            NotReached::Silent(words) => {
                let tried = decimal(PATIENCE.as_secs_f64());
                Fault::new(exit::STORE, "cannot reach the store")
                    .at(format_args!("{name}: {words}, tried for {tried} s"))
                    .effect(NOTHING)
                    .try_this(format_args!("start {} there · {others}", self.kind.title()))
            }
            NotReached::Refuses(words) => {
                let form = ServerKind::of(&self.typed).map_or("", |server| server.form);
                Fault::new(exit::STORE, "cannot use the store")
                    .at(format_args!("{name}: {words}"))
                    .effect(NOTHING)
                    .try_this(format_args!("--store {form} · {others}"))
            }
        }
    }
}
