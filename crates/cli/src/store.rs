//! The values of `--store`: stores for locks in use, stores for trials, and the private servers that the lab starts.

use std::time::Duration;

mod lock_store;
mod open_store;
mod private_servers;

pub(crate) use lock_store::{LockStore, NotOpened};
pub(crate) use open_store::{OpenStore, has_default, open, open_to_fail, parse_trial_store};
pub(crate) use private_servers::PrivateServers;

/// The command that builds this program with all stores.
pub(crate) const WITH_ALL_STORES: &str =
    "cargo install --path crates/cli --features full (etcd needs protoc)";

/// How long to retry a server that does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The effect that error messages report if no trial began.
const NO_EFFECT: &str = "none: no process was started";
