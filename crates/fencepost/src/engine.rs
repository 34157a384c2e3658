//! The inside of a [`Locker`](crate::Locker): all its lines, and the code that carries out their decisions.
//!
//! Decisions are made under one mutex, which is never held across an await or while a message is sent. Messages ([`Turn`]) carry what they
//! give as owned values: a hold that reaches nobody is dropped, and dropping it hands the lock on. Therefore no path, however it is
//! cancelled, loses a lock or a waiter.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use crate::alarm::Alarm;
use crate::backend::Backend;
use crate::claim::{Claim, LockName, OwnerId, Part};
use crate::clock::{Clock, Moment};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::fence::Fence;
use crate::lease::{Lease, LostReason};
use crate::line::{HandOver, Joined, Line, Manner, StoreRequest, Ticket};
use crate::mutex::lock;
use crate::random::SystemRandom;
use crate::reaper::Reaper;
use crate::shares::Shares;
use crate::telemetry::Telemetry;

mod duty;
mod hold;
mod wanted;

pub(crate) use duty::{Duty, Queued};
pub(crate) use hold::Hold;
pub use hold::ReleaseOutcome;
pub(crate) use wanted::Wanted;

/// The settings of the builder.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) ttl: Duration,
    pub(crate) keep_alive: bool,
    pub(crate) hand_over: HandOver,
    pub(crate) store_timeout: Duration,
    pub(crate) label: Arc<str>,
}

/// The message to a waiting task.
pub(crate) enum Turn {
    /// The task has the lock.
    Granted(Arc<Hold>),
    /// The task is at the front and must ask the store. Boxed, so that the most frequent message is small.
    Ask(Box<Duty>),
    /// Somebody else has the lock, and the task only tried.
    Refused,
    /// The store failed for the task that asked on behalf of the line.
    Failed(Error),
}

pub(crate) type TurnSender = oneshot::Sender<Turn>;

/// The key of a line. Without hand-over, every claim has its own line, so that the store alone decides the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LineKey {
    name: LockName,
    /// The owner of the claim. Set only if hand-over is off.
    owner: Option<OwnerId>,
}

impl Hash for LineKey {
    /// Hashes without the separators of fields and variants: in one locker, either all keys have an owner or none has.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write(self.name.as_str().as_bytes());
        if let Some(owner) = self.owner {
            owner.hash(hasher);
        }
    }
}

/// The state behind the mutex.
#[derive(Default)]
struct Lines {
    by_key: HashMap<LineKey, Line<TurnSender>>,
    /// The last ticket. Tickets are drawn under the mutex, so they are in the order of joining.
    tickets: Ticket,
    /// Whether the locker was shut down, so that nobody can join any more.
    closed: bool,
}

/// What all clones and guards of one locker share: the store, the settings, the lines, and the tasks in the background.
pub(crate) struct Engine {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) telemetry: Telemetry,
    pub(crate) reaper: Reaper,
    pub(crate) alarm: Arc<Alarm>,
    lines: Mutex<Lines>,
    /// A copy of [`Lines::closed`] that can be read without the mutex.
    closed: AtomicBool,
    closing: Notify,
    /// The engine of elections and runs, with the same store and settings, but without hand-over. Created when it is first needed.
    twin: OnceLock<Arc<Engine>>,
    /// The engine of semaphores and read-write locks. Created when it is first needed.
    shares: OnceLock<SharesEngine>,
    /// Whether the housekeeping task is running. Becomes false again when its runtime drops the task.
    pub(crate) has_housekeeping: Arc<AtomicBool>,
    pub(crate) starting_housekeeping: Mutex<()>,
}

/// The engine of the semaphores and read-write locks of a locker, which is created when it is first needed. It has the same settings, except
/// that the store decides the order of all tasks.
pub(crate) struct SharesEngine {
    pub(crate) engine: Arc<Engine>,
    /// The backend of that engine.
    pub(crate) shares: Arc<Shares>,
}

/// The result of joining a line.
pub(crate) enum Entry<'a> {
    Ask(Duty),
    Queued(Queued<'a>),
    Busy,
    /// The locker was shut down.
    Closed,
}

impl Engine {
    pub(crate) fn new(backend: Arc<dyn Backend>, settings: Settings) -> Self {
        let reaper = Reaper::new(backend.clock(), settings.store_timeout);
        Self::with_reaper(backend, settings, reaper)
    }

    fn with_reaper(backend: Arc<dyn Backend>, settings: Settings, reaper: Reaper) -> Self {
        let clock = backend.clock();
        let alarm = Arc::new(Alarm::new(clock.clone()));
        if let Some(bell) = backend.loss_bell() {
            bell.listen(&alarm);
        }
        Self {
            reaper,
            clock,
            telemetry: Telemetry::new(backend.store_name()),
            settings,
            alarm,
            lines: Mutex::default(),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
            twin: OnceLock::new(),
            shares: OnceLock::new(),
            has_housekeeping: Arc::default(),
            starting_housekeeping: Mutex::default(),
            backend,
        }
    }

    /// Returns the engine for holds that never change hands inside the process and are always renewed. It ends with this one.
    pub(crate) fn without_hand_over(self: &Arc<Self>) -> Arc<Self> {
        if self.is_hand_over_off() && self.settings.keep_alive {
            return self.clone();
        }
        let twin = self.twin.get_or_init(|| {
            let settings = Settings {
                hand_over: HandOver::default().max_turns(0),
                keep_alive: true,
                ..self.settings.clone()
            };
            let reaper = self.reaper.beside();
            Arc::new(Self::with_reaper(self.backend.clone(), settings, reaper))
        });
        // Whoever closes this engine either finds the twin, or has closed it before this check.
        if lock(&self.lines).closed {
            twin.close();
        }
        twin.clone()
    }

    /// Returns the engine of semaphores and read-write locks. It ends with this one.
    pub(crate) fn shares(&self) -> &SharesEngine {
        let shares = self.shares.get_or_init(|| {
            let shares = Arc::new(Shares::new(self.backend.clone()));
            let settings = Settings {
                hand_over: HandOver::default().max_turns(0),
                ..self.settings.clone()
            };
            let reaper = self.reaper.beside();
            let engine = Arc::new(Self::with_reaper(shares.clone(), settings, reaper));
            SharesEngine { engine, shares }
        });
        // Whoever closes this engine either finds the other one, or has closed it before this check.
        if lock(&self.lines).closed {
            shares.engine.close();
        }
        shares
    }

    /// Returns the engines for other kinds of lock that exist beside this one. They end with it.
    pub(crate) fn siblings(&self) -> impl Iterator<Item = &Arc<Self>> {
        let shares = self.shares.get().map(|shares| &shares.engine);
        self.twin.get().into_iter().chain(shares)
    }

    /// Lets a task join the line of the name that it wants.
    pub(crate) fn join(self: &Arc<Self>, wanted: Wanted, manner: Manner) -> Entry<'_> {
        let mut receiver = None;
        let sender = || {
            let (sender, turn) = oneshot::channel();
            receiver = Some(turn);
            sender
        };
        let (key, claim) = if self.is_hand_over_off() {
            let claim = wanted.claim(self.new_claim(&wanted.name));
            (self.key(&claim), Some(claim))
        } else {
            let name = wanted.name;
            (LineKey { name, owner: None }, None)
        };
        let new_claim = || claim.unwrap_or_else(|| self.new_claim(&key.name));
        let (ticket, joined) = {
            let mut lines = lock(&self.lines);
            if lines.closed {
                return Entry::Closed;
            }
            lines.tickets += 1;
            let ticket = lines.tickets;
            let line = match lines.by_key.get_mut(&key) {
                Some(line) => line,
                None => lines.by_key.entry(key.clone()).or_default(),
            };
            (ticket, line.join(manner, ticket, new_claim, sender))
        };
        match joined {
            Joined::Ask(request) => Entry::Ask(Duty::new(self.clone(), request)),
            Joined::Busy => Entry::Busy,
            Joined::Queued => match receiver {
                Some(turn) => Entry::Queued(Queued::new(self, key, ticket, turn)),
                None => unreachable!("a line that queues a task has asked for its sender"),
            },
        }
    }

    /// Marks a lease as lost: its holders are told, and the line continues without it.
    pub(crate) fn lose(self: &Arc<Self>, lease: &Lease, reason: LostReason) {
        let reason = lease.lose(reason);
        let name = &lease.claim.name;
        // A holder or the keeper may have noticed the end of the lease before this call. The line had the lease only until the first call.
        let mut is_first_call = false;
        let next = self.with_line(&lease.claim, |line| {
            is_first_call = line
                .lease()
                .is_some_and(|held| held.claim.owner == lease.claim.owner);
            line.lost(lease.claim.owner, || self.new_claim(name))
        });
        if is_first_call {
            self.telemetry.lost(reason);
            tracing::warn!(%name, epoch = lease.epoch, ?reason, "lock lost");
            if reason == LostReason::OutOfTime {
                // The store's lease ends later and, with some stores, not before the process does.
                self.reaper.give_back(lease.claim_to_release());
            }
        }
        self.deliver_duty(next.flatten());
    }

    /// Returns whether a lease is held, and neither released nor lost.
    pub(crate) fn holds(&self, lease: &Lease) -> bool {
        let holds = self.with_line(&lease.claim, |line| {
            let held = line.lease();
            held.is_some_and(|held| held.claim.owner == lease.claim.owner)
        });
        holds.unwrap_or(false)
    }

    /// Returns the leases that are held now, for the keeper.
    pub(crate) fn leases(&self) -> Vec<Arc<Lease>> {
        let lines = lock(&self.lines);
        lines
            .by_key
            .values()
            .filter_map(|line| line.lease().cloned())
            .collect()
    }

    /// Refuses new tasks, fails the waiting ones, and releases what is held.
    pub(crate) fn close(self: &Arc<Self>) {
        let (waiting, asking): (Vec<Vec<TurnSender>>, Vec<Option<Claim>>) = {
            let mut lines = lock(&self.lines);
            lines.closed = true;
            self.closed.store(true, Ordering::Release);
            let all = lines.by_key.values_mut();
            all.map(|line| (line.take_all(), line.abandon())).unzip()
        };
        self.closing.notify_waiters();
        for sender in waiting.into_iter().flatten() {
            self.deliver(sender, Turn::Failed(self.closed_error()));
        }
        for claim in asking.into_iter().flatten() {
            self.reaper.withdraw(claim);
        }
        for lease in self.leases() {
            self.lose(&lease, LostReason::Shutdown);
            self.reaper.give_back(lease.claim_to_release());
        }
        for sibling in self.siblings() {
            sibling.close();
        }
    }

    /// Ends the keeper. The reaper stays until the last guard is gone, because a grant may be on its way.
    pub(crate) fn stop_keeper(&self) {
        self.alarm.ring();
        for sibling in self.siblings() {
            sibling.stop_keeper();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Completes when [`close`](Self::close) was called.
    pub(crate) async fn closed(&self) {
        let closing = self.closing.notified();
        tokio::pin!(closing);
        closing.as_mut().enable();
        if !self.is_closed() {
            closing.await;
        }
    }

    pub(crate) fn closed_error(&self) -> Error {
        self.error(
            ErrorKind::Closed,
            Operation::Acquire,
            "the locker was shut down",
        )
    }

    pub(crate) fn unanswered(&self, operation: Operation) -> Error {
        self.error(
            ErrorKind::Timeout,
            operation,
            "the store did not answer in time",
        )
        .with_effect(match operation {
            Operation::Inspect | Operation::ReadRecord => Effect::None,
            _ => Effect::Maybe,
        })
    }

    /// Returns the Tokio runtime of a caller that wants a lock, or an error if there is none or the locker was shut down.
    pub(crate) fn runtime_if_open(&self) -> Result<Handle> {
        if self.is_closed() {
            return Err(self.closed_error());
        }
        self.runtime(Operation::Acquire)
    }

    /// Returns the Tokio runtime of the caller, or an error if there is none.
    pub(crate) fn runtime(&self, operation: Operation) -> Result<Handle> {
        Handle::try_current().map_err(|_| {
            self.error(
                ErrorKind::WrongContext,
                operation,
                "called outside a Tokio runtime; use fencepost::blocking there",
            )
        })
    }

    pub(crate) fn error(
        &self,
        kind: ErrorKind,
        operation: Operation,
        message: &'static str,
    ) -> Error {
        Error::new(kind, self.backend.store_name(), operation, message)
    }

    /// Creates a hold of this lease, whose fence has the sequence number `seq`.
    pub(crate) fn hold(self: &Arc<Self>, lease: Arc<Lease>, seq: u16, now: Moment) -> Arc<Hold> {
        // The epoch was checked when the lease was created.
        let fence =
            Fence::new(lease.epoch, seq).unwrap_or_else(|_| unreachable!("epoch was checked"));
        Hold::new(self.clone(), lease, fence, now)
    }

    fn is_hand_over_off(&self) -> bool {
        self.settings.hand_over.max_turns == 0
    }

    fn key(&self, claim: &Claim) -> LineKey {
        LineKey {
            name: claim.name.clone(),
            owner: self.is_hand_over_off().then_some(claim.owner),
        }
    }

    fn new_claim(&self, name: &LockName) -> Claim {
        Claim {
            name: name.clone(),
            owner: OwnerId::random(&SystemRandom),
            ttl: self.settings.ttl,
            label: self.settings.label.clone(),
            part: Part::Whole,
            value: None,
        }
    }

    /// Calls `tell` with the line of `claim`, and removes the line if nothing is left in it.
    pub(crate) fn with_line<T>(
        &self,
        claim: &Claim,
        tell: impl FnOnce(&mut Line<TurnSender>) -> T,
    ) -> Option<T> {
        self.with_line_at(&self.key(claim), tell)
    }

    pub(crate) fn with_line_at<T>(
        &self,
        key: &LineKey,
        tell: impl FnOnce(&mut Line<TurnSender>) -> T,
    ) -> Option<T> {
        let mut lines = lock(&self.lines);
        let line = lines.by_key.get_mut(key)?;
        let answer = tell(line);
        if line.is_empty() {
            lines.by_key.remove(key);
        }
        Some(answer)
    }

    pub(crate) fn deliver(&self, sender: TurnSender, turn: Turn) {
        // The message comes back if the task is gone; dropping it then passes on what it carries.
        drop(sender.send(turn));
    }

    pub(crate) fn deliver_duty(self: &Arc<Self>, next: Option<(TurnSender, StoreRequest)>) {
        if let Some((sender, request)) = next {
            let duty = Duty::new(self.clone(), request);
            self.deliver(sender, Turn::Ask(Box::new(duty)));
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Wakes the keeper, which then finds the engine gone and ends. The reaper closes its own queue.
        self.alarm.ring();
    }
}
