//! Where locks are kept and trials are held: what `--store` accepts, and what is started for it.

use std::time::Duration;

mod lock_store;
mod private_servers;
mod trial_store;

pub(crate) use lock_store::{LockStore, NotOpened};
pub(crate) use trial_store::{Site, open, open_to_fail, parse_trial_store};

/// How to get a program that has all stores.
pub(crate) const WITH_ALL_STORES: &str = "cargo install --path crates/cli --features full";

/// How long to try a server that does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What an error says happened when no trial began.
const NO_EFFECT: &str = "none: no process was started";
