//! The flags that all trials share, and the choice of the store from `--store` and `--lock`.

use clap::Args;
use fencepost_trial::store::TrialStore;

use crate::command_error::CommandError;
use crate::contender::Lock;
use crate::exit;
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

    pub(crate) fn screen(&self) -> Screen {
        self.output_flags.screen()
    }
}
