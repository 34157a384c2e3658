//! The command line.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use fencepost_trial::holds::Scenario;
use fencepost_trial::retry::Comparison;
use fencepost_trial::sale::Sale;
use fencepost_trial::store::locks::Kind;
use fencepost_trial::strategy;

use crate::doctor::Doctor;
use crate::drawings::DrawingFlags;
use crate::exec::Exec;
use crate::exit;
use crate::fault::Fault;
use crate::locks::Locks;
use crate::screen::{Colour, Screen};
use crate::serve::Serve;
use crate::store::lock_servers::LockServers;
use crate::store::{Site, Store};
use crate::stranger::Stranger;

pub(crate) mod durations;
pub(crate) mod numbers;
mod passwords;

use numbers::{budget, concurrency, delay, retries, seed, stock, ttl, wait, work};
pub(crate) use passwords::without_password;

/// Distributed locks you can put on trial.
#[derive(Debug, Parser)]
#[command(
    name = "fencepost",
    version,
    disable_help_flag = true,
    disable_help_subcommand = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[command(disable_help_flag = true)]
pub(crate) enum Command {
    Oversell(Oversell),
    Deadlock(Deadlock),
    Crash(Crash),
    Trial(OneTrial),
    Retry(Retry),
    RunAll(RunAll),
    Check(Check),
    Exec(Exec),
    Locks(Locks),
    Doctor(Doctor),
    #[command(alias = "http-server")]
    Serve(Box<Serve>),
    /// The child role of the lab.
    #[command(hide = true)]
    Subject {
        #[arg(long)]
        lock: String,
    },
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Oversell {
    #[arg(long, default_value = "none", value_parser = lock)]
    pub(crate) lock: Lock,
    #[arg(long, conflicts_with_all = ["lock", "history"])]
    pub(crate) all: bool,
    #[arg(long, allow_hyphen_values = true, default_value_t = Sale::STOCK, value_parser = stock)]
    pub(crate) stock: u32,
    #[arg(long, allow_hyphen_values = true, default_value_t = Sale::CONCURRENCY, value_parser = concurrency)]
    pub(crate) concurrency: usize,
    #[arg(long, allow_hyphen_values = true, default_value_t = Sale::DELAY_US, value_parser = delay)]
    pub(crate) delay: u64,
    #[arg(long, allow_hyphen_values = true, default_value_t = 0, value_parser = wait)]
    pub(crate) wait: u64,
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    pub(crate) seed: Option<u64>,
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    #[arg(long)]
    pub(crate) history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) drawings: DrawingFlags,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Retry {
    #[arg(long, default_value = "safe", value_parser = lock)]
    pub(crate) lock: Lock,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::STOCK, value_parser = stock)]
    pub(crate) stock: u32,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::CONCURRENCY, value_parser = concurrency)]
    pub(crate) concurrency: usize,
    #[arg(long, allow_hyphen_values = true, default_value_t = Sale::DELAY_US, value_parser = delay)]
    pub(crate) delay: u64,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::MAX_RETRIES, value_parser = retries)]
    pub(crate) max_retries: u32,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::TTL_MS, value_parser = ttl)]
    pub(crate) ttl: u64,
    #[arg(long, allow_hyphen_values = true, default_value_t = Comparison::BUDGET_MS, value_parser = budget)]
    pub(crate) budget: u64,
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    pub(crate) seed: Option<u64>,
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    #[arg(long)]
    pub(crate) history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) drawings: DrawingFlags,
    #[arg(long, short)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Deadlock {
    #[arg(long)]
    pub(crate) mitigate: bool,
    #[command(flatten)]
    pub(crate) holds: Holds,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Crash {
    #[arg(long)]
    pub(crate) ttl_edge: bool,
    #[arg(long, allow_hyphen_values = true, value_parser = work)]
    pub(crate) work: Option<u64>,
    #[command(flatten)]
    pub(crate) holds: Holds,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct OneTrial {
    #[arg(value_parser = scenario)]
    pub(crate) name: Scenario,
    #[command(flatten)]
    pub(crate) holds: Holds,
}

/// What every lock trial takes.
#[derive(Debug, Args)]
pub(crate) struct Holds {
    #[arg(long, default_value = "safe", value_parser = holding_lock)]
    pub(crate) lock: Lock,
    #[arg(long, allow_hyphen_values = true, value_parser = ttl)]
    pub(crate) ttl: Option<u64>,
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    pub(crate) seed: Option<u64>,
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    #[arg(long)]
    pub(crate) history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) drawings: DrawingFlags,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Check {
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) look: Look,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct RunAll {
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    pub(crate) seed: Option<u64>,
    #[arg(long)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// How to show it; for a command that needs no store.
#[derive(Debug, Args)]
pub(crate) struct Look {
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[arg(long, default_value = "auto", value_parser = colour)]
    pub(crate) color: Colour,
    #[arg(long)]
    pub(crate) ascii: bool,
}

impl Look {
    pub(crate) fn screen(&self) -> Screen {
        Screen::new(self.color, self.ascii, self.quiet || self.json)
    }
}

/// What every command takes that runs something.
#[derive(Debug, Args)]
pub(crate) struct Common {
    #[arg(long, env = "FENCEPOST_STORE", hide_env_values = true, value_parser = Store::parse)]
    pub(crate) store: Option<Store>,
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[arg(long, default_value = "auto", value_parser = colour)]
    pub(crate) color: Colour,
    #[arg(long)]
    pub(crate) ascii: bool,
}

impl Common {
    /// Opens the store of a command that leaves its servers alone.
    pub(crate) fn open_store(&self, lock: Option<&Lock>) -> Result<Site, Fault> {
        let store = self.store_for(lock)?;
        store.unwrap_or(Store::Sqlite).open()
    }

    /// The store that was asked for, by its own flag or by the name of a lock.
    pub(crate) fn store_for(&self, lock: Option<&Lock>) -> Result<Option<Store>, Fault> {
        let Some(Lock::Of(kind, _)) = lock else {
            return Ok(self.store.clone());
        };
        match &self.store {
            None => Ok(Some(Store::Locks(LockServers::private(*kind)))),
            Some(Store::Locks(servers)) if servers.kind == *kind => Ok(self.store.clone()),
            Some(other) => {
                let (lock, store) = (lock_of(*kind), other.name());
                let name = kind.name();
                let what = format!("{lock} is a lock of {}", kind.title());
                Err(Fault::new(exit::USAGE, what)
                    .at(format_args!("--lock={lock} --store {store}"))
                    .effect("none: no process was started")
                    .try_this(format_args!(
                        "--lock={lock}      or --lock={lock} --store {name}://HOST for your own"
                    )))
            }
        }
    }

    pub(crate) fn screen(&self) -> Screen {
        Screen::new(self.color, self.ascii, self.quiet || self.json)
    }
}

/// What `--lock` asks for.
#[derive(Debug, Clone)]
pub(crate) enum Lock {
    /// The list of strategies.
    Help,
    Strategy(&'static strategy::Strategy),
    /// The library's lock on servers of this kind.
    Of(Kind, &'static strategy::Strategy),
    /// A program of somebody else's.
    Stranger(Stranger),
}

/// A value that a flag does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadValue {
    pub(crate) what: String,
    pub(crate) advice: String,
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for BadValue {}

/// A random seed that is short enough to be read aloud.
pub(crate) fn random_seed() -> u64 {
    // Without a source of randomness every run chooses alike, and prints that it did.
    getrandom::u64().unwrap_or(0) % 10_000
}

/// The strategy that is the library's lock as it is meant to be used.
const LIBRARY: &str = "watchdog";

/// What `--lock` calls the library's lock on such servers.
pub(crate) fn lock_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Etcd => "etcd",
        Kind::Zookeeper => "zookeeper",
        Kind::Redlock => "redlock",
    }
}

fn lock(text: &str) -> Result<Lock, BadValue> {
    if text == "help" {
        return Ok(Lock::Help);
    }
    if let Some(stranger) = Stranger::parse(text) {
        return Ok(Lock::Stranger(stranger));
    }
    let kind = Kind::ALL.into_iter().find(|kind| lock_of(*kind) == text);
    if let (Some(kind), Some(library)) = (kind, strategy::find(LIBRARY)) {
        LockServers::parse(kind.name()).transpose()?;
        return Ok(Lock::Of(kind, library));
    }
    strategy::find(text).map(Lock::Strategy).ok_or_else(|| {
        let names = strategy::ALL.map(|strategy| strategy.name);
        let all = all_locks();
        let of_servers = Kind::ALL.map(lock_of);
        let advice = match nearest(text, &[&names[..], &of_servers].concat()) {
            Some(name) => format!("--lock={name}      or {all}"),
            None => all,
        };
        BadValue {
            what: format!("there is no strategy '{text}'"),
            advice,
        }
    })
}

fn all_locks() -> String {
    format!("--lock help for all {}, a line each", strategy::ALL.len())
}

/// A strategy that can be asked for holds.
fn holding_lock(text: &str) -> Result<Lock, BadValue> {
    match lock(text)? {
        Lock::Strategy(strategy) if strategy.lock.is_none() => Err(BadValue {
            what: format!("{text} has no lock whose holder could be put to the test"),
            advice: format!("--lock=safe      or one of {}", holding_locks().join(", ")),
        }),
        lock => Ok(lock),
    }
}

/// The strategies with a lock that somebody can hold.
fn holding_locks() -> Vec<&'static str> {
    let all = strategy::ALL.iter();
    all.filter(|strategy| strategy.lock.is_some())
        .map(|strategy| strategy.name)
        .collect()
}

/// The scenarios without a command of their own.
pub(crate) const TRIALS: [Scenario; 5] = [
    Scenario::StaleRelease,
    Scenario::ShortStock,
    Scenario::Failover,
    Scenario::RestartEmpty,
    Scenario::LostWakeup,
];

fn scenario(text: &str) -> Result<Scenario, BadValue> {
    let named = TRIALS.into_iter().find(|scenario| scenario.name() == text);
    named.ok_or_else(|| {
        let names = TRIALS.map(Scenario::name);
        let advice = match nearest(text, &names) {
            Some(name) => format!("fencepost trial {name}"),
            None => names
                .map(|name| format!("fencepost trial {name}"))
                .join(" · "),
        };
        BadValue {
            what: format!("there is no trial '{text}'"),
            advice,
        }
    })
}

/// The name most like `text`, if any is.
pub(crate) fn nearest<'a>(text: &str, names: &[&'a str]) -> Option<&'a str> {
    let like = names.iter().map(|name| (strsim::jaro(text, name), *name));
    like.filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

pub(crate) fn colour(text: &str) -> Result<Colour, BadValue> {
    match text {
        "auto" => Ok(Colour::Auto),
        "always" => Ok(Colour::Always),
        "never" => Ok(Colour::Never),
        _ => Err(BadValue {
            what: format!("there is no such use of colour: '{text}'"),
            advice: "--color auto, always or never".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_nobody_holds_is_answered_with_those_that_fit() {
        let advice = holding_lock("none").unwrap_err().advice;
        let (_, names) = advice.split_once("one of ").unwrap();
        for name in names.split(", ") {
            assert!(holding_lock(name).is_ok(), "{name}");
        }
        assert!(!advice.contains("help"), "{advice}");
    }

    #[test]
    fn a_misspelt_strategy_meets_its_neighbour() {
        assert_eq!(
            lock("sfae").unwrap_err().advice,
            "--lock=safe      or --lock help for all 22, a line each"
        );
        assert_eq!(
            lock("%&%").unwrap_err().advice,
            "--lock help for all 22, a line each"
        );
        assert!(
            lock("zokeeper")
                .unwrap_err()
                .advice
                .starts_with("--lock=zookeeper ")
        );
    }
}
