//! The waiting line of one name inside one process, as a state machine without a clock, a store or tasks.
//!
//! Tasks that want the same name queue here in order of arrival, and the process has at most one request at the store: the task at the
//! front sends it. When a holder is done, the next task takes over the lease without a round trip, under a larger fence, until a limit
//! of turns, time or remaining validity ends the lease and lets other processes in.
//!
//! The state machine only decides: it is told what happened and returns what to do, and the [`Locker`](crate::Locker) does it. `W` is the
//! handle of a waiting task; the property tests use numbers.
//!
//! ```text
//!          join                   granted                 done, within the limits
//!   Idle ────────► Asking ───────────────────► Held ───────────────────────────────► Held (next in line)
//!    ▲               │ ▲ asker gave up:          │ done, a limit reached or nobody waits
//!    │  failed, busy │ └─ next asks, same claim  │
//!    └───────────────┴───────────────────────────┘ (if somebody waits: Asking, with a new claim)
//! ```

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Wait;
use crate::claim::{Claim, OwnerId};
use crate::clock::Moment;
use crate::lease::Lease;
use crate::queue::Queue;
pub(crate) use crate::queue::Ticket;

/// How a task asks for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// One attempt, which is refused if anybody else holds the lock or waits for it.
    Try,
    /// Wait in line until the lock is granted.
    Wait,
}

/// Limits for how long one lease may be handed from task to task inside this process before others get their chance.
///
/// Handing over costs no round trip, so the limits trade throughput of this process against waiting time of others. Hand-over ends at the
/// first limit that is reached. The lease then goes back to the store, and the next client in the store's line gets the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandOver {
    /// The maximum number of hand-overs under one lease. The default is 64. With zero, the store sees every hold.
    pub max_turns: u16,
    /// There is no hand-over after the lease has been held for this long. The default is 50 ms.
    pub max_time: Duration,
    /// There is no hand-over if less than this percentage of the lease is still valid, because the next holder needs time to work. The
    /// default is 50.
    ///
    /// The percentage is of the TTL. If the store grants a waiter a short lease at first (0.6 s on Redis, 5 s on etcd), it is of that lease
    /// until it is renewed 20 ms later.
    pub min_valid_percent: u8,
}

impl Default for HandOver {
    fn default() -> Self {
        Self {
            max_turns: 64,
            max_time: Duration::from_millis(50),
            min_valid_percent: 50,
        }
    }
}

impl HandOver {
    /// Creates the default limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows at most `turns` hand-overs under one lease.
    #[must_use]
    pub fn max_turns(mut self, turns: u16) -> Self {
        self.max_turns = turns;
        self
    }

    /// Ends hand-over after the lease has been held for `time`.
    #[must_use]
    pub fn max_time(mut self, time: Duration) -> Self {
        self.max_time = time;
        self
    }

    /// Ends hand-over when less than `percent` of the lease is still valid.
    #[must_use]
    pub fn min_valid_percent(mut self, percent: u8) -> Self {
        self.min_valid_percent = percent;
        self
    }

    fn allows(&self, held: &CurrentHold, now: Moment) -> bool {
        let least = held.lease.length() * u32::from(self.min_valid_percent) / 100;
        held.seq < self.max_turns
            && now.saturating_duration_since(held.since) < self.max_time
            && held.lease.left(now) >= least.max(Duration::from_nanos(1))
    }
}

/// The line of one name.
#[derive(Debug)]
pub(crate) struct Line<W> {
    waiting: Queue<(Manner, W)>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Asking {
        request: StoreRequest,
        manner: Manner,
    },
    Held(CurrentHold),
}

/// The hold of the task that has the lock now.
#[derive(Debug)]
struct CurrentHold {
    lease: Arc<Lease>,
    /// The number of hand-overs so far, which is the second part of the fence.
    seq: u16,
    since: Moment,
}

/// The request that the task at the front sends to the store on behalf of the whole line.
#[derive(Debug, Clone)]
pub(crate) struct StoreRequest {
    pub(crate) claim: Claim,
    /// Whether the store has answered, shared with the tasks behind the one that asks.
    pub(crate) wait: Arc<Wait>,
}

/// The answer to [`Line::join`].
#[derive(Debug)]
pub(crate) enum Joined {
    /// Nobody is ahead: ask the store.
    Ask(StoreRequest),
    /// The task is in line, and will get a message.
    Queued,
    /// Somebody holds the lock or waits for it.
    Busy,
}

/// What to do after a holder is done.
#[derive(Debug)]
pub(crate) enum Done<W> {
    /// Give the lock to this task, with this `seq` in its fence.
    HandOver { to: W, seq: u16 },
    /// End the lease at the store, and then let this task ask again.
    Release { next: Option<(W, StoreRequest)> },
    /// The line no longer has this lease, because it was lost before.
    NotHeld,
}

/// What to do after the store told a task that the lock is taken.
#[derive(Debug)]
pub(crate) struct AfterBusy<W> {
    /// This task asks the store next.
    pub(crate) next: Option<(W, StoreRequest)>,
    /// These tasks are told that the lock is taken.
    pub(crate) refused: Vec<W>,
}

impl<W> Default for Line<W> {
    fn default() -> Self {
        Self {
            waiting: Queue::default(),
            stage: Stage::Idle,
        }
    }
}

impl<W> Line<W> {
    /// Lets a task join. `waiter` is called only if the task has to wait.
    pub(crate) fn join(
        &mut self,
        manner: Manner,
        ticket: Ticket,
        new_claim: impl FnOnce() -> Claim,
        waiter: impl FnOnce() -> W,
    ) -> Joined {
        match (&self.stage, manner) {
            (Stage::Idle, _) => Joined::Ask(self.ask(new_claim(), manner)),
            (Stage::Held(_), Manner::Try) => Joined::Busy,
            // Somebody waits already.
            (Stage::Asking { manner, .. }, Manner::Try)
                if *manner == Manner::Wait || self.somebody_waits() =>
            {
                Joined::Busy
            }
            // Another attempt is in progress; its answer decides for a task that only tries, too.
            _ => {
                self.waiting.push(ticket, (manner, waiter()));
                Joined::Queued
            }
        }
    }

    /// Removes a queued task that gave up. Returns `false` if it was no longer in line, because a message is on its way to it.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> bool {
        self.waiting.remove(ticket).is_some()
    }

    /// Records that the store granted the claim. Returns the tasks that had only tried, which are refused, or `None` if the line
    /// has abandoned this request.
    pub(crate) fn granted(&mut self, lease: &Arc<Lease>, now: Moment) -> Option<Vec<W>> {
        if !self.is_asking(lease.claim.owner) {
            return None;
        }
        self.stage = Stage::Held(CurrentHold {
            lease: lease.clone(),
            seq: 0,
            since: now,
        });
        Some(self.refuse_tries())
    }

    /// Records that the store told the task that asked, which only tried, that the lock is taken.
    pub(crate) fn busy(&mut self, owner: OwnerId) -> AfterBusy<W> {
        let refused = self.refuse_tries();
        AfterBusy {
            next: self.next_asks(owner),
            refused,
        }
    }

    /// Records that the task that asked gave up (dropped, or out of time). The next task in line continues with the same claim, and keeps its
    /// place at the store. If there is no next task, the caller withdraws the claim.
    pub(crate) fn asker_left(&mut self, owner: OwnerId) -> Option<(W, StoreRequest)> {
        self.next_asks(owner)
    }

    /// Records that the store failed for the task that asked. That fails all waiting tasks at once, and not one after the other.
    pub(crate) fn failed(&mut self, owner: OwnerId) -> Vec<W> {
        if !self.is_asking(owner) {
            return Vec::new();
        }
        self.stage = Stage::Idle;
        self.take_all()
    }

    /// Records that a holder is done with the lease of `owner`.
    pub(crate) fn done(
        &mut self,
        owner: OwnerId,
        now: Moment,
        limits: &HandOver,
        new_claim: impl FnOnce() -> Claim,
    ) -> Done<W> {
        let Stage::Held(held) = &mut self.stage else {
            return Done::NotHeld;
        };
        if held.lease.claim.owner != owner {
            return Done::NotHeld;
        }
        if limits.allows(held, now)
            && let Some((_, to)) = self.waiting.pop_first()
        {
            held.seq += 1;
            return Done::HandOver { to, seq: held.seq };
        }
        self.stage = Stage::Idle;
        Done::Release {
            next: self.front_asks(new_claim),
        }
    }

    /// Records that the lease of `owner` is lost. Its holder learns that from the lease; the line continues without it.
    pub(crate) fn lost(
        &mut self,
        owner: OwnerId,
        new_claim: impl FnOnce() -> Claim,
    ) -> Option<(W, StoreRequest)> {
        match &self.stage {
            Stage::Held(held) if held.lease.claim.owner == owner => {
                self.stage = Stage::Idle;
                self.front_asks(new_claim)
            }
            _ => None,
        }
    }

    /// Removes and returns all tasks in line.
    pub(crate) fn take_all(&mut self) -> Vec<W> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_items().map(|(_, waiter)| waiter).collect()
    }

    /// Abandons a request at the store; the caller withdraws the claim.
    pub(crate) fn abandon(&mut self) -> Option<Claim> {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Asking { request, .. } => Some(request.claim),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// Returns the lease that is held here.
    pub(crate) fn lease(&self) -> Option<&Arc<Lease>> {
        match &self.stage {
            Stage::Held(held) => Some(&held.lease),
            _ => None,
        }
    }

    /// Returns whether the store has answered the request, or `true` if there is no request.
    pub(crate) fn store_has_answered(&self) -> bool {
        match &self.stage {
            Stage::Asking { request, .. } => request.wait.was_busy(),
            _ => true,
        }
    }

    /// Returns whether there is nothing to remember.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.stage, Stage::Idle) && self.waiting.is_empty()
    }

    fn is_asking(&self, owner: OwnerId) -> bool {
        matches!(&self.stage, Stage::Asking { request, .. } if request.claim.owner == owner)
    }

    fn somebody_waits(&self) -> bool {
        let last = self.waiting.last();
        last.is_some_and(|(manner, _)| *manner == Manner::Wait)
    }

    fn ask(&mut self, claim: Claim, manner: Manner) -> StoreRequest {
        let wait = Arc::default();
        let request = StoreRequest { claim, wait };
        self.stage = Stage::Asking {
            request: request.clone(),
            manner,
        };
        request
    }

    fn front_asks(&mut self, new_claim: impl FnOnce() -> Claim) -> Option<(W, StoreRequest)> {
        if self.waiting.is_empty() {
            return None;
        }
        // If the source of random numbers panics, nobody has left the line: the next task that asks lets the line continue.
        let claim = new_claim();
        let (manner, waiter) = self.waiting.pop_first()?;
        Some((waiter, self.ask(claim, manner)))
    }

    /// Lets the task at the front of the line take over the request of `owner`. Without such a task, the request ends.
    fn next_asks(&mut self, owner: OwnerId) -> Option<(W, StoreRequest)> {
        let Stage::Asking { request, manner } = &mut self.stage else {
            return None;
        };
        if request.claim.owner != owner {
            return None;
        }
        let Some((manner_of_next, waiter)) = self.waiting.pop_first() else {
            self.stage = Stage::Idle;
            return None;
        };
        *manner = manner_of_next;
        Some((waiter, request.clone()))
    }

    /// Removes the tasks that only try. They can join only while nobody waits, so all of them are at the front.
    fn refuse_tries(&mut self) -> Vec<W> {
        let mut refused = Vec::new();
        while let Some((Manner::Try, _)) = self.waiting.first() {
            refused.extend(self.waiting.pop_first().map(|(_, waiter)| waiter));
        }
        refused
    }
}

#[cfg(test)]
mod simulation;
