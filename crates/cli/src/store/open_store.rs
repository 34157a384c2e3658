//! The value of `--store` for trials: opens the store, and starts private servers for it if necessary.

use std::fmt;

use fencepost::stores::kinds::{POSTGRES, REDIS, SQLITE};
use fencepost::stores::{StoreKind, without_password};
use fencepost_trial::store::reach::{HAS_POSTGRES, NotReached, has_valid_address, reach};
use fencepost_trial::store::{TrialStore, private_name, private_names};
use fencepost_trial::text::numbers::decimal;

use super::private_servers::PrivateServers;
use super::{ANSWER_TIMEOUT, NO_EFFECT, WITH_ALL_STORES};
use crate::command_error::CommandError;
use crate::exit;
use crate::values::BadValue;

/// An open store for a trial.
#[derive(Debug)]
pub(crate) struct OpenStore {
    pub(crate) store: TrialStore,
    /// The private servers, if any. They stop when this is dropped.
    _servers: Option<Box<dyn fmt::Debug>>,
}

/// Parses the value of `--store` for a trial.
pub(crate) fn parse_trial_store(text: &str) -> Result<TrialStore, BadValue> {
    let store = TrialStore::named(text).ok_or_else(|| unknown(text))?;
    let kind = store.kind();
    if !is_built_in(kind) {
        return Err(BadValue {
            what: built_without(kind),
            advice: format!("{WITH_ALL_STORES} · or --store sqlite or redis"),
        });
    }
    if !has_valid_address(&store) {
        return Err(BadValue {
            what: format!(
                "'{}' is not a valid address of {}",
                store.name(),
                kind.title
            ),
            advice: format!("--store {}", kind.address_form),
        });
    }
    Ok(store)
}

fn is_built_in(kind: &StoreKind) -> bool {
    kind.is_built_in() && (*kind != POSTGRES || HAS_POSTGRES)
}

fn built_without(kind: &StoreKind) -> String {
    format!("this program was built without {}", kind.title)
}

/// Checks that this program contains the store that a trial uses if nobody asked for another one.
pub(crate) fn has_default(store: &TrialStore) -> Result<(), CommandError> {
    if is_built_in(store.kind()) {
        return Ok(());
    }
    Err(CommandError::new(exit::USAGE, built_without(store.kind()))
        .at(format_args!(
            "--store {}, the default of this trial",
            store.name()
        ))
        .effect(NO_EFFECT)
        .try_this(WITH_ALL_STORES))
}

fn unknown(text: &str) -> BadValue {
    BadValue {
        what: format!(
            "there is no store '{}' in this version",
            without_password(text)
        ),
        advice: if text.starts_with("redlock?") {
            "--store redlock · --store 'redlock?restart_delay=30s'".into()
        } else {
            let mut servers = private_names();
            servers.retain(|name| *name != private_name(&SQLITE));
            format!(
                "--store sqlite: a file, nothing to install · {}: private servers · redis://HOST and so on: yours",
                servers.join(", ")
            )
        },
    }
}

/// Starts private servers if necessary, and waits until the store answers.
pub(crate) fn open(store: &TrialStore) -> Result<OpenStore, CommandError> {
    let started = if store.is_private() && !store.is(&SQLITE) {
        Some(private_servers(store)?.start(store)?)
    } else {
        None
    };
    let Some(started) = started else {
        reach(store, ANSWER_TIMEOUT).map_err(|reason| not_reached(store, &reason))?;
        return Ok(OpenStore {
            store: store.clone(),
            _servers: None,
        });
    };
    let store = store.clone().at(started.address);
    // Servers that have just been started may have to elect a leader first.
    reach(&store, 10 * ANSWER_TIMEOUT).map_err(|reason| not_reached(&store, &reason))?;
    Ok(OpenStore {
        store,
        _servers: Some(started.servers),
    })
}

/// Checks that private servers can be started, for a trial that starts and kills them itself.
pub(crate) fn open_to_fail(store: &TrialStore) -> Result<OpenStore, CommandError> {
    let servers = private_servers(store)?;
    if !(servers.is_installed)() {
        return Err(servers.not_installed());
    }
    Ok(OpenStore {
        store: store.clone(),
        _servers: None,
    })
}

fn private_servers(store: &TrialStore) -> Result<&'static PrivateServers, CommandError> {
    PrivateServers::of(store.kind()).ok_or_else(|| {
        let what = format!("there are no private servers of {}", store.kind().title);
        CommandError::new(exit::USAGE, what)
            .at(format_args!("--store {}", store.name()))
            .effect(NO_EFFECT)
            .try_this(format_args!("--store {}", store.kind().address_form))
    })
}

fn not_reached(store: &TrialStore, reason: &NotReached) -> CommandError {
    let (name, kind) = (store.name(), store.kind());
    let others = format!(
        "--store {} for a private one · no --store for sqlite",
        private_name(kind)
    );
    let (title, what, advice) = match reason {
        NotReached::Silent(words) => (
            "cannot reach the store",
            format!(
                "{words}, tried for {} s",
                decimal(ANSWER_TIMEOUT.as_secs_f64())
            ),
            format!("start {} there", kind.server),
        ),
        NotReached::Refuses(words) if *kind == REDIS && words.starts_with("parse error") => (
            "this is not a Redis server",
            "answers, but not as Redis does".to_owned(),
            "another HOST:PORT".to_owned(),
        ),
        NotReached::Refuses(words) => (
            "cannot use the store",
            words.clone(),
            format!("--store {}", kind.address_form),
        ),
    };
    CommandError::new(exit::STORE, title)
        .at(format_args!("{name}: {what}"))
        .effect(NO_EFFECT)
        .try_this(format_args!("{advice} · {others}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> BadValue {
        parse_trial_store(text).unwrap_err()
    }

    #[test]
    fn a_store_is_named_or_given_by_its_address() {
        for text in ["sqlite", "redis", "redis://cache"] {
            assert_eq!(parse_trial_store(text).unwrap().name(), text);
        }
        assert_eq!(
            refused("redis://u:hunter2@h:port").what,
            "'redis://u:***@h:port' is not a valid address of Redis"
        );
        let unknown = refused("mysql://u:hunter2@h");
        assert!(!unknown.what.contains("hunter2"), "{}", unknown.what);
        assert!(refused("redlock?restart_delay=3").advice.contains("30s"));
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_database_is_named_or_given_by_its_address() {
        for text in ["postgres", "postgres://u@h/d", "postgresql://u@h:1/d"] {
            assert_eq!(parse_trial_store(text).unwrap().name(), text);
        }
        let refused = refused("postgres://u:hunter2@h:port/d");
        assert!(!refused.what.contains("hunter2"), "{}", refused.what);
    }
}
