//! What all requests of one [`Etcd`](super::Etcd) share: a connection to one of the servers, and what each owner has at the store.
//!
//! All requests go to one server at a time. If it is gone, silent, or without a leader, the same request goes to the next server. A
//! transaction carries the condition under which it takes effect, and `leases.rs` handles a repeated grant or revocation. Requests that
//! must not be repeated use `ask_once`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error as Cause};
use tokio::sync::Notify;

use super::failure;
use super::loss_watch::LossWatch;
use super::owners::Owners;
use super::rounds::{Next, Rounds};
use super::settings::Settings;
use crate::backend::LossBell;
use crate::clock::{BootClock, Clock, within};
use crate::error::{Effect, Error, Operation, Result};
use crate::mutex::lock;

/// How long a server may be silent before it is given up. This is longer than ordinary delays, and shorter than most callers' timeouts.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// If there are other servers, one that does not answer a renewal is given up after the TTL divided by this number.
const ANSWER_TIMEOUTS_PER_TTL: u32 = 6;
/// The least time after which such a server is given up, because a busy server is not a silent one.
const MIN_ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// How long an election may take before a request fails because there is no leader.
const ELECTION: Duration = Duration::from_secs(3);
/// The pause after all servers were asked during an election.
const ROUND_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Hub {
    endpoints: Vec<String>,
    options: ConnectOptions,
    /// The prefix of the keys of all locks.
    pub(super) prefix: String,
    pub(super) settings: Settings,
    pub(super) owners: Owners,
    pub(super) loss_watch: LossWatch,
    /// Rings when a key that is held is gone, or may be.
    pub(super) loss_bell: LossBell,
    connection: Mutex<Option<Arc<Connection>>>,
    /// Which endpoint to use. Whoever increments it makes all requests use the next endpoint.
    endpoint_number: AtomicU64,
    /// Only one task connects at a time; the others use its connection.
    connecting: tokio::sync::Mutex<()>,
}

/// One connection to one server.
pub(super) struct Connection {
    pub(super) client: Client,
    given_up: AtomicBool,
    told: Notify,
}

impl Connection {
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Completes when this connection is given up.
    pub(super) async fn until_given_up(&self) {
        loop {
            let told = self.told.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if self.is_given_up() {
                return;
            }
            told.await;
        }
    }
}

/// Why a request has no answer.
pub(super) enum Failed {
    /// A server refused the request. If `repeated`, an earlier attempt of the same request may have taken effect.
    Refused { cause: Cause, repeated: bool },
    /// No server answered.
    Unreached(Error),
}

impl Failed {
    pub(super) fn into_error(self, operation: Operation) -> Error {
        match self {
            Self::Refused {
                cause,
                repeated: false,
            } => failure::of_request(operation, cause),
            Self::Refused {
                cause,
                repeated: true,
            } => failure::of_request(operation, cause).with_effect(Effect::Maybe),
            Self::Unreached(error) => error,
        }
    }
}

impl Hub {
    pub(super) fn new(
        endpoints: Vec<String>,
        options: ConnectOptions,
        prefix: String,
        settings: Settings,
    ) -> Self {
        Self {
            endpoints,
            options,
            prefix,
            settings,
            owners: Owners::default(),
            loss_watch: LossWatch::default(),
            loss_bell: LossBell::new(),
            connection: Mutex::default(),
            endpoint_number: AtomicU64::new(0),
            connecting: tokio::sync::Mutex::default(),
        }
    }

    /// Returns how many servers there are.
    pub(super) fn servers(&self) -> usize {
        self.endpoints.len()
    }

    /// Sends a request to one server after the other until one answers.
    ///
    /// `operation` is for errors. `silence` is how long each server may take.
    pub(super) async fn ask<T, F>(
        &self,
        operation: Operation,
        silence: Duration,
        request: impl Fn(Client) -> F,
    ) -> std::result::Result<T, Failed>
    where
        F: Future<Output = std::result::Result<T, Cause>>,
    {
        let give_up_at = BootClock.now() + ELECTION;
        let mut rounds = Rounds::among(self.endpoints.len());
        let mut effect = Effect::None;
        loop {
            let connection = self.connection(operation).await;
            let (error, is_between_leaders) = match connection {
                Err(error) => (error, false),
                Ok(connection) => match self.ask_over(&connection, silence, &request).await {
                    Some(Ok(answer)) => return Ok(answer),
                    Some(Err(cause)) if failure::ends_connection(&cause) => {
                        let is_between_leaders = failure::is_between_leaders(&cause);
                        (failure::of_request(operation, cause), is_between_leaders)
                    }
                    Some(Err(cause)) => {
                        let repeated = effect == Effect::Maybe;
                        return Err(Failed::Refused { cause, repeated });
                    }
                    None => (failure::unanswered(operation), false),
                },
            };
            if error.effect() == Effect::Maybe {
                effect = Effect::Maybe;
            }
            let next = if error.is_transient() {
                rounds.after(is_between_leaders, BootClock.now() >= give_up_at)
            } else {
                Next::GiveUp
            };
            match next {
                Next::AskAnother => {}
                Next::Pause => BootClock.sleep_until(BootClock.now() + ROUND_PAUSE).await,
                Next::GiveUp => return Err(Failed::Unreached(error.with_effect(effect))),
            }
        }
    }

    /// Sends a request once to one server, for requests that must not be repeated.
    pub(super) async fn ask_once<T, F>(
        &self,
        operation: Operation,
        request: impl Fn(Client) -> F,
    ) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, Cause>>,
    {
        let connection = self.connection(operation).await?;
        match self.ask_over(&connection, ANSWER_TIMEOUT, &request).await {
            Some(answer) => answer.map_err(|cause| failure::of_request(operation, cause)),
            None => Err(failure::unanswered(operation)),
        }
    }

    /// Returns `None` if the server did not answer. Gives up a connection that failed.
    async fn ask_over<T, F>(
        &self,
        connection: &Arc<Connection>,
        silence: Duration,
        request: &impl Fn(Client) -> F,
    ) -> Option<std::result::Result<T, Cause>>
    where
        F: Future<Output = std::result::Result<T, Cause>>,
    {
        let until = BootClock.now() + silence;
        let answer = within(&BootClock, until, request(connection.client.clone())).await;
        let is_useless = match &answer {
            None => true,
            Some(Err(cause)) => failure::ends_connection(cause),
            Some(Ok(_)) => false,
        };
        if is_useless {
            self.give_up(connection);
        }
        answer
    }

    /// Returns the connection, and opens a new one if there is none.
    pub(super) async fn connection(&self, operation: Operation) -> Result<Arc<Connection>> {
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let _alone = self.connecting.lock().await;
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let endpoint_number = self.endpoint_number.load(Ordering::Relaxed);
        // The remainder is smaller than the number of endpoints.
        let endpoint = &self.endpoints[(endpoint_number % self.endpoints.len() as u64) as usize];
        let connecting = Client::connect([endpoint], Some(self.options.clone()));
        let until = BootClock.now() + self.settings.connect_timeout;
        let connected = match within(&BootClock, until, connecting).await {
            Some(Ok(client)) => Ok(client),
            Some(Err(cause)) => Err(failure::of_connecting(operation, cause)),
            None => Err(failure::unanswered(operation).with_effect(Effect::None)),
        };
        let client = connected.inspect_err(|_| {
            self.endpoint_number.fetch_add(1, Ordering::Relaxed);
        })?;
        let connection = Arc::new(Connection {
            client,
            given_up: AtomicBool::new(false),
            told: Notify::new(),
        });
        *lock(&self.connection) = Some(connection.clone());
        Ok(connection)
    }

    fn current(&self) -> Option<Arc<Connection>> {
        let connection = lock(&self.connection);
        connection
            .as_ref()
            .filter(|connection| !connection.is_given_up())
            .cloned()
    }

    /// Gives up the connection: the next request goes to another server, and tasks that watch over this connection check again.
    pub(super) fn give_up(&self, connection: &Connection) {
        if !connection.given_up.swap(true, Ordering::AcqRel) {
            self.endpoint_number.fetch_add(1, Ordering::Relaxed);
        }
        connection.told.notify_waiters();
    }

    /// Returns how long a server may take to answer a request about a lease of this TTL before another server is asked.
    pub(super) fn silence_for(&self, ttl: Duration) -> Duration {
        match self.endpoints.len() {
            1 => ANSWER_TIMEOUT,
            _ => (ttl / ANSWER_TIMEOUTS_PER_TTL).clamp(MIN_ANSWER_TIMEOUT, ANSWER_TIMEOUT),
        }
    }
}
