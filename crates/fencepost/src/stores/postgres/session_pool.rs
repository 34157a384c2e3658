//! The pool of sessions: which session serves which locks. Pure bookkeeping, without a server.
//!
//! A lock gets its own session while there are enough. Beyond the limit, locks share sessions. They are then only tried, never waited for,
//! because a statement that waits would block the other owners of the session or deadlock with them. At least one session never waits, so
//! that there is always one for trying, looking and cancelling.

use crate::claim::OwnerId;
use crate::clock::Moment;

/// The number of a session in the pool.
pub(super) type SessionNumber = u64;

/// All sessions of a store.
#[derive(Debug)]
pub(super) struct SessionPool<S> {
    slots: Vec<Slot<S>>,
    opening: usize,
    most: usize,
    last_number: SessionNumber,
}

#[derive(Debug)]
struct Slot<S> {
    number: SessionNumber,
    session: S,
    /// The locks that are held or asked for, the oldest first.
    locks: Vec<(OwnerId, i64)>,
    /// How many requests use the session to look at other locks.
    visitors: usize,
    waits: bool,
    /// When the session was last used for anything.
    used_at: Moment,
}

/// The session for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pick<S> {
    /// Use this session; the pool has recorded that.
    Use(SessionNumber, S),
    /// There is room for another session: open one, and then call [`SessionPool::opened`].
    Open,
    /// No session is available: all of them wait, or have the same lock because another owner of this process holds it or asks for it.
    Unavailable,
}

impl<S: Clone> SessionPool<S> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            slots: Vec::new(),
            opening: 0,
            most,
            last_number: 0,
        }
    }

    /// Returns a session for asking for the lock `key`. Spare sessions count if they were used after `fresh_since`.
    pub(super) fn pick(&mut self, owner: OwnerId, key: i64, fresh_since: Moment) -> Pick<S> {
        let is_spare = |slot: &Slot<S>| slot.is_spare() && slot.used_at >= fresh_since;
        // Choose the session that was used last, so that the others become stale and are closed.
        let spare = self.slots.iter_mut().filter(|slot| is_spare(slot));
        if let Some(slot) = spare.max_by_key(|slot| slot.used_at) {
            return slot.take(owner, key);
        }
        if self.slots.len() + self.opening < self.most {
            self.opening += 1;
            return Pick::Open;
        }
        let shared = self.slots.iter_mut().filter(|slot| slot.may_share(key));
        match shared.min_by_key(|slot| slot.locks.len()) {
            Some(slot) => slot.take(owner, key),
            None => Pick::Unavailable,
        }
    }

    /// Returns a session for looking at locks. Give it back with [`visited`](Self::visited).
    pub(super) fn visit(&mut self, fresh_since: Moment) -> Pick<S> {
        let spare = self.slots.iter_mut();
        let mut spare = spare.filter(|slot| slot.locks.is_empty() && slot.used_at >= fresh_since);
        if let Some(slot) = spare.next() {
            slot.visitors += 1;
            return Pick::Use(slot.number, slot.session.clone());
        }
        if self.slots.len() + self.opening < self.most {
            self.opening += 1;
            return Pick::Open;
        }
        let mut others = self.slots.iter_mut().filter(|slot| !slot.waits);
        match others.next() {
            Some(slot) => {
                slot.visitors += 1;
                Pick::Use(slot.number, slot.session.clone())
            }
            None => Pick::Unavailable,
        }
    }

    /// Records a visit to a session that was just opened for it.
    pub(super) fn visit_this(&mut self, number: SessionNumber) {
        if let Some(slot) = self.slot(number) {
            slot.visitors += 1;
        }
    }

    pub(super) fn visited(&mut self, number: SessionNumber, now: Moment) {
        if let Some(slot) = self.slot(number) {
            slot.visitors = slot.visitors.saturating_sub(1);
            slot.used_at = now;
        }
    }

    /// Records that the session announced by [`Pick::Open`] could not be opened.
    pub(super) fn not_opened(&mut self) {
        self.opening = self.opening.saturating_sub(1);
    }

    /// Records that the session announced by [`Pick::Open`] was opened.
    pub(super) fn opened(&mut self, session: S, now: Moment) -> SessionNumber {
        self.not_opened();
        self.last_number += 1;
        self.slots.push(Slot {
            number: self.last_number,
            session,
            locks: Vec::new(),
            visitors: 0,
            waits: false,
            used_at: now,
        });
        self.last_number
    }

    /// Records that this session is used to ask for the lock `key`.
    pub(super) fn assign(&mut self, number: SessionNumber, owner: OwnerId, key: i64) {
        if let Some(slot) = self.slot(number) {
            slot.locks.push((owner, key));
        }
    }

    /// Returns whether this session may wait for its only lock. If so, records that it waits.
    pub(super) fn begin_waiting(&mut self, number: SessionNumber) -> bool {
        let waiting = self.slots.iter().filter(|slot| slot.waits).count();
        let most = self.most;
        match self.slot(number) {
            Some(slot) => {
                slot.waits = slot.locks.len() == 1 && slot.visitors == 0 && waiting + 1 < most;
                slot.waits
            }
            None => false,
        }
    }

    /// Records that the session no longer waits: it has the lock, or will not get it.
    pub(super) fn end_waiting(&mut self, number: SessionNumber) {
        if let Some(slot) = self.slot(number) {
            slot.waits = false;
        }
    }

    /// Records that this owner no longer uses the session.
    pub(super) fn leave(&mut self, number: SessionNumber, owner: OwnerId, now: Moment) {
        if let Some(slot) = self.slot(number) {
            slot.locks.retain(|(other, _)| *other != owner);
            slot.waits = false;
            slot.used_at = now;
        }
    }

    /// Returns whether the pool contains this session.
    pub(super) fn has(&self, number: SessionNumber) -> bool {
        self.slots.iter().any(|slot| slot.number == number)
    }

    /// Returns the owners whose locks this session holds or asks for, the newest first.
    pub(super) fn owners(&self, number: SessionNumber) -> Vec<OwnerId> {
        let slot = self.slots.iter().find(|slot| slot.number == number);
        let locks = slot.map_or(&[][..], |slot| &slot.locks);
        locks.iter().rev().map(|(owner, _)| *owner).collect()
    }

    /// Removes the sessions that cannot be used any more, and returns the owners whose locks ended with them.
    pub(super) fn remove(&mut self, is_over: impl Fn(&S) -> bool) -> Vec<OwnerId> {
        let mut lost = Vec::new();
        self.slots.retain(|slot| {
            let over = is_over(&slot.session);
            if over {
                lost.extend(slot.locks.iter().map(|(owner, _)| *owner));
            }
            !over
        });
        lost
    }

    /// Removes and returns the sessions that nobody has used since `fresh_since`.
    pub(super) fn remove_stale(&mut self, fresh_since: Moment) -> Vec<S> {
        let is_stale = |slot: &Slot<S>| slot.is_spare() && slot.used_at < fresh_since;
        let stale = self.slots.iter().filter(|slot| is_stale(slot));
        let stale = stale.map(|slot| slot.session.clone()).collect();
        self.slots.retain(|slot| !is_stale(slot));
        stale
    }

    fn slot(&mut self, number: SessionNumber) -> Option<&mut Slot<S>> {
        self.slots.iter_mut().find(|slot| slot.number == number)
    }
}

impl<S: Clone> Slot<S> {
    fn is_spare(&self) -> bool {
        self.locks.is_empty() && self.visitors == 0
    }

    /// Returns whether the session may also ask for `key`. A session that already has the lock would be granted it again.
    fn may_share(&self, key: i64) -> bool {
        !self.waits && self.locks.iter().all(|(_, other)| *other != key)
    }

    fn take(&mut self, owner: OwnerId, key: i64) -> Pick<S> {
        self.locks.push((owner, key));
        Pick::Use(self.number, self.session.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SeededRandom;

    const NOW: Moment = Moment::from_nanos(1_000);
    const FRESH: Moment = Moment::ZERO;

    fn owner(number: u64) -> OwnerId {
        OwnerId::random(&SeededRandom::new(number))
    }

    /// Creates a pool with so many sessions, which are called by their numbers.
    fn pool(most: usize, open: u64) -> SessionPool<u64> {
        let mut pool = SessionPool::new(most);
        for number in 1..=open {
            assert_eq!(pool.opened(number, NOW), number);
        }
        pool
    }

    #[test]
    fn a_lock_gets_a_session_of_its_own_while_there_are_enough() {
        let mut pool = pool(2, 1);
        assert_eq!(pool.pick(owner(1), 10, FRESH), Pick::Use(1, 1));
        assert_eq!(pool.pick(owner(2), 20, FRESH), Pick::Open);
        pool.not_opened();
        assert_eq!(pool.pick(owner(2), 20, FRESH), Pick::Open);
        assert_eq!(pool.opened(2, NOW), 2);
        pool.assign(2, owner(2), 20);
        // Beyond that they share, but never with one that has the same lock.
        assert_eq!(pool.pick(owner(3), 10, FRESH), Pick::Use(2, 2));
        assert_eq!(pool.pick(owner(4), 10, FRESH), Pick::Unavailable);
        pool.leave(1, owner(1), NOW);
        assert_eq!(pool.pick(owner(4), 10, FRESH), Pick::Use(1, 1));
        assert_eq!(pool.owners(2), [owner(3), owner(2)], "the newest first");
    }

    #[test]
    fn nobody_waits_beside_others_and_one_session_never_waits() {
        let mut pool = pool(3, 3);
        for at in 1..=3 {
            let Pick::Use(_, _) = pool.pick(owner(at), at as i64, FRESH) else {
                panic!("a spare one");
            };
        }
        assert_eq!(pool.pick(owner(4), 4, FRESH), Pick::Use(1, 1));
        assert!(!pool.begin_waiting(1), "it has another lock");
        assert!(pool.begin_waiting(2));
        assert!(pool.begin_waiting(3));
        pool.leave(1, owner(4), NOW);
        assert!(!pool.begin_waiting(1), "it is the last that does not wait");
        assert_eq!(pool.pick(owner(5), 5, FRESH), Pick::Use(1, 1));
        assert_eq!(pool.visit(FRESH), Pick::Use(1, 1));
        pool.end_waiting(2);
        pool.leave(1, owner(5), NOW);
        assert!(!pool.begin_waiting(1), "somebody looks through it");
        pool.visited(1, NOW);
        assert!(pool.begin_waiting(1));
    }

    #[test]
    fn what_is_over_is_taken_out() {
        let mut pool = pool(3, 2);
        assert_eq!(pool.pick(owner(1), 1, FRESH), Pick::Use(2, 2));
        assert_eq!(pool.remove(|session| *session == 2), [owner(1)]);
        let later = NOW + std::time::Duration::from_nanos(1);
        assert_eq!(pool.pick(owner(2), 2, later), Pick::Open, "too old");
        assert_eq!(pool.remove_stale(later), [1]);
        pool.leave(2, owner(1), NOW);
        assert!(pool.owners(2).is_empty());
    }
}
