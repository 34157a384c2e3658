//! The flags that all trials share, and the choice of the store from `--store` and `--lock`.

use std::process::ExitCode;

use clap::Args;
use fencepost_trial::report::html::Page;
use fencepost_trial::store::TrialStore;
use fencepost_trial::text::ink::Ink;
use fencepost_trial::verdict::Verdict;
use serde_json::Value;

use crate::command_error::CommandError;
use crate::contender::{Lock, strategies};
use crate::exit;
use crate::results::Files;
use crate::screen::{OutputFlags, Screen};
use crate::store::{self, Site, parse_trial_store};

/// The flags of every command that runs a trial.
#[derive(Debug, Args)]
pub(crate) struct TrialFlags {
    #[arg(long, env = "FENCEPOST_STORE", hide_env_values = true, value_parser = parse_trial_store)]
    store: Option<TrialStore>,
    #[command(flatten)]
    pub(crate) output_flags: OutputFlags,
}

/// The results of a trial, as its files show them.
pub(crate) struct EndedTrial<'a> {
    pub(crate) report: Value,
    pub(crate) verdict: &'a Verdict,
    /// The number of events in the history.
    pub(crate) events: usize,
    pub(crate) page: Page<'a>,
}

impl TrialFlags {
    /// Opens the store of a trial that does not kill servers.
    pub(crate) fn open_store(&self, lock: Option<&Lock>) -> Result<Site, CommandError> {
        let store = self.store_for(lock)?;
        store::open(&store.unwrap_or_default())
    }

    /// The store that `--store` names, or that the name of the lock implies.
    pub(crate) fn store_for(
        &self,
        lock: Option<&Lock>,
    ) -> Result<Option<TrialStore>, CommandError> {
        let kind = match lock {
            Some(Lock::LibraryOn(kind, _)) => kind,
            Some(Lock::External(external)) => {
                // Checked before any server is started or asked.
                self.store
                    .iter()
                    .try_for_each(|store| external.fits(store))?;
                return Ok(self.store.clone().or_else(|| external.default_store()));
            }
            _ => return Ok(self.store.clone()),
        };
        match &self.store {
            None => Ok(Some(TrialStore::private(kind))),
            Some(store) if store.is(kind) => Ok(self.store.clone()),
            Some(other) => {
                let (lock, store) = (kind.name, other.name());
                let what = format!("{lock} is a lock of {}", kind.title);
                Err(CommandError::new(exit::USAGE, what)
                    .at(format_args!("--lock={lock} --store {store}"))
                    .effect("none: no process was started")
                    .try_this(format_args!(
                        "--lock={lock}      or --lock={lock} --store {} for your own",
                        kind.address_form
                    )))
            }
        }
    }

    /// Prints the list of locks, for `--lock help`.
    pub(crate) fn list_locks(&self) -> Result<ExitCode, CommandError> {
        if self.output_flags.json {
            return Err(
                CommandError::new(exit::USAGE, "the list of locks is plain text")
                    .at("--lock help --json")
                    .try_this("--lock help"),
            );
        }
        Ok(self.screen().finish(&strategies()))
    }

    /// Ends a trial: prints the JSON document or the text, writes the files, and returns the exit code of the verdict.
    pub(crate) fn conclude(
        &self,
        mut screen: Screen,
        files: Files<'_>,
        ended: &EndedTrial<'_>,
        text: impl FnOnce(Ink) -> String,
    ) -> Result<ExitCode, CommandError> {
        if self.output_flags.json {
            screen.print_json(&ended.report);
        } else {
            let text = text(screen.ink);
            screen.print(&text);
        }
        files.fill(&ended.report, ended.verdict, ended.events, &ended.page)?;
        Ok(screen.end(ended.verdict.outcome.exit_code()))
    }

    pub(crate) fn screen(&self) -> Screen {
        self.output_flags.screen()
    }
}

/// Refuses a TTL shorter than the time after which the servers free the lock of a dead process: it could not be judged.
pub(crate) fn lasts_long_enough(ttl_ms: u64, store: &TrialStore) -> Result<(), CommandError> {
    let (shortest, kind) = (store.shortest_ttl_ms(), store.kind());
    if ttl_ms >= shortest {
        return Ok(());
    }
    let what = format!("a TTL of {ttl_ms} ms is too short for {}", kind.title);
    Err(CommandError::new(exit::USAGE, what)
        .at(format_args!(
            "--ttl {ttl_ms} --store {}: {}",
            store.name(),
            store.why_no_shorter_ttl()
        ))
        .effect("none: the trial had not begun")
        .try_this(format_args!("--ttl {shortest}")))
}
