//! [`Settings`], which the builder passes on to the store, and what its file is opened for.

use std::path::PathBuf;
use std::time::Duration;

/// The settings of a [`Sqlite`](super::Sqlite).
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// The path, absolute because the program may change its working directory.
    pub(super) path: PathBuf,
    pub(super) busy_timeout: Duration,
    pub(super) first_epoch: Option<u64>,
    pub(super) boot: String,
    pub(super) purpose: Purpose,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Lock,
    /// To release locks of others. The file is not created.
    Release,
    /// Only to look. Nothing is changed: no file and no table is created, and tables of version 1 stay as they are.
    Look,
}
