//! The locker: taking a lock, from the question to the guard.
//!
//! Who asks the store for a line of tasks, how long an answer may take, and which answers count is decided here. The order of tasks and
//! the hand-over between them is the [line](crate::line)'s, renewal is the [keeper](crate::keeper)'s.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::backend::Backend;
use crate::claim::LockName;
use crate::clock::{BoxFuture, Moment, within};
use crate::engine::{Duty, Engine, Entry, Hold, Queued, Settings, Turn};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::guard::Guard;
use crate::housekeeping;
use crate::line::{HandOver, Manner};
use crate::random::{Random, SystemRandom};
use crate::ttl::{DEFAULT_TTL, check_ttl};

/// How long the store may take to answer one request when the builder is not told otherwise.
pub const DEFAULT_STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest store timeout: who waits longer for an answer than that has no deadline at all.
const MAX_STORE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How often in a row a grant may arrive after its own end before the locker gives up.
const STALE_GRANTS: u32 = 3;

/// Takes locks in one store. Cheap to clone; clones share everything.
///
/// Tasks that want the same name through the same locker queue inside the process, in order, behind at most one request at
/// the store, and hand the lock to each other without a round trip (see [`HandOver`]). So use *one* locker per store and
/// process, and clone it.
///
/// Needs a Tokio runtime with time enabled; without one, see `fencepost::blocking`. Renewals and background releases run in
/// the runtime that made the first call. If that runtime ends, the next call through the locker moves them to its own;
/// until then nothing is renewed, and guards that are alive elsewhere end with their lease, and say so.
///
/// A future that waits must be polled or dropped. One that is neither when its turn comes holds up the line, as it would
/// with a mutex, for up to a TTL.
#[derive(Clone)]
pub struct Locker {
    engine: Arc<Engine>,
}

/// Settings of a locker, made by [`Locker::builder`]. `L` is the locker that [`build`](Self::build) makes.
#[must_use]
pub struct LockerBuilder<L = Locker> {
    backend: Arc<dyn Backend>,
    random: Arc<dyn Random>,
    settings: Settings,
    makes: PhantomData<fn() -> L>,
}

impl Locker {
    /// A locker with default settings.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self::builder(backend).build_unchecked()
    }

    /// Settings to change before building.
    pub fn builder(backend: Arc<dyn Backend>) -> LockerBuilder {
        LockerBuilder::new(backend)
    }

    /// The store this locker takes locks in.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.engine.backend
    }

    /// What the store calls this locker among holders and waiters.
    pub fn label(&self) -> &str {
        &self.engine.settings.label
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn store_timeout(&self) -> Duration {
        self.engine.settings.store_timeout
    }

    #[cfg(any(feature = "blocking", test))]
    pub(crate) fn errands(&self) -> crate::reaper::Errands {
        self.engine.reaper.errands()
    }

    /// Tries once. `None`: somebody else holds the lock, or waits for it.
    ///
    /// # Errors
    /// The name is not one, the store failed, or it did not answer within the store timeout.
    ///
    /// # Cancel safety
    /// Dropping the future is safe at every point: what the store may have granted is given back in the background.
    pub async fn try_acquire<N>(&self, name: N) -> Result<Option<Guard>>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        self.enter(name, Manner::Try, Moment::FAR).await
    }

    /// Waits for the lock as long as it takes, in line with the other tasks of this locker and, where the store can, with
    /// other processes.
    ///
    /// # Errors
    /// The name is not one, the store failed while waiting, or it did not give a first answer within the store timeout.
    ///
    /// # Cancel safety
    /// Dropping the future is safe at every point: the task leaves the line at once, and what the store may have granted
    /// goes to the next in line or is given back in the background.
    pub async fn acquire<N>(&self, name: N) -> Result<Guard>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        let guard = self.enter(name, Manner::Wait, Moment::FAR).await?;
        guard.ok_or_else(|| self.unanswered())
    }

    /// Waits for the lock for at most `timeout`. Returns `None` if it was not free in time. A timeout of zero tries once.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). A store that gave no answer at all within `timeout` is an error
    /// ([`ErrorKind::Timeout`]), not `None`.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within<N>(&self, name: N, timeout: Duration) -> Result<Option<Guard>>
    where
        N: TryInto<LockName>,
        Error: From<N::Error>,
    {
        let name = name.try_into()?;
        if timeout.is_zero() {
            return self.enter(name, Manner::Try, Moment::FAR).await;
        }
        let until = self.engine.clock.now() + timeout;
        self.enter(name, Manner::Wait, until).await
    }

    /// Ends this locker and its clones: newcomers and those who wait get [`ErrorKind::Closed`], guards that are alive are
    /// [lost](crate::LostReason::Shutdown), and everything is given back to the store. Returns when that is done, or when the store has
    /// not answered for twice the store timeout.
    ///
    /// # Cancel safety
    /// If dropped, the locker is closed all the same; giving back goes on in the background. Call it again to wait.
    pub async fn shutdown(&self) {
        // Without a runtime there is nobody to give anything back; the leases then end by their TTL.
        let _no_runtime = housekeeping::hire(&self.engine);
        self.engine.close();
        let clock = &*self.engine.clock;
        let until = clock.now() + self.engine.settings.store_timeout * 2;
        if within(clock, until, self.engine.reaper.errands().done())
            .await
            .is_none()
        {
            tracing::warn!("shut down before the store had confirmed every release");
        }
        self.engine.dismiss();
    }

    pub(crate) fn unanswered(&self) -> Error {
        self.engine.unanswered(Operation::Acquire)
    }

    pub(crate) async fn enter(
        &self,
        name: LockName,
        manner: Manner,
        until: Moment,
    ) -> Result<Option<Guard>> {
        let span = tracing::debug_span!("acquire", store = self.engine.backend.store(), %name);
        let telemetry = &self.engine.telemetry;
        let asked_at = telemetry.is_heard.then(|| self.engine.clock.now());
        let result = self.take(name, manner, until).instrument(span).await;
        match &result {
            Ok(Some(guard)) => telemetry.granted(asked_at.map(|at| guard.since().since(at))),
            Ok(None) => telemetry.busy(),
            Err(_) => telemetry.failed(),
        }
        result
    }

    async fn take(&self, name: LockName, manner: Manner, until: Moment) -> Result<Option<Guard>> {
        housekeeping::ready(&self.engine)?;
        match self.engine.join(name, manner) {
            Entry::Closed => Err(self.engine.closed_error()),
            Entry::Busy => {
                self.engine.telemetry.contended();
                Ok(None)
            }
            Entry::Drive(duty) => {
                let wait = duty.drive().wait.clone();
                let hold = self.ask(duty, manner, until).await?;
                let was_contended = wait.was_heard() || hold.is_none();
                if was_contended {
                    self.engine.telemetry.contended();
                }
                Ok(hold.map(|hold| Guard::new(hold, was_contended)))
            }
            Entry::Queued(queued) => {
                self.engine.telemetry.contended();
                let hold = match self.wait_in_line(queued, until).await? {
                    Some(Turn::Granted(hold)) => Some(hold),
                    Some(Turn::Drive(duty)) => self.ask(*duty, manner, until).await?,
                    Some(Turn::Failed(error)) => return Err(error),
                    Some(Turn::Refused) | None => None,
                };
                Ok(hold.map(|hold| Guard::new(hold, true)))
            }
        }
    }

    /// `None`: not in time.
    async fn wait_in_line(&self, mut queued: Queued<'_>, until: Moment) -> Result<Option<Turn>> {
        let turn = match until {
            Moment::FAR => Some(queued.turn().await),
            until => within(&*self.engine.clock, until, queued.turn()).await,
        };
        match turn {
            Some(Some(turn)) => Ok(Some(turn)),
            // A line never drops a seat without a word, except when the whole locker goes.
            Some(None) => Err(self.engine.closed_error()),
            None if queued.store_was_heard() => Ok(None),
            None => Err(self.engine.unanswered(Operation::Acquire)),
        }
    }

    /// Asks the store, for this task and everybody behind it. Boxed, so that those who only wait in line do not carry the
    /// room for it.
    fn ask(
        &self,
        duty: Duty,
        manner: Manner,
        until: Moment,
    ) -> BoxFuture<'_, Result<Option<Arc<Hold>>>> {
        Box::pin(self.ask_until_answered(duty, manner, until))
    }

    async fn ask_until_answered(
        &self,
        duty: Duty,
        manner: Manner,
        until: Moment,
    ) -> Result<Option<Arc<Hold>>> {
        let engine = &self.engine;
        // What was dropped just now is given back first: the store then need not make this task wait for it.
        if engine.reaper.is_busy() {
            tokio::task::yield_now().await;
        }
        let mut stale = 0;
        loop {
            let answer = tokio::select! {
                biased;
                answer = self.request(&duty, manner, until) => answer,
                () = engine.closed() => Err(engine.closed_error().with_effect(Effect::Maybe)),
            };
            let now = engine.clock.now();
            match answer {
                // Nobody would renew it: the same owner asks again for the full time.
                Ok(Answer::Granted(grant)) if self.is_cut_short(&grant) => {
                    duty.drive().wait.leave_something();
                }
                Ok(Answer::Granted(grant)) if grant_is_fresh(&grant, now) => {
                    return duty.granted(grant, now).map(Some);
                }
                // Stopped or slowed down between question and answer. The store extends the same lease when asked again.
                Ok(Answer::Granted(_)) if stale < STALE_GRANTS => {
                    duty.drive().wait.leave_something();
                    stale += 1;
                }
                Ok(Answer::Granted(_)) => {
                    let message =
                        "every grant arrived after its own end: the store is slower than the TTL";
                    let store = engine.backend.store();
                    let error = Error::new(ErrorKind::Timeout, store, Operation::Acquire, message)
                        .with_effect(Effect::Maybe);
                    return Err(duty.failed(error));
                }
                Ok(Answer::Busy) => {
                    duty.busy();
                    return Ok(None);
                }
                // Dropping the duty lets the next in line go on with the same request.
                Ok(Answer::NotInTime) => return Ok(None),
                Ok(Answer::Unheard) => return Err(engine.unanswered(Operation::Acquire)),
                Err(error) => return Err(duty.failed(error)),
            }
        }
    }

    /// A store may grant a waiter less than the TTL, for the keeper to extend.
    fn is_cut_short(&self, grant: &crate::claim::Grant) -> bool {
        let settings = &self.engine.settings;
        !settings.keep_alive && grant.lease < settings.ttl
    }

    /// One request at the store, bounded by `until` and, as long as the store has not answered, by the store timeout.
    async fn request(&self, duty: &Duty, manner: Manner, until: Moment) -> Result<Answer> {
        let engine = &self.engine;
        let clock = &*engine.clock;
        let drive = duty.drive();
        let silent_until = clock.now() + engine.settings.store_timeout;
        if manner == Manner::Try {
            let attempt = engine.backend.try_acquire(&drive.claim);
            let answer = within(clock, silent_until, attempt).await;
            return match answer.unwrap_or_else(|| Err(engine.unanswered(Operation::Acquire)))? {
                Some(grant) => Ok(Answer::Granted(grant)),
                None => Ok(Answer::Busy),
            };
        }
        let mut waiting = engine.backend.acquire(&drive.claim, &drive.wait);
        let answer = match within(clock, silent_until.min(until), &mut waiting).await {
            None if drive.wait.was_heard() => match until {
                Moment::FAR => Some(waiting.await),
                until => within(clock, until, &mut waiting).await,
            },
            answer => answer,
        };
        match answer {
            Some(grant) => Ok(Answer::Granted(grant?)),
            None if drive.wait.was_heard() => Ok(Answer::NotInTime),
            None if until < silent_until => Ok(Answer::Unheard),
            None => Err(engine.unanswered(Operation::Acquire)),
        }
    }
}

/// What became of a request.
enum Answer {
    Granted(crate::claim::Grant),
    Busy,
    NotInTime,
    /// This task's own time was over before the store had answered; it may yet answer those behind it.
    Unheard,
}

fn grant_is_fresh(grant: &crate::claim::Grant, now: Moment) -> bool {
    now < grant.asked_at
        + grant
            .lease
            .saturating_sub(crate::lease::margin(grant.lease))
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
    /// Returns [`ErrorKind::InvalidInput`] if the TTL or the store timeout is out of range, or the label contains control
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

impl fmt::Debug for Locker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locker")
            .field("store", &self.engine.backend.store())
            .field("settings", &self.engine.settings)
            .finish_non_exhaustive()
    }
}
