//! [`Owners`]: what this process remembers of the owners that it asks for.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::machine::{Place, Slots};
use crate::claim::OwnerId;
use crate::clock::Moment;
use crate::mutex::lock;

/// How long an owner is remembered after its lease could last. A waiter looks at its record more often than that.
const GRACE: Duration = Duration::from_secs(60);

/// The owners that asked through one backend and were not released yet.
#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_id: HashMap<OwnerId, Known>,
    /// When there are this many owners, those whose time is over are forgotten: nobody may be left to release them.
    sweep_at: usize,
}

/// What is known of an owner.
#[derive(Debug)]
struct Known {
    /// How many of its replacements have no answer: they may still take effect.
    unanswered: Arc<AtomicU32>,
    /// The last place that it had in line.
    place: Option<Place>,
    /// The permits that it was granted; no number for a reader or a writer.
    granted: Option<Slots>,
    /// When nothing of it can be left at the store.
    over_at: Moment,
}

impl Owners {
    /// Remembers an owner that is about to ask for a lease of this length.
    pub(super) fn asks(&self, owner: OwnerId, ttl: Duration, now: Moment) {
        let over_at = now + ttl.saturating_add(GRACE);
        let mut table = lock(&self.0);
        if let Some(known) = table.by_id.get_mut(&owner) {
            known.over_at = known.over_at.max(over_at);
            return;
        }
        table.make_room(now);
        let known = Known {
            unanswered: Arc::default(),
            place: None,
            granted: None,
            over_at,
        };
        table.by_id.insert(owner, known);
    }

    /// Returns the last place that the owner had in line.
    pub(super) fn place_of(&self, owner: OwnerId) -> Option<Place> {
        lock(&self.0).by_id.get(&owner)?.place
    }

    pub(super) fn waits_at(&self, owner: OwnerId, place: Place) {
        if let Some(known) = lock(&self.0).by_id.get_mut(&owner) {
            known.place = Some(place);
        }
    }

    pub(super) fn was_granted(&self, owner: OwnerId, slots: Slots) {
        if let Some(known) = lock(&self.0).by_id.get_mut(&owner) {
            known.granted = Some(slots);
        }
    }

    /// Returns what the owner was granted here, or `None` if it was granted nothing or has been released.
    pub(super) fn slots_of(&self, owner: OwnerId) -> Option<Slots> {
        lock(&self.0).by_id.get(&owner)?.granted.clone()
    }

    /// Returns whether every replacement of this owner was answered. `false` for an owner that asked elsewhere.
    pub(super) fn is_answered(&self, owner: OwnerId) -> bool {
        let table = lock(&self.0);
        let known = table.by_id.get(&owner);
        known.is_some_and(|known| known.unanswered.load(Ordering::Acquire) == 0)
    }

    /// Forgets an owner that was released.
    pub(super) fn forget(&self, owner: OwnerId) {
        lock(&self.0).by_id.remove(&owner);
    }

    /// Records that the owner is about to ask for its lease to last this long.
    pub(super) fn extends(&self, owner: OwnerId, ttl: Duration, now: Moment) {
        if let Some(known) = lock(&self.0).by_id.get_mut(&owner) {
            known.over_at = known.over_at.max(now + ttl.saturating_add(GRACE));
        }
    }

    /// Records that a replacement of these owners is being sent. It counts as unanswered until [`Sent::answered`] is called.
    pub(super) fn sends(&self, owners: &[OwnerId]) -> Sent {
        let table = lock(&self.0);
        let known = owners.iter().filter_map(|owner| table.by_id.get(owner));
        let unanswered: Vec<_> = known.map(|known| known.unanswered.clone()).collect();
        for count in &unanswered {
            count.fetch_add(1, Ordering::AcqRel);
        }
        Sent { unanswered }
    }
}

impl Table {
    fn make_room(&mut self, now: Moment) {
        const FEW: usize = 64;
        if self.by_id.len() >= self.sweep_at.max(FEW) {
            self.by_id.retain(|_, known| known.over_at > now);
            self.sweep_at = self.by_id.len() * 2;
        }
    }
}

/// A replacement on its way. If it is dropped, it may still take effect.
#[derive(Debug)]
#[must_use]
pub(super) struct Sent {
    unanswered: Vec<Arc<AtomicU32>>,
}

impl Sent {
    /// Records that the store has said whether the replacement took effect.
    pub(super) fn answered(self) {
        for count in &self.unanswered {
            count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    const TTL: Duration = Duration::from_secs(10);

    fn owner(number: u64) -> OwnerId {
        OwnerId::random(&SeededRandom::new(number))
    }

    #[test]
    fn a_replacement_is_unanswered_until_its_answer() {
        let owners = Owners::default();
        let [one, other] = [owner(1), owner(2)];
        assert!(!owners.is_answered(one), "it asked elsewhere");
        owners.asks(one, TTL, Moment::ZERO);
        assert!(owners.is_answered(one));
        let sent = owners.sends(&[one, other]);
        assert!(!owners.is_answered(one));
        sent.answered();
        assert!(owners.is_answered(one));
        drop(owners.sends(&[one]));
        owners.sends(&[one]).answered();
        assert!(!owners.is_answered(one), "the dropped one may take effect");
        owners.forget(one);
        assert!(!owners.is_answered(one));
    }

    #[test]
    fn an_owner_without_a_grant_has_no_slots_not_the_first_one() {
        let owners = Owners::default();
        let owner = owner(1);
        assert_eq!(owners.slots_of(owner), None, "it asked elsewhere");
        owners.asks(owner, TTL, Moment::ZERO);
        assert_eq!(owners.slots_of(owner), None, "it has no answer yet");
        let slots = Slots::lowest_free(2, 4, std::iter::empty());
        owners.was_granted(owner, slots.clone());
        assert_eq!(owners.slots_of(owner), Some(slots));
        owners.forget(owner);
        assert_eq!(owners.slots_of(owner), None, "it was released");
    }

    #[test]
    fn owners_that_nobody_releases_are_forgotten_when_their_time_is_over() {
        let owners = Owners::default();
        for number in 0..1_000 {
            owners.asks(owner(number), TTL, Moment::ZERO);
        }
        let late = Moment::ZERO + TTL + GRACE;
        for number in 1_000..2_000 {
            owners.asks(owner(number), TTL, late);
        }
        let left = lock(&owners.0).by_id.len();
        assert!((1_000..1_100).contains(&left), "{left}");
        owners.asks(owner(1_999), TTL, late);
        assert!(owners.is_answered(owner(1_999)));
    }
}
