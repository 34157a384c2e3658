//! What must be true of every record and of every grant.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Held, World};
use crate::claim::{OwnerId, Part};
use crate::shares::machine::{Capacity, Need, Roster};

impl World {
    /// Checks a share that was granted just now. The client has seen the record as it was `before`.
    pub(super) fn check_grant(&mut self, new: &Held, before: &Roster) {
        let after = self.settled();
        let Some(granted) = after.shares.iter().find(|share| share.epoch == new.epoch) else {
            // The lease was over when its replacement took effect.
            self.highest_epoch = self.highest_epoch.max(new.epoch);
            return;
        };
        if before
            .shares
            .iter()
            .any(|share| share.owner == granted.owner)
        {
            return;
        }
        assert!(
            new.epoch > self.highest_epoch,
            "{} after {}",
            new.epoch,
            self.highest_epoch
        );
        assert!(new.epoch >= after.shares.len() as u64);
        self.highest_epoch = new.epoch;
        let others = || {
            self.clients
                .iter()
                .filter(|one| one.claim.owner != granted.owner)
        };
        let held: Vec<&Held> = others().filter_map(|one| one.held.as_ref()).collect();
        match new.need {
            Need::Write => assert!(held.is_empty(), "a writer beside {held:?}"),
            Need::Read => assert!(held.iter().all(|held| held.need == Need::Read), "{held:?}"),
            Need::Permits(count) => {
                let Some(Capacity::Permits(permits)) = after.capacity else {
                    panic!()
                };
                let out: u32 = held.iter().map(|held| held.need.permits()).sum();
                assert!(out + count <= permits, "{out} and {count} of {permits}");
                assert_eq!(new.slots.count(), count);
                assert!(new.slots.iter().all(|slot| slot < permits));
            }
        }
        let slots = held.iter().flat_map(|held| held.slots.iter());
        let slots: Vec<u32> = slots.chain(new.slots.iter()).collect();
        assert_eq!(BTreeSet::from_iter(&slots).len(), slots.len(), "{slots:?}");
        self.check_order(granted.owner, before);
    }

    /// Checks that a new holder has overtaken nobody, unless it was called.
    fn check_order(&self, owner: OwnerId, before: &Roster) {
        let client = self.clients.iter().find(|one| one.claim.owner == owner);
        let was_called = before
            .waiting(owner)
            .is_some_and(|one| one.called_until.is_some());
        let is_in_place = matches!(
            client.map(|one| one.claim.part),
            Some(Part::ReadInPlaceOf(_))
        );
        if was_called || is_in_place {
            return;
        }
        let place = client.and_then(|client| client.place);
        let ticket = place.map_or(u64::MAX, |place| place.ticket);
        let ahead = before
            .line
            .iter()
            .take_while(|waiting| waiting.ticket < ticket);
        let overtaken = ahead
            .filter(|waiting| waiting.called_until.is_none())
            .count();
        assert_eq!(overtaken, 0, "somebody was overtaken");
    }

    /// Checks that whoever was called in between had nobody ahead who was not.
    pub(super) fn check_calls(before: &Roster, after: &Roster) {
        let is_called = |roster: &Roster, owner| {
            let waiting = roster.waiting(owner);
            waiting.is_some_and(|waiting| waiting.called_until.is_some())
        };
        for (at, waiting) in after.line.iter().enumerate() {
            if is_called(after, waiting.owner) && !is_called(before, waiting.owner) {
                let mut ahead = after.line[..at].iter();
                assert!(
                    ahead.all(|ahead| ahead.called_until.is_some()),
                    "{}",
                    after.to_text()
                );
            }
        }
    }

    pub(in super::super) fn check(&self) {
        let roster = self.settled();
        let there = roster.shares.iter().map(|share| share.owner);
        let there = there.chain(roster.line.iter().map(|waiting| waiting.owner));
        let there: Vec<OwnerId> = there.collect();
        assert_eq!(
            BTreeSet::from_iter(&there).len(),
            there.len(),
            "one entry per owner"
        );
        for owner in there {
            assert!(!self.released.contains(&owner), "what was released is back");
        }
        let tickets = roster.line.iter().map(|waiting| waiting.ticket);
        assert!(tickets.is_sorted());
        // Whoever could have its share is called.
        let mut again = roster.clone();
        again.call(Duration::MAX);
        assert_eq!(again, roster);
    }
}
