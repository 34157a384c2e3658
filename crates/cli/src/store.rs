//! Where a command takes place: a file, a private server, or the user's own.

use fencepost_rig::{Redis, RedisError};
use fencepost_trial::ground::{Ground, Place};
use fencepost_trial::strategy::Strategy;

use crate::arguments::{BadValue, without_password};
use crate::exit;
use crate::fault::Fault;

/// What `--store` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Store {
    /// A file of this run, shared by its processes.
    Sqlite,
    /// A private Redis server of this run.
    PrivateRedis,
    /// A Redis server at this address.
    Redis(String),
}

/// A place that can be used.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) place: Place,
    // Lives as long as the place is used.
    _server: Option<Redis>,
}

impl Store {
    pub(crate) fn parse(text: &str) -> Result<Self, BadValue> {
        match text {
            "sqlite" => Ok(Self::Sqlite),
            "redis" => Ok(Self::PrivateRedis),
            url if url.starts_with("redis://") => Ok(Self::Redis(url.to_owned())),
            other => Err(BadValue {
                what: format!(
                    "there is no store '{}' in this version",
                    without_password(other)
                ),
                advice: "--store sqlite: a file, nothing to install · redis: a private server · redis://HOST"
                    .into(),
            }),
        }
    }

    /// Starts what has to be started, and makes sure that it answers.
    pub(crate) fn open(&self) -> Result<Site, Fault> {
        match self {
            Self::Sqlite => Ok(Site {
                place: Place::Sqlite,
                _server: None,
            }),
            Self::PrivateRedis => {
                let server = Redis::start().map_err(|error| no_server(&error))?;
                let (url, name) = (server.url(), "redis".to_owned());
                Ok(Site {
                    place: Place::Redis { url, name },
                    _server: Some(server),
                })
            }
            Self::Redis(url) => {
                let name = without_password(url);
                Ground::Redis(url.clone())
                    .stock()
                    .map_err(|failure| unreachable(&name, &failure.message))?;
                Ok(Site {
                    place: Place::Redis {
                        url: url.clone(),
                        name,
                    },
                    _server: None,
                })
            }
        }
    }
}

impl Site {
    /// Refuses a strategy that does not exist here.
    pub(crate) fn check(&self, strategy: &Strategy) -> Result<(), Fault> {
        if strategy.exists_at(&self.place) {
            return Ok(());
        }
        let what = format!("{} is not available on redis yet", strategy.name);
        let fault = Fault::new(exit::USAGE, what);
        let at = format!("--lock={} --store {}", strategy.name, self.place.name());
        Err(fault.at(at).try_this("--store sqlite, or --lock=safe"))
    }
}

fn no_server(error: &RedisError) -> Fault {
    if matches!(error, RedisError::NotInstalled) {
        let what = "--store redis starts a private redis-server, and none is installed";
        let fault = Fault::new(exit::STORE, what).at(error);
        return fault.try_this(format_args!(
            "{} · --store redis://HOST for your own",
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

fn unreachable(name: &str, message: &str) -> Fault {
    let message = message.trim_start_matches("redis: ");
    Fault::new(exit::STORE, "cannot reach the store")
        .at(format_args!("{name}: {message}"))
        .effect("none: no process was started")
        .try_this("start Redis there · --store redis for a private one · no --store for sqlite")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_named_or_given_by_its_address() {
        assert_eq!(Store::parse("sqlite"), Ok(Store::Sqlite));
        assert_eq!(Store::parse("redis"), Ok(Store::PrivateRedis));
        assert_eq!(
            Store::parse("redis://cache"),
            Ok(Store::Redis("redis://cache".into()))
        );
        let refused = Store::parse("etcd://u:hunter2@h").unwrap_err();
        assert!(!refused.what.contains("hunter2"), "{}", refused.what);
    }
}
