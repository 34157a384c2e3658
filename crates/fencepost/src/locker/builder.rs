//! The settings of a locker.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::Locker;
use crate::backend::Backend;
use crate::engine::{Engine, Settings};
use crate::error::{Error, Result};
use crate::line::HandOver;
use crate::random::{Random, SystemRandom};
use crate::ttl::{DEFAULT_TTL, check_ttl};

/// How long the store may take to answer one request when the builder is not told otherwise.
pub const DEFAULT_STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest store timeout: who waits longer for an answer than that has no deadline at all.
const MAX_STORE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Settings of a locker, made by [`Locker::builder`]. `L` is the locker that [`build`](Self::build) makes.
#[must_use]
pub struct LockerBuilder<L = Locker> {
    backend: Arc<dyn Backend>,
    random: Arc<dyn Random>,
    settings: Settings,
    makes: PhantomData<fn() -> L>,
}

impl<L> LockerBuilder<L> {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
            random: Arc::new(SystemRandom),
            settings: Settings {
                ttl: DEFAULT_TTL,
                keep_alive: true,
                hand_over: HandOver::default(),
                store_timeout: DEFAULT_STORE_TIMEOUT,
                label: default_label(),
            },
            makes: PhantomData,
        }
    }

    /// How long a lease lasts without renewal, and so how long a crashed holder blocks the others: [`MIN_TTL`](crate::MIN_TTL) to
    /// [`MAX_TTL`](crate::MAX_TTL), by default [`DEFAULT_TTL`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// Whether leases are renewed while their guards live. On by default. Off: a hold ends with its TTL.
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.settings.keep_alive = keep_alive;
        self
    }

    /// The bounds of handing a lease from task to task inside this process.
    pub fn hand_over(mut self, bounds: HandOver) -> Self {
        self.settings.hand_over = bounds;
        self
    }

    /// No hand-over inside the process: every task asks the store itself, and is served in the store's order. Where the
    /// store serves waiters first come first served, that then holds across all processes.
    pub fn without_hand_over(self) -> Self {
        self.hand_over(HandOver::default().turns(0))
    }

    /// How long the store may take to answer one request; by default [`DEFAULT_STORE_TIMEOUT`].
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.settings.store_timeout = timeout;
        self
    }

    /// Who this is, for people who look at the store; by default host and process.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.settings.label = label.into();
        self
    }

    /// Where owners come from; by default the operating system. Two lockers with the same sequence would take each other for
    /// themselves: a seeded one is for tests with a single locker.
    pub fn random(mut self, random: Arc<dyn Random>) -> Self {
        self.random = random;
        self
    }

    /// Checks the settings, and makes an async locker of them.
    pub(crate) fn checked(self) -> Result<Locker> {
        check_ttl(self.settings.ttl)?;
        if self.settings.store_timeout.is_zero() || self.settings.store_timeout > MAX_STORE_TIMEOUT
        {
            return Err(Error::invalid(format!(
                "a store timeout of {:?} is out of range: more than zero, at most one hour",
                self.settings.store_timeout
            )));
        }
        if self.settings.hand_over.min_valid_percent > 100 {
            return Err(Error::invalid(
                "min_valid_percent is a part of the lease: 0 to 100",
            ));
        }
        if self.settings.label.chars().any(char::is_control) {
            return Err(Error::invalid(
                "a label must not contain control characters",
            ));
        }
        Ok(self.build_unchecked())
    }

    pub(crate) fn build_unchecked(self) -> Locker {
        Locker {
            engine: Arc::new(Engine::new(self.backend, self.random, self.settings)),
        }
    }
}

impl LockerBuilder {
    /// Checks the settings.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the TTL or the store timeout is out of range, or the label contains control
    /// characters.
    pub fn build(self) -> Result<Locker> {
        self.checked()
    }
}

impl<L> fmt::Debug for LockerBuilder<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockerBuilder")
            .field("store", &self.backend.store())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

fn default_label() -> Arc<str> {
    let host = nix::unistd::gethostname().ok();
    let host = host.and_then(|host| host.into_string().ok());
    let host = host.unwrap_or_else(|| "unknown".to_owned());
    format!("{host}:{}", std::process::id()).into()
}
