//! Locks inside one process, for tests and for programs that run alone. This store is the reference for the behaviour of all others.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
//! use std::sync::Arc;
//! use fencepost::Locker;
//! use fencepost::stores::memory::Memory;
//!
//! let locker = Locker::new(Arc::new(Memory::new()));
//! let guard = locker.acquire("nightly-report").await?;
//! assert!(guard.release().await.is_released());
//! # Ok(()) }
//! ```
//!
//! **Algorithm.** One mutex protects a table of names. A name has at most one lease, which ends at a moment of the clock, and a line of
//! waiters with tickets. A release wakes the first waiter, which claims the lock when it is polled. A waiter whose future was dropped, and
//! which does not come back within the claim window of half a second, is passed over. It therefore delays the line only for a moment; if it
//! comes back later, it has its old place. A future that is kept but not polled may cost the rest of a TTL.
//!
//! **The fence** comes from one counter for the whole store, which ends with the process, like everything here.
//!
//! **What can go wrong.** There is no network that could fail. If a test's clock jumps ahead, leases end.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::{
    self, Backend, Capabilities, Holder, Listed, Record, Release, Renewal, Wait, name_matches,
};
use crate::claim::{Claim, Grant, LockName, OwnerId};
use crate::clock::{BootClock, BoxFuture, Clock, Moment};
use crate::error::Result;
use crate::mutex::lock;
use crate::stores::kit::claim_window;

/// Locks in memory.
#[derive(Debug)]
pub struct Memory {
    clock: Arc<dyn Clock>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    names: HashMap<LockName, Entry>,
    epochs: u64,
    tickets: u64,
}

#[derive(Debug, Default)]
struct Entry {
    lease: Option<Lease>,
    /// When a release last made the lock free.
    freed_at: Option<Moment>,
    line: BTreeMap<u64, Waiter>,
    places: HashMap<OwnerId, u64>,
}

#[derive(Debug)]
struct Lease {
    owner: OwnerId,
    label: Arc<str>,
    epoch: u64,
    since: Moment,
    ends: Moment,
    /// The TTL of the request that granted or last extended the lease.
    ttl: Duration,
}

#[derive(Debug)]
struct Waiter {
    label: Arc<str>,
    owner: OwnerId,
    wake: Arc<Notify>,
    /// When the waiter joined the line.
    since: Moment,
    /// Whether a future of this waiter is alive. If the future was dropped, the waiter may come back or release.
    attended: bool,
}

/// What a waiter learns when it checks the lock.
enum Checked {
    Granted(Grant),
    /// Check again when woken, or at this moment.
    Later(Moment),
}

impl Memory {
    /// Creates an empty store on the real clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(BootClock))
    }

    /// Creates an empty store on this clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            table: Mutex::default(),
        }
    }

    fn check(
        &self,
        claim: &Claim,
        ticket: &mut Option<(u64, Moment)>,
        wake: &Arc<Notify>,
    ) -> Checked {
        let now = self.clock.now();
        let mut table = lock(&self.table);
        if let Some(grant) = table.claim(claim, now) {
            return Checked::Granted(grant);
        }
        let (place, since) = table.enqueue(claim, *ticket, wake, now);
        *ticket = Some((place, since));
        let entry = table.entry(&claim.name);
        Checked::Later(entry.turn_of(entry.rank_of(place)))
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for Memory {
    fn store_name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fifo: true,
            across_processes: false,
            leases: true,
        }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn try_acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Option<Grant>>> {
        Box::pin(async move {
            let now = self.clock.now();
            Ok(lock(&self.table).claim(claim, now))
        })
    }

    fn acquire<'a>(&'a self, claim: &'a Claim, wait: &'a Wait) -> BoxFuture<'a, Result<Grant>> {
        Box::pin(async move {
            let wake = Arc::new(Notify::new());
            let mut ticket = None;
            let _attendance = Attendance {
                store: self,
                claim,
                wake: &wake,
            };
            loop {
                let next = match self.check(claim, &mut ticket, &wake) {
                    Checked::Granted(grant) => return Ok(grant),
                    Checked::Later(next) => next,
                };
                wait.report_busy();
                tokio::select! {
                    () = wake.notified() => {}
                    () = self.clock.sleep_until(next) => {}
                }
            }
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewal>>> {
        Box::pin(async move {
            let now = self.clock.now();
            let mut table = lock(&self.table);
            claims
                .iter()
                .map(|claim| Ok(table.renew(claim, now)))
                .collect()
        })
    }

    /// All leases are renewed in one pass under the mutex.
    fn renew_batch_size(&self) -> usize {
        1024
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            let now = self.clock.now();
            Ok(lock(&self.table).release(claim, now))
        })
    }

    fn inspect<'a>(&'a self, name: &'a LockName) -> BoxFuture<'a, Result<Option<Record>>> {
        Box::pin(async move {
            let now = self.clock.now();
            let table = lock(&self.table);
            Ok(table.names.get(name).and_then(|entry| entry.record(now)))
        })
    }

    fn list<'a>(&'a self, pattern: Option<&'a str>) -> BoxFuture<'a, Result<Vec<Listed>>> {
        Box::pin(async move {
            let now = self.clock.now();
            let table = lock(&self.table);
            let wanted = table.names.iter().filter(|(name, _)| {
                pattern.is_none_or(|pattern| name_matches(pattern, name.as_str()))
            });
            let listed = wanted.filter_map(|(name, entry)| {
                Some(Listed {
                    name: name.to_string(),
                    record: entry.record(now)?,
                })
            });
            Ok(listed.collect())
        })
    }
}

/// Records that a waiting future was dropped.
struct Attendance<'a> {
    store: &'a Memory,
    claim: &'a Claim,
    wake: &'a Arc<Notify>,
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        let mut table = lock(&self.store.table);
        let Some(entry) = table.names.get_mut(&self.claim.name) else {
            return;
        };
        let place = entry.places.get(&self.claim.owner);
        let waiter = place.and_then(|place| entry.line.get_mut(place));
        // Unless a new future of the same owner has taken over in the meantime.
        if let Some(waiter) = waiter
            && Arc::ptr_eq(&waiter.wake, self.wake)
        {
            waiter.attended = false;
            // The dropped future may have consumed the wake-up that was meant for the next waiter.
            entry.ring_first();
        }
    }
}

impl Table {
    fn entry(&mut self, name: &LockName) -> &mut Entry {
        if !self.names.contains_key(name) {
            self.names.insert(name.clone(), Entry::default());
        }
        match self.names.get_mut(name) {
            Some(entry) => entry,
            None => unreachable!("inserted above"),
        }
    }

    /// Grants the lock if this owner already has it, or if it is free and this owner's turn.
    fn claim(&mut self, claim: &Claim, now: Moment) -> Option<Grant> {
        let next_epoch = self.epochs + 1;
        let entry = self.entry(&claim.name);
        let grant = entry.claim(claim, now, next_epoch);
        if grant.is_some_and(|grant| grant.epoch == next_epoch) {
            self.epochs = next_epoch;
        }
        grant
    }

    fn enqueue(
        &mut self,
        claim: &Claim,
        ticket: Option<(u64, Moment)>,
        wake: &Arc<Notify>,
        now: Moment,
    ) -> (u64, Moment) {
        self.tickets += 1;
        let newest = self.tickets;
        let entry = self.entry(&claim.name);
        // The owner's current place, or the place it had before it was passed over, or the last place.
        let place = entry.places.get(&claim.owner).copied();
        let place = place.and_then(|place| Some((place, entry.line.get(&place)?.since)));
        let (place, since) = place.or(ticket).unwrap_or((newest, now));
        entry.places.insert(claim.owner, place);
        let waiter = Waiter {
            label: claim.label.clone(),
            owner: claim.owner,
            wake: wake.clone(),
            since,
            attended: true,
        };
        entry.line.insert(place, waiter);
        (place, since)
    }

    fn renew(&mut self, claim: &Claim, now: Moment) -> Renewal {
        let lease = self
            .names
            .get_mut(&claim.name)
            .and_then(|entry| entry.lease.as_mut());
        match lease {
            Some(lease) if lease.owner == claim.owner && lease.ends > now => {
                lease.extend(now, claim.ttl);
                Renewal::Extended
            }
            _ => Renewal::Lost,
        }
    }

    fn release(&mut self, claim: &Claim, now: Moment) -> Release {
        let Some(entry) = self.names.get_mut(&claim.name) else {
            return Release::NotHeld;
        };
        let answer = entry.release(claim.owner, now);
        if entry.lease.is_none() && entry.line.is_empty() {
            self.names.remove(&claim.name);
        }
        answer
    }
}

impl Lease {
    fn extend(&mut self, now: Moment, ttl: Duration) {
        if now + ttl > self.ends {
            (self.ends, self.ttl) = (now + ttl, ttl);
        }
    }
}

impl Entry {
    fn claim(&mut self, claim: &Claim, now: Moment, next_epoch: u64) -> Option<Grant> {
        if let Some(lease) = &mut self.lease
            && lease.ends > now
        {
            if lease.owner != claim.owner {
                return None;
            }
            // The answer to an earlier attempt of this owner was lost.
            lease.extend(now, claim.ttl);
            return Some(Grant {
                epoch: lease.epoch,
                asked_at: now,
                lease: claim.ttl,
            });
        }
        let place = self.places.get(&claim.owner).copied();
        let rank = place.map_or(self.line.len(), |place| self.rank_of(place));
        if now < self.turn_of(rank) {
            return None;
        }
        self.pass_over(place);
        self.lease = Some(Lease {
            owner: claim.owner,
            label: claim.label.clone(),
            epoch: next_epoch,
            since: now,
            ends: now + claim.ttl,
            ttl: claim.ttl,
        });
        Some(Grant {
            epoch: next_epoch,
            asked_at: now,
            lease: claim.ttl,
        })
    }

    /// Returns when the lock is, or will be, free.
    fn free_at(&self) -> Moment {
        match &self.lease {
            Some(lease) => lease.ends,
            None => self.freed_at.unwrap_or(Moment::ZERO),
        }
    }

    /// Returns when the waiter with `rank` waiters ahead of it may claim.
    fn turn_of(&self, rank: usize) -> Moment {
        match u32::try_from(rank) {
            Ok(rank) => claim_window::opens_at(self.free_at(), rank),
            Err(_) => Moment::FAR,
        }
    }

    fn rank_of(&self, place: u64) -> usize {
        self.line.range(..place).count()
    }

    /// Removes the new holder from the line, and those ahead of it, which did not claim in time.
    fn pass_over(&mut self, place: Option<u64>) {
        let kept = match place {
            Some(place) => self.line.split_off(&(place + 1)),
            None => BTreeMap::new(),
        };
        for waiter in std::mem::replace(&mut self.line, kept).into_values() {
            self.places.remove(&waiter.owner);
            waiter.wake.notify_one();
        }
    }

    fn release(&mut self, owner: OwnerId, now: Moment) -> Release {
        if let Some(place) = self.places.remove(&owner) {
            self.line.remove(&place);
            // All waiters behind have moved up.
            self.ring_first();
        }
        match &self.lease {
            Some(lease) if lease.owner == owner => {
                let held = lease.ends > now;
                self.freed_at = Some(lease.ends.min(now));
                self.lease = None;
                self.ring_first();
                if held {
                    Release::Freed
                } else {
                    Release::NotHeld
                }
            }
            _ => Release::NotHeld,
        }
    }

    /// Wakes the first waiter that listens. If dropped waiters stand ahead of it, it waits until their claim window has passed.
    fn ring_first(&self) {
        if let Some(waiter) = self.line.values().find(|waiter| waiter.attended) {
            waiter.wake.notify_one();
        }
    }

    fn record(&self, now: Moment) -> Option<Record> {
        let lease = self.lease.as_ref().filter(|lease| lease.ends > now);
        if lease.is_none() && self.line.is_empty() {
            return None;
        }
        Some(Record {
            holder: lease.map(|lease| Holder {
                owner: Some(lease.owner),
                label: lease.label.clone(),
                epoch: Some(lease.epoch),
                since: Some(lease.since),
                ttl_left: Some(lease.ends.saturating_duration_since(now)),
                ttl: Some(lease.ttl),
            }),
            waiting: self
                .line
                .values()
                .map(|waiter| backend::Waiter {
                    label: waiter.label.clone(),
                    waited: now.saturating_duration_since(waiter.since),
                })
                .collect(),
        })
    }
}
