//! The values of `--lock`: the lab's strategies, the library's lock on certain servers, or the command of an external lock.

use fencepost::stores::StoreKind;
use fencepost_trial::gauntlet::{Kind, Limit};
use fencepost_trial::protocol::Claims;
use fencepost_trial::store::{lock_only_kinds, private_name};
use fencepost_trial::strategy;

use super::external::ExternalLock;
use crate::store::parse_trial_store;
use crate::values::{BadValue, nearest};

/// The value of `--lock`.
#[derive(Debug, Clone)]
pub(crate) enum LockArgument {
    /// `help`: the list of strategies.
    Help,
    Lock(Lock),
}

impl LockArgument {
    pub(crate) fn parse(text: &str) -> Result<Self, BadValue> {
        Self::parse_with(text, Lock::parse)
    }

    /// Parses a lock that a process can hold.
    pub(crate) fn parse_holding(text: &str) -> Result<Self, BadValue> {
        Self::parse_with(text, Lock::parse_holding)
    }

    fn parse_with(text: &str, parse: fn(&str) -> Result<Lock, BadValue>) -> Result<Self, BadValue> {
        if text == "help" {
            return Ok(Self::Help);
        }
        parse(text).map(Self::Lock)
    }
}

/// A lock that `--lock` names.
#[derive(Debug, Clone)]
pub(crate) enum Lock {
    Strategy(&'static strategy::Strategy),
    /// The library's lock on servers of this kind.
    LibraryOn(&'static StoreKind, &'static strategy::Strategy),
    /// An external lock: a program of the user.
    External(ExternalLock),
}

impl Lock {
    fn parse(text: &str) -> Result<Self, BadValue> {
        // A folder in the working directory hides neither a strategy nor the name of a store.
        if let Some(strategy) = strategy::find(text) {
            return Ok(Self::Strategy(strategy));
        }
        let mut kinds = lock_only_kinds();
        let kind = kinds.find(|kind| [kind.name, private_name(kind)].contains(&text));
        if let (Some(kind), Some(library)) = (kind, strategy::find(LIBRARY)) {
            parse_trial_store(private_name(kind))?;
            return Ok(Self::LibraryOn(kind, library));
        }
        match ExternalLock::parse(text) {
            Some(external) => external.map(Self::External),
            None => Err(unknown(text)),
        }
    }

    /// Returns the strategy. That of an external lock claims nothing, because its program is not asked.
    pub(crate) fn unasked(&self) -> &'static strategy::Strategy {
        match self {
            Self::Strategy(strategy) | Self::LibraryOn(_, strategy) => strategy,
            Self::External(external) => external.strategy(Claims::PLAIN),
        }
    }

    /// Returns how the lock is built, given its claims.
    pub(crate) fn kind(&self, claims: Claims) -> Kind {
        match self {
            Self::Strategy(_) | Self::LibraryOn(..) => Kind::of_ours(claims),
            Self::External(external) => external.kind(claims),
        }
    }

    /// Returns the limits that its own documentation states.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        match self {
            Self::Strategy(_) | Self::LibraryOn(..) => Vec::new(),
            Self::External(external) => external.limits(),
        }
    }

    /// Parses a lock that a process can hold.
    fn parse_holding(text: &str) -> Result<Self, BadValue> {
        match Self::parse(text)? {
            Self::Strategy(strategy) if strategy.lock.is_none() => Err(BadValue {
                what: format!("{text} has no lock that a process could hold"),
                advice: format!("--lock=safe      or one of {}", holding_locks().join(", ")),
            }),
            lock => Ok(lock),
        }
    }
}

fn unknown(text: &str) -> BadValue {
    let names = strategy::ALL.iter().map(|strategy| strategy.name);
    let names: Vec<&str> = names
        .chain(lock_only_kinds().map(|kind| kind.name))
        .collect();
    let all = format!("--lock help to list all {}", strategy::ALL.len());
    BadValue {
        what: format!("there is no strategy '{text}'"),
        advice: match nearest(text, &names) {
            Some(name) => format!("--lock={name}      or {all}"),
            None => all,
        },
    }
}

/// Returns the strategies with a lock that a process can hold.
fn holding_locks() -> Vec<&'static str> {
    let all = strategy::ALL.iter();
    all.filter(|strategy| strategy.lock.is_some())
        .map(|strategy| strategy.name)
        .collect()
}

/// The strategy that uses the library's lock as intended.
const LIBRARY: &str = "watchdog";

const YOURS: &str = "\
\x20 YOUR OWN
  'COMMAND'        a program that speaks the lab's protocol, as in --lock='python3 my_lock.py'
  FOLDER           the same with a manifest, subject.toml, as in --lock=./my-lock
";

/// Returns the text of `--lock help`: every strategy, one line each.
pub(crate) fn strategies() -> String {
    let mut text = String::new();
    let mut group = None;
    for strategy in strategy::ALL {
        if group.replace(strategy.group) != Some(strategy.group) {
            text.push_str(&format!("  {}\n", strategy.group.heading()));
        }
        text.push_str(&format!("  {:<15}  {}\n", strategy.name, strategy.summary));
    }
    text.push_str(YOURS);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_nobody_holds_is_answered_with_those_that_fit() {
        let advice = Lock::parse_holding("none").unwrap_err().advice;
        let (_, names) = advice.split_once("one of ").unwrap();
        for name in names.split(", ") {
            assert!(Lock::parse_holding(name).is_ok(), "{name}");
        }
        assert!(!advice.contains("help"), "{advice}");
    }

    #[cfg(feature = "zookeeper")]
    #[test]
    fn the_name_of_a_store_is_also_the_name_of_its_lock() {
        for name in ["zk", "zookeeper"] {
            let kind = match Lock::parse(name).unwrap() {
                Lock::LibraryOn(kind, _) => kind,
                other => panic!("{name}: {other:?}"),
            };
            assert_eq!(kind.name, "zookeeper");
        }
    }

    #[test]
    fn a_misspelt_strategy_gets_a_suggestion() {
        assert_eq!(
            Lock::parse("sfae").unwrap_err().advice,
            "--lock=safe      or --lock help to list all 22"
        );
        assert_eq!(
            Lock::parse("%&%").unwrap_err().advice,
            "--lock help to list all 22"
        );
        assert!(
            Lock::parse("zokeeper")
                .unwrap_err()
                .advice
                .starts_with("--lock=zookeeper ")
        );
    }
}
