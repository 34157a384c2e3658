//! [`StoreKind`]: what the crate knows about a store whether or not this build contains it.

use std::sync::Arc;
use std::time::Duration;

use super::kinds::KINDS;
use crate::backend::Backend;
use crate::clock::BoxFuture;
use crate::error::Result;

/// A kind of store, as addresses name it.
///
/// [`KINDS`] lists all kinds of this crate, including those that this build does not contain, so that an error can name the missing
/// feature.
#[derive(Debug)]
#[non_exhaustive]
pub struct StoreKind {
    /// The short name, such as `redis`, which is also the name of the module.
    pub name: &'static str,
    /// The name for people, such as `Redis`. For our own programs, outside semver.
    #[doc(hidden)]
    pub title: &'static str,
    /// The server that a user has to run, such as `Redis` for Redlock. For SQLite, the library itself. For our own
    /// programs, outside semver.
    #[doc(hidden)]
    pub server: &'static str,
    /// The form of its addresses, for people. For our own programs, outside semver.
    #[doc(hidden)]
    pub address_form: &'static str,
    /// The schemes of its addresses.
    pub schemes: &'static [Scheme],
    /// The parameter that distinguishes it from another kind with the same schemes.
    pub(super) parameter: Option<&'static str>,
    /// Whether each server in the address may have a user and a password of its own.
    pub(super) has_user_per_server: bool,
    /// Whether a user may stand in the address without a password. Elsewhere, what stands alone before the `@` may be a password.
    pub(super) has_user_alone: bool,
    /// How to open the store, or `None` if this build does not contain it.
    pub(super) opener: Option<Opener>,
}

impl StoreKind {
    /// Returns whether this build contains the store.
    pub fn is_built_in(&self) -> bool {
        self.opener.is_some()
    }

    /// Returns the kind with this [name](Self::name).
    pub fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().copied().find(|kind| kind.name == name)
    }
}

/// Compares names, because no two kinds have the same name.
impl PartialEq for StoreKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for StoreKind {}

/// The beginning of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheme {
    /// The text, such as `redis://`.
    pub prefix: &'static str,
    /// The feature of this crate that enables it.
    pub feature: &'static str,
    /// Whether this build has that feature.
    pub is_built_in: bool,
}

/// The functions that open a store by its address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opener {
    pub(super) open: fn(&str) -> OpenFuture<'_>,
    /// Opens the store for locks with this TTL.
    pub(super) open_for: fn(&str, Duration) -> OpenFuture<'_>,
    /// Opens the store only to look at its locks.
    pub(super) look: fn(&str) -> OpenFuture<'_>,
}

pub(super) type OpenFuture<'a> = BoxFuture<'a, Result<Arc<dyn Backend>>>;
