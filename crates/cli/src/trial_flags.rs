//! The flags that all trials share, and the choice of the store from `--store` and `--lock`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use fencepost_trial::store::TrialStore;
use fencepost_trial::text::ink::Ink;

use crate::command_error::CommandError;
use crate::contender::{Lock, strategies};
use crate::exit;
use crate::results::{EndedTrial, Files};
use crate::screen::{OutputFlags, Screen};
use crate::store::{self, OpenStore, parse_trial_store};

/// What a trial says if somebody may expect it to run on the store of production locks.
const NOT_READ: &str = "note: trials do not read FENCEPOST_STORE: this one uses its default store; \
                        --store or FENCEPOST_TRIAL_STORE sets another\n";

/// The flags of every command that runs a trial.
#[derive(Debug, Args)]
pub(crate) struct TrialFlags {
    /// Trials write to a store and disturb it, so they have a variable of their own: `FENCEPOST_STORE` names the store of production locks.
    #[arg(long, env = "FENCEPOST_TRIAL_STORE", hide_env_values = true, value_parser = parse_trial_store)]
    store: Option<TrialStore>,
    #[command(flatten)]
    pub(crate) output_flags: OutputFlags,
}

impl TrialFlags {
    /// Opens the store of a trial that does not kill servers.
    pub(crate) fn open_store(&self, lock: Option<&Lock>) -> Result<OpenStore, CommandError> {
        let store = self.store_for(lock)?;
        store::open(&store.unwrap_or_default())
    }

    /// Returns the store that `--store` names, or that the name of the lock implies.
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
        Ok(self.output_flags.screen().finish(&strategies()))
    }

    /// Ends a trial: prints the JSON document or the text, writes the files, and returns the exit code of the verdict.
    pub(crate) fn conclude(
        &self,
        mut screen: Screen,
        files: Files,
        ended: &EndedTrial<'_>,
        text: impl FnOnce(Ink) -> String,
    ) -> Result<ExitCode, CommandError> {
        if self.output_flags.json {
            screen.print_json(&ended.report);
        } else {
            let text = text(screen.ink);
            screen.print(&text);
        }
        files.fill(ended)?;
        Ok(screen.end(ended.verdict.outcome.exit_code()))
    }

    /// Creates the screen of a trial, and says if the trial leaves the store in `FENCEPOST_STORE` alone.
    pub(crate) fn screen(&self) -> Screen {
        let OutputFlags { json, quiet, .. } = self.output_flags;
        let is_set = std::env::var_os("FENCEPOST_STORE").is_some();
        if is_set && self.store.is_none() && !json && !quiet {
            // If standard error is closed, there is nowhere left to report to.
            let _ = io::stderr().write_all(NOT_READ.as_bytes());
        }
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
