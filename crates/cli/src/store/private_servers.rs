//! The private servers that the lab starts for a run, and the error message if they cannot be started.

use std::fmt;

use fencepost::stores::StoreKind;
use fencepost::stores::kinds::{ETCD, POSTGRES, REDIS, REDLOCK, ZOOKEEPER};
use fencepost_rig::{Etcd, EtcdCluster, Postgres, Redis, ServerError, Zookeeper};
use fencepost_trial::store::{TrialStore, private_name, wait_until_voting};

use super::NO_EFFECT;
use crate::command_error::CommandError;
use crate::exit;

/// The smallest cluster that survives the loss of one server.
const SEVERAL: usize = 3;

/// How to start private servers of one kind.
pub(crate) struct PrivateServers {
    kind: &'static StoreKind,
    /// What `--store` starts.
    starts: &'static str,
    /// What is missing if the servers are not installed, and how to install it.
    pub(crate) missing: &'static str,
    pub(crate) install: &'static str,
    pub(crate) is_installed: fn() -> bool,
    start: fn(&TrialStore) -> Result<Started, NotStarted>,
}

/// Running servers and their address.
pub(super) struct Started {
    pub(super) address: String,
    pub(super) servers: Box<dyn fmt::Debug>,
}

/// Why servers could not be started.
enum NotStarted {
    NotInstalled,
    Failed {
        /// The system's message.
        what: String,
        /// The last lines that the server wrote.
        last_words: Vec<String>,
    },
}

/// All kinds of private servers. Trials on other kinds of store need an address.
static ALL: [PrivateServers; 5] = [
    PrivateServers {
        kind: &REDIS,
        starts: "a private redis-server",
        missing: "no redis-server or valkey-server in PATH",
        install: Redis::INSTALL,
        is_installed: Redis::is_installed,
        start: |_| {
            let server = Redis::start()?;
            Ok(Started::at(server.url(), server))
        },
    },
    PrivateServers {
        kind: &REDLOCK,
        starts: "private redis-servers",
        missing: "no redis-server or valkey-server in PATH",
        install: Redis::INSTALL,
        is_installed: Redis::is_installed,
        start: |store| {
            let servers = (0..SEVERAL).map(|_| Redis::start());
            let servers = servers.collect::<Result<Vec<Redis>, ServerError>>()?;
            let hosts = servers.iter().map(|server| server.address().to_string());
            let hosts = hosts.collect::<Vec<_>>().join(",");
            wait_until_voting(store);
            let address = format!("redlock://{hosts}{}", store.parameters());
            Ok(Started::at(address, servers))
        },
    },
    PrivateServers {
        kind: &POSTGRES,
        starts: "a private server",
        missing: "no Postgres in /usr/lib/postgresql",
        install: "apt-get install postgresql",
        is_installed: Postgres::is_installed,
        start: |store| {
            // A trial's data need not survive a power failure, and waiting for the disk would slow the trials down.
            let server = Postgres::start_with(&["fsync=off"])?;
            let address = format!("{}{}", server.url(), store.parameters());
            Ok(Started::at(address, server))
        },
    },
    PrivateServers {
        kind: &ETCD,
        starts: "private servers",
        missing: "no etcd or etcdctl in PATH",
        install: "apt-get install etcd-server etcd-client",
        is_installed: Etcd::is_installed,
        start: |_| {
            let cluster = EtcdCluster::start(SEVERAL)?;
            Ok(Started::at(cluster.url(), cluster))
        },
    },
    PrivateServers {
        kind: &ZOOKEEPER,
        starts: "a private server",
        missing: "no ZooKeeper in /usr/share/java, or no java",
        install: "apt-get install zookeeper default-jdk-headless",
        is_installed: Zookeeper::is_installed,
        start: |_| {
            let server = Zookeeper::start()?;
            Ok(Started::at(format!("zk://{}", server.address()), server))
        },
    },
];

impl PrivateServers {
    /// Returns the private servers of this kind, or `None` if there are none.
    pub(crate) fn of(kind: &StoreKind) -> Option<&'static Self> {
        ALL.iter().find(|servers| servers.kind == kind)
    }

    pub(super) fn start(&self, store: &TrialStore) -> Result<Started, CommandError> {
        (self.start)(store).map_err(|error| match error {
            NotStarted::NotInstalled => self.not_installed(),
            NotStarted::Failed { what, last_words } => {
                let title = format!("cannot start a private {}", self.kind.title);
                let error = CommandError::new(exit::STORE, title).at(what);
                let words = last_words.iter();
                words
                    .fold(error, |error, words| error.with("said", words))
                    .effect(NO_EFFECT)
            }
        })
    }

    pub(super) fn not_installed(&self) -> CommandError {
        let name = private_name(self.kind);
        let title = format!(
            "--store {name} starts {}, and none is installed",
            self.starts
        );
        CommandError::new(exit::STORE, title)
            .at(self.missing)
            .effect(NO_EFFECT)
            .try_this(format_args!(
                "{} · --store {} for your own",
                self.install, self.kind.address_form
            ))
    }
}

impl Started {
    fn at(address: String, servers: impl fmt::Debug + 'static) -> Self {
        Self {
            address,
            servers: Box::new(servers),
        }
    }
}

impl From<ServerError> for NotStarted {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::NotInstalled { .. } => Self::NotInstalled,
            ServerError::NotRunning {
                program,
                what,
                last_words,
            } => Self::Failed {
                what: format!("{}: {what}", program.display()),
                last_words,
            },
            error => Self::Failed {
                what: error.to_string(),
                last_words: Vec::new(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_trial::text::ink::Ink;

    use super::*;

    #[test]
    fn a_missing_postgres_is_reported_with_the_install_command() {
        let error = PrivateServers::of(&POSTGRES).unwrap().not_installed();
        assert_eq!(
            error.text(Ink::PLAIN),
            "error: --store postgres starts a private server, and none is installed\n  \
             where     no Postgres in /usr/lib/postgresql\n  \
             effect    none: no process was started\n  \
             try       apt-get install postgresql · --store postgres://USER[:PASSWORD]@HOST/DATABASE for your own\n"
        );
    }
}
