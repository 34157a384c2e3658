//! The lock on trial: a strategy of the lab, which this program runs as a subject, or an external lock.

use std::path::PathBuf;
use std::process::Command;

use fencepost::stores::{KINDS, StoreKind};
use fencepost_rig::Interrupt;
use fencepost_trial::holds::Scenario;
use fencepost_trial::processes::NoVerdict;
use fencepost_trial::protocol::{Claims, Resource};
use fencepost_trial::store::{ServerFault, StoreFacts, TrialStore, private_name};
use fencepost_trial::strategy::{Stores, Strategy};

use crate::command_error::CommandError;
use crate::exit;
use crate::no_verdict::{UsedFlags, explain};
use crate::store::{WITH_ALL_STORES, parse_trial_store};

mod external;
mod lock;
mod manifest;

pub(crate) use external::ExternalLock;
pub(crate) use lock::{Lock, LockArgument, strategies};

/// A lock on trial, and how to start its processes.
#[derive(Debug)]
pub(crate) struct Contender {
    /// The strategy, with its claims.
    pub(crate) strategy: &'static Strategy,
    program: Program,
}

#[derive(Debug)]
enum Program {
    /// This program, as a subject of the lab.
    Ours(PathBuf),
    External(ExternalLock),
}

impl Contender {
    /// Returns a strategy of the lab as a contender.
    pub(crate) fn ours(strategy: &'static Strategy) -> Result<Self, NoVerdict> {
        let program = std::env::current_exe().map_err(|error| NoVerdict::NotStarted {
            program: "fencepost".into(),
            error,
        })?;
        Ok(Self {
            strategy,
            program: Program::Ours(program),
        })
    }

    /// Returns an external lock that makes these claims.
    fn external(lock: ExternalLock, claims: Claims) -> Self {
        Self {
            strategy: lock.strategy(claims),
            program: Program::External(lock),
        }
    }

    /// Returns the lock that `--lock` names. An external lock is started once, with this TTL and resource, and asked for its claims.
    pub(crate) fn of(
        lock: &Lock,
        store: &TrialStore,
        ttl_ms: u64,
        resource: Resource,
        interrupt: Interrupt,
    ) -> Result<Self, CommandError> {
        match lock {
            Lock::Strategy(strategy) | Lock::LibraryOn(_, strategy) => {
                fits(strategy, store)?;
                Self::ours(strategy)
                    .map_err(|no_verdict| explain(&no_verdict, UsedFlags::default()))
            }
            Lock::External(external) => {
                external.fits(store)?;
                let claims = external.claims(store, ttl_ms, resource, interrupt)?;
                Ok(Self::external(external.clone(), claims))
            }
        }
    }

    /// Returns the command that starts one process.
    pub(crate) fn command(&self) -> Command {
        match &self.program {
            Program::Ours(program) => {
                let mut command = Command::new(program);
                let lock = format!("--lock={}", self.strategy.name);
                command.arg("subject").arg(lock);
                command
            }
            Program::External(external) => external.command(),
        }
    }
}

/// Refuses a lock for which the lab has no servers that it can make fail as this scenario needs it.
pub(crate) fn outlives_servers(
    strategy: &Strategy,
    scenario: Scenario,
) -> Result<(), CommandError> {
    let can_fail = |kind: &StoreKind| {
        scenario.server_fault(StoreFacts::of(kind)) == Some(ServerFault::Available)
    };
    let keeps_stock = |kind: &StoreKind| StoreFacts::of(kind).keeps_stock();
    match strategy.stores {
        Stores::Only(kind) if !can_fail(kind) => {}
        Stores::KeepingStock if !KINDS.iter().any(|kind| can_fail(kind) && keeps_stock(kind)) => {}
        Stores::Only(_) | Stores::All | Stores::KeepingStock => return Ok(()),
    }
    // Both kinds of Postgres locks have the same servers.
    let has_servers = |kind: &'static StoreKind| TrialStore::private(kind).is(kind);
    let kinds = KINDS.iter().copied();
    let kinds = kinds.filter(|&kind| can_fail(kind) && has_servers(kind));
    let kinds: Vec<&str> = kinds.map(|kind| kind.title).collect();
    let kinds = match kinds.as_slice() {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        kinds => kinds.concat(),
    };
    let what = format!(
        "{} cannot be tried where servers fail: it is not a lock of {kinds}",
        strategy.name
    );
    Err(CommandError::new(exit::USAGE, what)
        .at(format_args!("--lock={}", strategy.name))
        .effect("none: no process was started")
        .try_this("--lock=safe"))
}

/// Refuses a lock that the store does not support.
pub(crate) fn fits(strategy: &Strategy, store: &TrialStore) -> Result<(), CommandError> {
    if strategy.stores.include(store) {
        return Ok(());
    }
    let (name, store) = (strategy.name, store.name());
    let (what, advice) = match strategy.stores {
        Stores::Only(kind) => {
            let there = private_name(kind);
            let command = format!("--lock={name} --store {there}");
            let advice = if parse_trial_store(there).is_ok() {
                format!("{command}      or --lock help to list all")
            } else {
                format!("{WITH_ALL_STORES}, then {command}")
            };
            let what = format!("{name} is a lock of {} and runs only there", kind.title);
            (what, advice)
        }
        Stores::All | Stores::KeepingStock => (
            format!("{name} is not supported on {store} yet"),
            format!("--lock=safe --store {store}      or --lock={name} --store redis"),
        ),
    };
    Err(CommandError::new(exit::USAGE, what)
        .at(format_args!("--lock={name} --store {store}"))
        .try_this(advice))
}
