//! Where locks and trials take place: the values of `--store`, and how each is opened.

use std::time::Duration;

mod lock_servers;
mod lock_store;
mod server_kind;
mod trial_store;

pub(crate) use lock_servers::LockServers;
pub(crate) use lock_store::{LockStore, NotOpened};
pub(crate) use server_kind::ServerKind;
pub(crate) use trial_store::{Site, TrialStore};

/// How to get a program that has all stores.
pub(crate) const WITH_ALL_STORES: &str = "cargo install --path crates/cli --features full";

/// How long to try a server that does not answer.
const PATIENCE: Duration = Duration::from_secs(2);
