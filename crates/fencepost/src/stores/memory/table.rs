//! The table of names: who holds each, who waits for it, and whose turn it is. It has no clock and no tasks: its caller tells it the time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::backend::{self, Holder, Record, Release, Renewal};
use crate::claim::{Claim, Grant, LockName, OwnerId};
use crate::clock::Moment;
use crate::stores::kit::turn_window;

/// All names, and the counters that they share.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) names: HashMap<LockName, Entry>,
    epochs: u64,
    last_ticket: u64,
}

/// A place in a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    number: u64,
    /// When the ticket was drawn.
    drawn_at: Moment,
}

/// One name: its lease, and its line.
#[derive(Debug, Default)]
pub(super) struct Entry {
    lease: Option<Lease>,
    /// When a release last made the lock free.
    freed_at: Option<Moment>,
    /// The waiters by the numbers of their tickets.
    line: BTreeMap<u64, Waiter>,
    tickets: HashMap<OwnerId, u64>,
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
    pub(super) fn claim(&mut self, claim: &Claim, now: Moment) -> Option<Grant> {
        let next_epoch = self.epochs + 1;
        let entry = self.entry(&claim.name);
        let grant = entry.claim(claim, now, next_epoch);
        if grant.is_some_and(|grant| grant.epoch == next_epoch) {
            self.epochs = next_epoch;
        }
        grant
    }

    /// Puts the owner in line, or back to the place it had. Returns its ticket.
    pub(super) fn enqueue(
        &mut self,
        claim: &Claim,
        ticket: Option<Ticket>,
        wake: &Arc<Notify>,
        now: Moment,
    ) -> Ticket {
        self.last_ticket += 1;
        let new = Ticket {
            number: self.last_ticket,
            drawn_at: now,
        };
        let entry = self.entry(&claim.name);
        // The ticket that the owner has in line, or the one it had before it was passed over, or a new one.
        let ticket = entry.ticket_of(claim.owner).or(ticket).unwrap_or(new);
        entry.tickets.insert(claim.owner, ticket.number);
        let waiter = Waiter {
            label: claim.label.clone(),
            owner: claim.owner,
            wake: wake.clone(),
            since: ticket.drawn_at,
            attended: true,
        };
        entry.line.insert(ticket.number, waiter);
        ticket
    }

    /// Returns when it is the turn of the waiter with this ticket, if nobody wakes it before.
    pub(super) fn turn_of(&mut self, name: &LockName, ticket: Ticket) -> Moment {
        let entry = self.entry(name);
        entry.turn_of(entry.rank_of(ticket.number))
    }

    /// Records that a waiting future was dropped; `wake` is its own.
    pub(super) fn leave_unattended(&mut self, claim: &Claim, wake: &Arc<Notify>) {
        let Some(entry) = self.names.get_mut(&claim.name) else {
            return;
        };
        let ticket = entry.tickets.get(&claim.owner);
        let waiter = ticket.and_then(|ticket| entry.line.get_mut(ticket));
        // Unless a new future of the same owner has taken over in the meantime.
        if let Some(waiter) = waiter
            && Arc::ptr_eq(&waiter.wake, wake)
        {
            waiter.attended = false;
            // The dropped future may have consumed the wake-up that was meant for the next waiter.
            entry.ring_first();
        }
    }

    pub(super) fn renew(&mut self, claim: &Claim, now: Moment) -> Renewal {
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

    pub(super) fn release(&mut self, claim: &Claim, now: Moment) -> Release {
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
        let ticket = self.tickets.get(&claim.owner).copied();
        let rank = ticket.map_or(self.line.len(), |ticket| self.rank_of(ticket));
        if now < self.turn_of(rank) {
            return None;
        }
        self.pass_over(ticket);
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
            Ok(rank) => turn_window::opens_at(self.free_at(), rank),
            Err(_) => Moment::FAR,
        }
    }

    /// Returns the ticket that this owner has in line.
    fn ticket_of(&self, owner: OwnerId) -> Option<Ticket> {
        let number = *self.tickets.get(&owner)?;
        let drawn_at = self.line.get(&number)?.since;
        Some(Ticket { number, drawn_at })
    }

    /// Returns how many waiters stand before this ticket.
    fn rank_of(&self, ticket: u64) -> usize {
        self.line.range(..ticket).count()
    }

    /// Removes the new holder from the line, and those ahead of it, which did not claim in time.
    fn pass_over(&mut self, ticket: Option<u64>) {
        let kept = match ticket {
            Some(ticket) => self.line.split_off(&(ticket + 1)),
            None => BTreeMap::new(),
        };
        for waiter in std::mem::replace(&mut self.line, kept).into_values() {
            self.tickets.remove(&waiter.owner);
            waiter.wake.notify_one();
        }
    }

    fn release(&mut self, owner: OwnerId, now: Moment) -> Release {
        if let Some(ticket) = self.tickets.remove(&owner) {
            self.line.remove(&ticket);
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

    /// Wakes the first waiter that listens. If dropped waiters stand ahead of it, it waits until their turn window has passed.
    fn ring_first(&self) {
        if let Some(waiter) = self.line.values().find(|waiter| waiter.attended) {
            waiter.wake.notify_one();
        }
    }

    /// Returns what is known about the lock, or `None` if it is free and nobody waits.
    pub(super) fn record(&self, now: Moment) -> Option<Record> {
        let lease = self.lease.as_ref().filter(|lease| lease.ends > now);
        if lease.is_none() && self.line.is_empty() {
            return None;
        }
        let holder = lease.map(|lease| Holder {
            owner: Some(lease.owner),
            epoch: Some(lease.epoch),
            since: Some(lease.since),
            ttl_left: Some(lease.ends.saturating_duration_since(now)),
            ttl: Some(lease.ttl),
            ..Holder::new(lease.label.clone())
        });
        let waiting = self.line.values().map(|waiter| {
            let waited = now.saturating_duration_since(waiter.since);
            backend::Waiter::new(waiter.label.clone(), waited)
        });
        Some(Record::new(holder, waiting.collect()))
    }
}
