//! The store of a trial: a file, a private server, or one that the user runs.

use fencepost_rig::{Postgres, Redis, RedisError, ServerError};
use fencepost_trial::store::Place;
use fencepost_trial::store::reach::{
    HAS_POSTGRES, NotReached, is_address, is_postgres_address, names_postgres, reach,
    reach_postgres,
};
use fencepost_trial::text::numbers::decimal;

use super::lock_servers::{LockServers, PrivateLockServers};
use super::{PATIENCE, WITH_ALL_STORES};
use crate::exit;
use crate::fault::Fault;
use crate::values::{BadValue, without_password};

/// The value of `--store` for a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrialStore {
    /// A file of this run, shared by its processes.
    Sqlite,
    /// A private Redis server of this run.
    PrivateRedis,
    /// A Redis server at this address.
    Redis(String),
    /// A private Postgres server of this run.
    PrivatePostgres,
    /// A Postgres database at this address.
    Postgres(String),
    /// Servers that keep locks and nothing else.
    Locks(LockServers),
}

/// A place that can be used.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) place: Place,
    // Lives as long as the place is used.
    pub(super) _server: PrivateServer,
}

/// A server that was started for this run.
#[derive(Debug)]
pub(super) enum PrivateServer {
    None,
    Redis(#[expect(dead_code, reason = "only kept alive")] Redis),
    Postgres(#[expect(dead_code, reason = "only kept alive")] Postgres),
    Locks(#[expect(dead_code, reason = "only kept alive")] PrivateLockServers),
}

impl TrialStore {
    pub(crate) fn parse(text: &str) -> Result<Self, BadValue> {
        if let Some(servers) = LockServers::parse(text) {
            return servers.map(Self::Locks);
        }
        match text {
            "sqlite" => Ok(Self::Sqlite),
            "redis" => Ok(Self::PrivateRedis),
            url if is_address(url) => Ok(Self::Redis(url.to_owned())),
            url if url.starts_with("redis://") => Err(BadValue {
                what: format!("'{}' is not the address of a server", without_password(url)),
                advice: "redis://HOST, redis://HOST:PORT or redis://USER:PASSWORD@HOST:PORT/DATABASE".into(),
            }),
            name if (name == "postgres" || names_postgres(name)) && !HAS_POSTGRES => Err(BadValue {
                what: "this program was built without Postgres".into(),
                advice: format!(
                    "{WITH_ALL_STORES} · --store sqlite or redis meanwhile"
                ),
            }),
            "postgres" => Ok(Self::PrivatePostgres),
            url if is_postgres_address(url) => Ok(Self::Postgres(url.to_owned())),
            url if names_postgres(url) => Err(BadValue {
                what: format!("'{}' is not the address of a database", without_password(url)),
                advice: "postgres://USER@HOST/DATABASE or postgres://USER:PASSWORD@HOST:PORT/DATABASE".into(),
            }),
            other => Err(BadValue {
                what: format!(
                    "there is no store '{}' in this version",
                    without_password(other)
                ),
                advice: "--store sqlite: a file, nothing to install · redis, postgres, redlock, etcd, zk: private servers · \
                    redis://HOST and so on: yours"
                    .into(),
            }),
        }
    }

    /// What `--store` calls it, fit to be shown.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Sqlite => "sqlite".into(),
            Self::PrivateRedis => "redis".into(),
            Self::PrivatePostgres => "postgres".into(),
            Self::Locks(servers) => servers.name(),
            Self::Redis(url) | Self::Postgres(url) => without_password(url),
        }
    }

    /// Starts what has to be started, and makes sure that it answers.
    pub(crate) fn open(&self) -> Result<Site, Fault> {
        match self {
            Self::Sqlite => Ok(Site {
                place: Place::Sqlite,
                _server: PrivateServer::None,
            }),
            Self::PrivateRedis => {
                let server = Redis::start().map_err(|error| no_server(&error, "redis"))?;
                let (url, name) = (server.url(), "redis".to_owned());
                Ok(Site {
                    place: Place::Redis { url, name },
                    _server: PrivateServer::Redis(server),
                })
            }
            Self::Redis(url) => {
                let name = without_password(url);
                reach(url, PATIENCE).map_err(|reason| not_reached(&name, &reason))?;
                Ok(Site {
                    place: Place::Redis {
                        url: url.clone(),
                        name,
                    },
                    _server: PrivateServer::None,
                })
            }
            Self::Locks(servers) => servers.open(),
            Self::PrivatePostgres => {
                // It outlives no power failure: waiting for the disk would only slow the trials down.
                let server = Postgres::start_with(&["fsync=off"]);
                let server = server.map_err(|error| no_postgres(&error))?;
                let (url, name) = (server.url(), "postgres".to_owned());
                Ok(Site {
                    place: Place::Postgres { url, name },
                    _server: PrivateServer::Postgres(server),
                })
            }
            Self::Postgres(url) => {
                let name = without_password(url);
                let reached = reach_postgres(url, PATIENCE);
                reached.map_err(|reason| postgres_not_reached(&name, &reason))?;
                Ok(Site {
                    place: Place::Postgres {
                        url: url.clone(),
                        name,
                    },
                    _server: PrivateServer::None,
                })
            }
        }
    }
}

pub(super) fn no_server(error: &RedisError, store: &str) -> Fault {
    if matches!(error, RedisError::NotInstalled) {
        let what = format!("--store {store} starts a private redis-server, and none is installed");
        let fault = Fault::new(exit::STORE, what).at(error);
        return fault.try_this(format_args!(
            "{} · --store {store}://HOST for your own",
            RedisError::INSTALL
        ));
    }
    let fault = Fault::new(exit::STORE, "cannot start a private redis-server").at(error);
    let words = match error {
        RedisError::NotRunning { last_words, .. } => last_words.as_slice(),
        _ => &[],
    };
    let fault = words
        .iter()
        .fold(fault, |fault, words| fault.with("said", words));
    fault.effect("none: no process was started")
}

fn no_postgres(error: &ServerError) -> Fault {
    match error {
        ServerError::NotInstalled { what, install } => {
            let what_then = "--store postgres starts a private server, and none is installed";
            Fault::new(exit::STORE, what_then)
                .at(format_args!("no {what} in /usr/lib/postgresql"))
                .try_this(format_args!(
                    "{install} · --store postgres://USER@HOST/DATABASE for your own"
                ))
        }
        ServerError::NotRunning {
            program,
            what,
            last_words,
        } => {
            let place = format!("{}: {what}", program.display());
            let fault = Fault::new(exit::STORE, "cannot start a private Postgres").at(place);
            let fault = last_words
                .iter()
                .fold(fault, |fault, words| fault.with("said", words));
            fault.effect("none: no process was started")
        }
        error => Fault::new(exit::STORE, "cannot start a private Postgres")
            .at(error)
            .effect("none: no process was started"),
    }
}

fn postgres_not_reached(name: &str, reason: &NotReached) -> Fault {
    let others = "--store postgres for a private one · no --store for sqlite";
    let effect = "none: no process was started";
    match reason {
        NotReached::Silent(words) => {
            let tried = decimal(PATIENCE.as_secs_f64());
            Fault::new(exit::STORE, "cannot reach the store")
                .at(format_args!("{name}: {words}, tried for {tried} s"))
                .effect(effect)
                .try_this(format_args!("start Postgres there · {others}"))
        }
        NotReached::Refuses(words) => Fault::new(exit::STORE, "cannot use the store")
            .at(format_args!("{name}: {words}"))
            .effect(effect)
            .try_this(format_args!(
                "postgres://USER:PASSWORD@HOST/DATABASE · {others}"
            )),
    }
}

fn not_reached(name: &str, reason: &NotReached) -> Fault {
    let others = "--store redis for a private one · no --store for sqlite";
    let effect = "none: no process was started";
    match reason {
        NotReached::Silent(words) => {
            let tried = decimal(PATIENCE.as_secs_f64());
            Fault::new(exit::STORE, "cannot reach the store")
                .at(format_args!("{name}: {words}, tried for {tried} s"))
                .effect(effect)
                .try_this(format_args!("start Redis there · {others}"))
        }
        NotReached::Refuses(words) if words.starts_with("parse error") => {
            Fault::new(exit::STORE, "this is not a Redis server")
                .at(format_args!("{name}: answers, but not as Redis does"))
                .effect(effect)
                .try_this(format_args!("another HOST:PORT · {others}"))
        }
        NotReached::Refuses(words) => Fault::new(exit::STORE, "cannot use the store")
            .at(format_args!("{name}: {words}"))
            .effect(effect)
            .try_this(format_args!("redis://USER:PASSWORD@HOST · {others}")),
    }
}

#[cfg(test)]
mod tests {
    use fencepost_trial::text::ink::Ink;

    use super::*;

    #[test]
    fn a_store_is_named_or_given_by_its_address() {
        assert_eq!(TrialStore::parse("sqlite"), Ok(TrialStore::Sqlite));
        assert_eq!(TrialStore::parse("redis"), Ok(TrialStore::PrivateRedis));
        assert_eq!(
            TrialStore::parse("redis://cache"),
            Ok(TrialStore::Redis("redis://cache".into()))
        );
        let refused = TrialStore::parse("redis://u:hunter2@h:port").unwrap_err();
        assert_eq!(
            refused.what,
            "'redis://u:***@h:port' is not the address of a server"
        );
        let refused = TrialStore::parse("mysql://u:hunter2@h").unwrap_err();
        assert!(!refused.what.contains("hunter2"), "{}", refused.what);
    }

    #[test]
    fn where_no_postgres_is_installed_the_way_to_one_is_told() {
        let missing = ServerError::NotInstalled {
            what: "Postgres",
            install: "apt-get install postgresql",
        };
        let told = no_postgres(&missing).text(Ink::PLAIN);
        assert_eq!(
            told,
            "error: --store postgres starts a private server, and none is installed\n  \
             where     no Postgres in /usr/lib/postgresql\n  \
             try       apt-get install postgresql · --store postgres://USER@HOST/DATABASE for your own\n"
        );
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_database_is_named_or_given_by_its_address() {
        assert_eq!(
            TrialStore::parse("postgres"),
            Ok(TrialStore::PrivatePostgres)
        );
        for url in ["postgres://u@h/d", "postgresql://u:p@h:1/d"] {
            assert_eq!(TrialStore::parse(url), Ok(TrialStore::Postgres(url.into())));
        }
        let refused = TrialStore::parse("postgres://u:hunter2@h:port/d").unwrap_err();
        assert!(!refused.what.contains("hunter2"), "{}", refused.what);
    }
}
