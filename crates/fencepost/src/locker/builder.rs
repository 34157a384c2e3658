//! [`LockerBuilder`]: the settings of a locker, and their limits.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::Locker;
use crate::backend::Backend;
use crate::engine::{Engine, Settings};
use crate::error::{Error, Result};
use crate::line::HandOver;
use crate::ttl::{DEFAULT_TTL, check_ttl};

/// The default of [`LockerBuilder::store_timeout`]: how long the store may take to answer one request.
pub const DEFAULT_STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest store timeout. A longer one would be the same as no timeout.
const MAX_STORE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The settings of a locker; [`Locker::builder`] creates it. `L` is the type that [`build`](Self::build) returns.
#[must_use]
pub struct LockerBuilder<L = Locker> {
    backend: Arc<dyn Backend>,
    settings: Settings,
    makes: PhantomData<fn() -> L>,
}

impl<L> LockerBuilder<L> {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        Self {
            backend,
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

    /// Sets how long a lease lasts without renewal, and therefore about how long a crashed holder blocks others. Must be between
    /// [`MIN_TTL`](crate::MIN_TTL) and [`MAX_TTL`](crate::MAX_TTL); the default is [`DEFAULT_TTL`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// Sets whether the locker renews leases while their guards are alive. The default is `true`. If `false`, a hold ends after its TTL.
    pub fn keep_alive(mut self, keep_alive: bool) -> Self {
        self.settings.keep_alive = keep_alive;
        self
    }

    /// Sets the limits for handing a lease from task to task inside this process.
    pub fn hand_over(mut self, limits: HandOver) -> Self {
        self.settings.hand_over = limits;
        self
    }

    /// Turns off hand-over inside the process: every task asks the store itself and is served in the store's order. If the store serves
    /// waiters in order of arrival, that order then holds across all processes.
    pub fn without_hand_over(self) -> Self {
        self.hand_over(HandOver::default().max_turns(0))
    }

    /// Sets how long the store may take to answer one request. The default is [`DEFAULT_STORE_TIMEOUT`].
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.settings.store_timeout = timeout;
        self
    }

    /// Sets the label that people see when they list holders and waiters in the store. The default is the host name and process id.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.settings.label = label.into();
        self
    }

    /// Checks the settings and creates an async locker.
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
            engine: Arc::new(Engine::new(self.backend, self.settings)),
        }
    }
}

impl LockerBuilder {
    /// Checks the settings and creates the locker.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the TTL or the store timeout is out of range,
    /// [`HandOver::min_valid_percent`](crate::HandOver::min_valid_percent) is over 100, or the label contains control characters.
    pub fn build(self) -> Result<Locker> {
        self.checked()
    }
}

impl<L> fmt::Debug for LockerBuilder<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockerBuilder")
            .field("store", &self.backend.store_name())
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
