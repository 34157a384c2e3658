//! Where a command takes place: a file, a private server, or the user's own.

use std::time::Duration;

use fencepost_rig::{Redis, RedisError};
use fencepost_trial::ground::Place;
use fencepost_trial::ground::reach::{NotReached, is_address, reach};
use fencepost_trial::report::numbers::decimal;

use crate::arguments::{BadValue, without_password};
use crate::exit;
use crate::fault::Fault;

/// How long a server is tried that does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

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
            url if is_address(url) => Ok(Self::Redis(url.to_owned())),
            url if url.starts_with("redis://") => Err(BadValue {
                what: format!("'{}' is not the address of a server", without_password(url)),
                advice: "redis://HOST, redis://HOST:PORT or redis://USER:PASSWORD@HOST:PORT/DATABASE".into(),
            }),
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

    /// What `--store` calls it, fit to be shown.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Sqlite => "sqlite".into(),
            Self::PrivateRedis => "redis".into(),
            Self::Redis(url) => without_password(url),
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
                reach(url, PATIENCE).map_err(|reason| not_reached(&name, &reason))?;
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
    use super::*;

    #[test]
    fn a_store_is_named_or_given_by_its_address() {
        assert_eq!(Store::parse("sqlite"), Ok(Store::Sqlite));
        assert_eq!(Store::parse("redis"), Ok(Store::PrivateRedis));
        assert_eq!(
            Store::parse("redis://cache"),
            Ok(Store::Redis("redis://cache".into()))
        );
        let refused = Store::parse("redis://u:hunter2@h:port").unwrap_err();
        assert_eq!(
            refused.what,
            "'redis://u:***@h:port' is not the address of a server"
        );
        let refused = Store::parse("etcd://u:hunter2@h").unwrap_err();
        assert!(!refused.what.contains("hunter2"), "{}", refused.what);
    }
}
