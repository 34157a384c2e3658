//! What clients ask of a [`Roster`]. Call [`settle`](Roster::settle) first; `now` is the same time.

use std::time::Duration;

use super::roster::{Capacity, Need, Place, Roster, Share, Waiting};
use super::slots::Slots;
use crate::backend::{Release, Renewal};
use crate::claim::{Claim, OwnerId, Part};
use crate::stores::kit::turn_window;

/// How a client asks for a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// Once, without waiting.
    Once,
    /// In line, at this place if it had one.
    InLine(Option<Place>),
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The owner has its share. The record has changed.
    Granted {
        /// The epoch of its fence.
        epoch: u64,
        /// The numbers of its permits.
        slots: Slots,
    },
    /// The owner stands in line. The record has changed only if it has `joined` just now.
    Waits {
        /// Its place.
        place: Place,
        /// Whether it was not in line before.
        joined: bool,
    },
    /// Somebody else is ahead, and the owner only tried. The record has not changed.
    Busy,
}

/// Why a request can never be granted. The record has not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Impossible {
    /// The name belongs to a kind with this capacity.
    OtherKind(Capacity),
    /// There are only so many permits.
    TooMany {
        /// How many are wanted.
        wanted: u32,
        /// How many there are.
        permits: u32,
    },
    /// Nothing is wanted.
    Nothing,
    /// The claim is for a whole lock.
    Whole,
    /// The owner that wants to read in place of its writing does not write any more.
    NotWriting,
}

impl Roster {
    /// Grants the claim if there is room and nobody is ahead of it. If the owner has its share already, extends it.
    ///
    /// # Errors
    /// Returns an error if the claim can never be granted.
    pub fn claim(
        &mut self,
        claim: &Claim,
        asking: Asking,
        now: Duration,
        epoch_floor: u64,
    ) -> Result<Claimed, Impossible> {
        if let Some(granted) = self.extended(claim, now) {
            return Ok(granted);
        }
        let need = self.admit(claim.part)?;
        if let Part::ReadInPlaceOf(writer) = claim.part {
            self.end_writing(writer)?;
            let granted = self.grant(claim, need, now, epoch_floor);
            self.call(now.saturating_add(turn_window::FIRST));
            return Ok(granted);
        }
        let stood = self.waiting(claim.owner).is_some();
        if asking == Asking::Once && !stood {
            return Ok(if self.has_room_for_a_newcomer(need) {
                self.grant(claim, need, now, epoch_floor)
            } else {
                Claimed::Busy
            });
        }
        let place = self.take_place(claim, need, asking, now);
        self.call(now.saturating_add(turn_window::FIRST));
        Ok(if self.may_take_its_turn(claim.owner) {
            self.line.retain(|waiting| waiting.owner != claim.owner);
            self.grant(claim, need, now, epoch_floor)
        } else if asking == Asking::Once {
            Claimed::Busy
        } else {
            let joined = !stood;
            Claimed::Waits { place, joined }
        })
    }

    /// Extends the share of this owner so that it lasts at least `ttl` from now on. Never shortens it. The record has changed only if the
    /// owner has a share.
    pub fn renew(&mut self, owner: OwnerId, ttl: Duration, now: Duration) -> Renewal {
        match self.shares.iter_mut().find(|share| share.owner == owner) {
            Some(share) => {
                share.extend(ttl, now);
                Renewal::Extended
            }
            None => Renewal::Lost,
        }
    }

    /// Ends the share of this owner, or removes it from the line, and calls those for whom there is room now. Returns the answer, and
    /// whether the record has changed.
    pub fn release(&mut self, owner: OwnerId, now: Duration) -> (Release, bool) {
        let before = (self.shares.len(), self.line.len());
        self.shares.retain(|share| share.owner != owner);
        self.line.retain(|waiting| waiting.owner != owner);
        let has_freed = self.shares.len() < before.0;
        let has_left = self.line.len() < before.1;
        self.call(now.saturating_add(turn_window::FIRST));
        let release = if has_freed {
            Release::Freed
        } else {
            Release::NotHeld
        };
        (release, has_freed || has_left)
    }

    /// Changes the number of permits. Takes nothing away from anybody: permits beyond the new number are not granted again when they are
    /// released. Waiters that want more than there are then leave the line.
    ///
    /// # Errors
    /// Returns an error if the name is a read-write lock, or there would be no permit.
    pub fn resize(&mut self, permits: u32, now: Duration) -> Result<(), Impossible> {
        if permits == 0 {
            return Err(Impossible::Nothing);
        }
        if let Some(other @ Capacity::ReadWrite) = self.capacity {
            return Err(Impossible::OtherKind(other));
        }
        self.capacity = Some(Capacity::Permits(permits));
        self.line
            .retain(|waiting| waiting.need.permits() <= permits);
        // What was kept for those who were called may be more than there is now.
        self.line
            .iter_mut()
            .for_each(|waiting| waiting.called_until = None);
        self.call(now.saturating_add(turn_window::FIRST));
        Ok(())
    }

    /// Extends the share that the owner of the claim has already: the answer to an earlier attempt was lost.
    fn extended(&mut self, claim: &Claim, now: Duration) -> Option<Claimed> {
        let mut shares = self.shares.iter_mut();
        let share = shares.find(|share| share.owner == claim.owner)?;
        share.extend(claim.ttl, now);
        Some(Claimed::Granted {
            epoch: share.epoch,
            slots: share.slots.clone(),
        })
    }

    /// Returns what the part takes, if there can ever be as much. Sets the capacity if nobody has said so before.
    fn admit(&mut self, part: Part) -> Result<Need, Impossible> {
        let (Some(expected), Some(need)) = (Capacity::of(part), Need::of(part)) else {
            return Err(Impossible::Whole);
        };
        let capacity = self.capacity.unwrap_or(expected);
        if !capacity.is_like(expected) {
            return Err(Impossible::OtherKind(capacity));
        }
        if let (Need::Permits(wanted), Capacity::Permits(permits)) = (need, capacity) {
            if wanted == 0 {
                return Err(Impossible::Nothing);
            }
            if wanted > permits {
                return Err(Impossible::TooMany { wanted, permits });
            }
        }
        self.capacity = Some(capacity);
        Ok(need)
    }

    fn end_writing(&mut self, writer: OwnerId) -> Result<(), Impossible> {
        let before = self.shares.len();
        self.shares
            .retain(|share| share.owner != writer || share.need != Need::Write);
        if self.shares.len() == before {
            return Err(Impossible::NotWriting);
        }
        Ok(())
    }

    /// Returns whether somebody who comes now can have its share at once.
    fn has_room_for_a_newcomer(&self, need: Need) -> bool {
        let capacity = self.capacity.map(|capacity| self.room(capacity));
        capacity.is_some_and(|room| room.fits(need)) && !self.somebody_must_wait()
    }

    /// Returns the place of the owner in the line, and puts it there if it was not. A place that it had before counts.
    fn take_place(&mut self, claim: &Claim, need: Need, asking: Asking, now: Duration) -> Place {
        if let Some(waiting) = self.waiting(claim.owner) {
            return waiting.place();
        }
        let before = match asking {
            Asking::InLine(before) => before,
            Asking::Once => None,
        };
        let place = before.unwrap_or(Place {
            ticket: self.last_ticket.saturating_add(1),
            since: now,
        });
        // After a loss of the record, the place may be from another line.
        self.last_ticket = self.last_ticket.max(place.ticket);
        let behind = self
            .line
            .iter()
            .position(|waiting| waiting.ticket > place.ticket);
        let at = behind.unwrap_or(self.line.len());
        let waiting = Waiting {
            owner: claim.owner,
            need,
            ticket: place.ticket,
            since: place.since,
            called_until: None,
            label: claim.label.clone(),
        };
        self.line.insert(at, waiting);
        place
    }

    /// Returns whether this owner is called and gets what it was called for. A number of permits that somebody has changed by hand may be too
    /// low.
    fn may_take_its_turn(&self, owner: OwnerId) -> bool {
        let waiting = self.waiting(owner);
        waiting.is_some_and(|waiting| {
            let slots = self.lowest_free_slots(waiting.need);
            waiting.called_until.is_some() && slots.count() == waiting.need.permits()
        })
    }

    fn grant(&mut self, claim: &Claim, need: Need, now: Duration, epoch_floor: u64) -> Claimed {
        let epoch = self.last_epoch.saturating_add(1).max(epoch_floor);
        self.last_epoch = epoch;
        let slots = self.lowest_free_slots(need);
        self.shares.push(Share {
            owner: claim.owner,
            need,
            slots: slots.clone(),
            epoch,
            since: now,
            ends: now.saturating_add(claim.ttl),
            ttl: claim.ttl,
            label: claim.label.clone(),
        });
        Claimed::Granted { epoch, slots }
    }

    fn lowest_free_slots(&self, need: Need) -> Slots {
        match (need, self.capacity) {
            (Need::Permits(count), Some(Capacity::Permits(permits))) => {
                let taken = self.shares.iter().map(|share| &share.slots);
                Slots::lowest_free(count, permits, taken)
            }
            _ => Slots::default(),
        }
    }
}

impl Share {
    fn extend(&mut self, ttl: Duration, now: Duration) {
        let ends = now.saturating_add(ttl);
        if ends > self.ends {
            (self.ends, self.ttl) = (ends, ttl);
        }
    }
}

impl Waiting {
    /// Returns the place of this waiter.
    pub fn place(&self) -> Place {
        Place {
            ticket: self.ticket,
            since: self.since,
        }
    }
}
