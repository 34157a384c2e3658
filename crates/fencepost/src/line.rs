//! The waiting line of one name inside one process, as a state machine without time, store or tasks.
//!
//! Tasks that want the same name queue here, first come first served, and the process has at most one request at the
//! store: the one at the front *drives* it. When a holder is done, the next in line takes over the lease without a
//! round trip, under a larger fence, until a bound in turns, time or remaining validity ends the lease and lets other
//! processes in.
//!
//! The machine only decides. It is told what happened and answers what to do; [`Locker`](crate::Locker) does it. `W` is whatever
//! reaches a waiting task; the property tests use numbers.
//!
//! ```text
//!          join                   granted                 done, within the bound
//!   Idle ────────► Asking ───────────────────► Held ───────────────────────────────► Held (next in line)
//!    ▲               │ ▲ driver gave up:         │ done, bound reached or nobody waits
//!    │  failed, busy │ └─ next drives, same claim│
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

/// How a task wants the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// One attempt: refused when anybody else holds or waits.
    Try,
    /// In line until it is granted.
    Wait,
}

/// How long one lease may be handed from task to task inside this process before others get their chance.
///
/// Handing over costs no round trip, so the bounds trade throughput of this process against waiting time of others.
/// Hand-over ends with whichever bound is met first; the lease then goes back to the store, and whoever is next in *its*
/// line gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandOver {
    /// At most this many hand-overs under one lease. Default 64. Zero: the store sees every hold.
    pub turns: u16,
    /// None after the lease has been held this long. Default 50 ms.
    pub time: Duration,
    /// None when less than this part of the lease, in percent, is still valid: the next holder needs time to work. Default 50.
    ///
    /// That is of the TTL; or, where the store grants one who waited a short lease at first (Redis 0.6 s, etcd 5 s), of that one until it
    /// is renewed, 20 ms later.
    pub min_valid_percent: u8,
}

impl Default for HandOver {
    fn default() -> Self {
        Self {
            turns: 64,
            time: Duration::from_millis(50),
            min_valid_percent: 50,
        }
    }
}

impl HandOver {
    /// The default bounds.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most `turns` hand-overs under one lease.
    #[must_use]
    pub fn turns(mut self, turns: u16) -> Self {
        self.turns = turns;
        self
    }

    /// No hand-over after the lease has been held for `time`.
    #[must_use]
    pub fn time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// No hand-over when less than `percent` of the lease is still valid.
    #[must_use]
    pub fn min_valid_percent(mut self, percent: u8) -> Self {
        self.min_valid_percent = percent;
        self
    }

    fn allows(&self, held: &Held, now: Moment) -> bool {
        let least = held.lease.length() * u32::from(self.min_valid_percent) / 100;
        held.seq < self.turns
            && now.since(held.since) < self.time
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
    Asking(Asking),
    Held(Held),
}

#[derive(Debug)]
struct Asking {
    claim: Claim,
    wait: Arc<Wait>,
    manner: Manner,
}

#[derive(Debug)]
struct Held {
    lease: Arc<Lease>,
    /// Hand-overs so far: the fence's second part.
    seq: u16,
    since: Moment,
}

/// The request that the task at the front makes at the store, for the whole line.
#[derive(Debug, Clone)]
pub(crate) struct Drive {
    pub(crate) claim: Claim,
    /// Whether the store has answered, shared with those who wait behind the driver.
    pub(crate) wait: Arc<Wait>,
}

/// The answer to [`Line::join`].
#[derive(Debug)]
pub(crate) enum Joined {
    /// Nobody is before you: ask the store.
    Drive(Drive),
    /// In line; a message comes.
    Queued,
    /// Somebody holds or waits.
    Busy,
}

/// What to do after a holder is done.
#[derive(Debug)]
pub(crate) enum Done<W> {
    /// Give the lock to this task, under this seq of the lease's fence.
    HandOver { to: W, seq: u16 },
    /// End the lease at the store, and let this task ask anew.
    Release { next: Option<(W, Drive)> },
    /// The line had moved on: this lease was lost before.
    NotHeld,
}

/// What to do after a driver came back without a lease.
#[derive(Debug)]
pub(crate) struct Undriven<W> {
    /// This task asks the store now.
    pub(crate) next: Option<(W, Drive)>,
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
    /// A task wants the lock. `seat` is called only when it has to wait.
    pub(crate) fn join(
        &mut self,
        manner: Manner,
        ticket: Ticket,
        mint: impl FnOnce() -> Claim,
        seat: impl FnOnce() -> W,
    ) -> Joined {
        match (&self.stage, manner) {
            (Stage::Idle, _) => Joined::Drive(self.ask(mint(), manner)),
            (Stage::Held(_), Manner::Try) => Joined::Busy,
            // Another attempt is under way, not a waiter: its answer decides for this one too.
            (Stage::Asking(asking), Manner::Try)
                if asking.manner == Manner::Wait || self.somebody_waits() =>
            {
                Joined::Busy
            }
            _ => {
                self.waiting.push(ticket, (manner, seat()));
                Joined::Queued
            }
        }
    }

    /// A queued task gave up. `false`: it was not in line any more, a message is on its way to it.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> bool {
        self.waiting.remove(ticket).is_some()
    }

    /// The store granted the driver's claim. Returns those who had only tried: they are refused. `None`: the line has
    /// abandoned this request.
    pub(crate) fn granted(&mut self, lease: &Arc<Lease>, now: Moment) -> Option<Vec<W>> {
        if !self.is_asking(lease.claim.owner) {
            return None;
        }
        self.stage = Stage::Held(Held {
            lease: lease.clone(),
            seq: 0,
            since: now,
        });
        Some(self.refuse_tries())
    }

    /// The store told the driver, which only tried, that the lock is taken.
    pub(crate) fn busy(&mut self, owner: OwnerId) -> Undriven<W> {
        let refused = self.refuse_tries();
        Undriven {
            next: self.next_drives(owner),
            refused,
        }
    }

    /// The driver gave up (dropped, or out of time): the next in line goes on with the same claim and keeps its place
    /// at the store. Without a next one, the caller withdraws the claim.
    pub(crate) fn driver_left(&mut self, owner: OwnerId) -> Option<(W, Drive)> {
        self.next_drives(owner)
    }

    /// The store failed the driver; it fails all who wait, at once and not one after the other.
    pub(crate) fn failed(&mut self, owner: OwnerId) -> Vec<W> {
        if !self.is_asking(owner) {
            return Vec::new();
        }
        self.stage = Stage::Idle;
        self.take_all()
    }

    /// A holder is done with the lease of `owner`.
    pub(crate) fn done(
        &mut self,
        owner: OwnerId,
        now: Moment,
        bound: &HandOver,
        mint: impl FnOnce() -> Claim,
    ) -> Done<W> {
        let Stage::Held(held) = &mut self.stage else {
            return Done::NotHeld;
        };
        if held.lease.claim.owner != owner {
            return Done::NotHeld;
        }
        if bound.allows(held, now)
            && let Some((_, to)) = self.waiting.pop_first()
        {
            held.seq += 1;
            return Done::HandOver { to, seq: held.seq };
        }
        self.stage = Stage::Idle;
        Done::Release {
            next: self.front_asks(mint),
        }
    }

    /// The lease of `owner` is lost. Its holder learns it from the lease; the line goes on without it.
    pub(crate) fn lost(
        &mut self,
        owner: OwnerId,
        mint: impl FnOnce() -> Claim,
    ) -> Option<(W, Drive)> {
        match &self.stage {
            Stage::Held(held) if held.lease.claim.owner == owner => {
                self.stage = Stage::Idle;
                self.front_asks(mint)
            }
            _ => None,
        }
    }

    /// Everybody in line, for good.
    pub(crate) fn take_all(&mut self) -> Vec<W> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_items().map(|(_, seat)| seat).collect()
    }

    /// Gives up a request at the store; the caller withdraws the claim.
    pub(crate) fn abandon(&mut self) -> Option<Claim> {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Asking(asking) => Some(asking.claim),
            other => {
                self.stage = other;
                None
            }
        }
    }

    /// The lease held here.
    pub(crate) fn lease(&self) -> Option<&Arc<Lease>> {
        match &self.stage {
            Stage::Held(held) => Some(&held.lease),
            _ => None,
        }
    }

    /// Whether the driver's request has been answered by the store; true when there is no request.
    pub(crate) fn store_was_heard(&self) -> bool {
        match &self.stage {
            Stage::Asking(asking) => asking.wait.was_heard(),
            _ => true,
        }
    }

    /// Nothing to remember.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.stage, Stage::Idle) && self.waiting.is_empty()
    }

    fn is_asking(&self, owner: OwnerId) -> bool {
        matches!(&self.stage, Stage::Asking(asking) if asking.claim.owner == owner)
    }

    fn somebody_waits(&self) -> bool {
        let last = self.waiting.last();
        last.is_some_and(|(manner, _)| *manner == Manner::Wait)
    }

    fn ask(&mut self, claim: Claim, manner: Manner) -> Drive {
        let wait = Arc::new(Wait::default());
        let drive = Drive {
            claim: claim.clone(),
            wait: wait.clone(),
        };
        self.stage = Stage::Asking(Asking {
            claim,
            wait,
            manner,
        });
        drive
    }

    fn front_asks(&mut self, mint: impl FnOnce() -> Claim) -> Option<(W, Drive)> {
        let (manner, seat) = self.waiting.pop_first()?;
        Some((seat, self.ask(mint(), manner)))
    }

    /// The front of the line takes over the request of `owner`, or it ends.
    fn next_drives(&mut self, owner: OwnerId) -> Option<(W, Drive)> {
        let Stage::Asking(asking) = &mut self.stage else {
            return None;
        };
        if asking.claim.owner != owner {
            return None;
        }
        let Some((manner, seat)) = self.waiting.pop_first() else {
            self.stage = Stage::Idle;
            return None;
        };
        asking.manner = manner;
        let drive = Drive {
            claim: asking.claim.clone(),
            wait: asking.wait.clone(),
        };
        Some((seat, drive))
    }

    /// A task that only tries joins only while nobody waits, so they all stand at the front.
    fn refuse_tries(&mut self) -> Vec<W> {
        let mut refused = Vec::new();
        while let Some((Manner::Try, _)) = self.waiting.first() {
            refused.extend(self.waiting.pop_first().map(|(_, seat)| seat));
        }
        refused
    }
}

#[cfg(test)]
mod simulation;
