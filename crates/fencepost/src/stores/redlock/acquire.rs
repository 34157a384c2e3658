//! One attempt to acquire a lock: the keys of a majority, an epoch that a majority accepts, and a last check of the time.

use std::time::Duration;

use super::asking::OpenRequests;
use super::failure::{self, Failures};
use super::granted::Lease;
use super::hub::Hub;
use super::server::{Acceptance, Attempt, Vote};
use super::votes::{VoteState, proposal, vote_state};
use crate::claim::{Claim, Grant};
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Effect, Error, Operation, Result};
use crate::stores::redis::for_redlock::{failure as redis_failure, is_reserved};

/// The order in which the servers are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AskingOrder {
    /// All at once: the fastest way to a free lock.
    AllAtOnce,
    /// First the first server alone, then the others if it grants: one of the waiters wins, and no two block each other.
    FirstFirst,
}

pub(super) enum Outcome {
    Granted(Grant),
    Busy(Busy),
}

/// The result if somebody else has the lock or is about to get it.
#[derive(Debug)]
pub(super) struct Busy {
    /// When enough servers may be free without a notification, or `None` if that is not known.
    pub(super) free_at: Option<Moment>,
    /// Whether nobody has a majority, because clients that ask at the same time block each other.
    pub(super) is_split: bool,
}

/// The answers of the servers so far.
struct Ballot {
    votes: Vec<Option<Vote>>,
    failures: Failures,
    /// For each server, whether the key may exist there although the server did not confirm it.
    in_doubt: Vec<bool>,
    /// Whether the first server was asked alone and refused, so that the others were not asked.
    is_first_refused: bool,
}

impl Hub {
    /// Asks once for the lock. If it is not granted, all keys are released.
    pub(super) async fn attempt(&self, claim: &Claim, order: AskingOrder) -> Result<Outcome> {
        if is_reserved(claim.name.as_str()) {
            return Err(failure::ours(&redis_failure::reserved(Operation::Acquire)));
        }
        let asked_at = BootClock.now();
        let until = asked_at + self.answer_timeout(claim.ttl);
        let attempt = Attempt {
            claim: claim.clone(),
            stamp: self.next_stamp(),
            seen: self.seen.of(&claim.name),
        };
        let mut ballot = Ballot {
            votes: vec![None; self.servers.len()],
            failures: self.failures(Operation::Acquire),
            in_doubt: vec![false; self.servers.len()],
            is_first_refused: false,
        };
        let before = self.granted.take(claim.owner);
        let mut asking = self.lock(&attempt, order, &mut ballot, until).await;
        if let Some(epoch) = before {
            self.hear_who_knows(epoch, &mut asking, &mut ballot, until)
                .await;
        }
        let vote = vote_state(ballot.ours(), asking.open(), self.servers.len());
        let epoch = match (vote, before) {
            // A majority has had its keys all the time, so nobody else can have got the lock in the meantime.
            (VoteState::Won, Some(epoch)) if ballot.known(epoch) >= self.majority() => Some(epoch),
            (VoteState::Won, _) => self.settle(claim, &mut ballot, until).await,
            (VoteState::Lost | VoteState::Open, _) => None,
        };
        let open: Vec<usize> = asking.silent().collect();
        asking.leave();
        for at in open {
            ballot.in_doubt[at] = true;
            // If the attempt was decided without these servers, it did not wait for them.
            if vote == VoteState::Open {
                let unanswered = failure::unanswered(Operation::Acquire);
                ballot.failures.add(&self.servers[at].address, unanswered);
            }
        }
        let grant = epoch.map(|epoch| Grant::new(epoch, asked_at, claim.ttl));
        match grant {
            Some(grant) if BootClock.now() < grant.valid_until() => {
                let (epoch, confirmed) = (grant.epoch, attempt.stamp);
                self.granted.note(claim, Lease { epoch, confirmed });
                self.seen.note(&claim.name, epoch);
                Ok(Outcome::Granted(grant))
            }
            grant => self.give_up_attempt(claim, ballot, grant.is_some()).await,
        }
    }

    /// Asks for the keys until it is decided whether a majority has them.
    async fn lock(
        &self,
        attempt: &Attempt,
        order: AskingOrder,
        ballot: &mut Ballot,
        until: Moment,
    ) -> OpenRequests<Vote> {
        let mut asking = OpenRequests::new();
        let ask = |asking: &mut OpenRequests<Vote>, at: usize| {
            let server = &self.servers[at];
            asking.ask(at, server, |server, listening| {
                server.lock(attempt.clone(), listening)
            });
        };
        let first = match order {
            AskingOrder::AllAtOnce => None,
            AskingOrder::FirstFirst => self.servers.iter().position(|server| !server.is_slow()),
        };
        if let Some(first) = first {
            ask(&mut asking, first);
            if let Some((at, answer)) = asking.next(until, false).await {
                ballot.note(at, &self.servers[at].address, answer);
            }
            if matches!(ballot.votes[first], Some(Vote::Taken(_))) {
                ballot.is_first_refused = true;
                return asking;
            }
        }
        for at in (0..self.servers.len()).filter(|at| Some(*at) != first) {
            ask(&mut asking, at);
        }
        while !self.is_decided(ballot, asking.open()) {
            let is_enough = ballot.heard() >= self.majority();
            match asking.next(until, is_enough).await {
                Some((at, answer)) => ballot.note(at, &self.servers[at].address, answer),
                None => break,
            }
        }
        asking
    }

    /// Reads answers until a majority is known to have had this owner's lease before, or no server is left that could.
    async fn hear_who_knows(
        &self,
        epoch: u64,
        asking: &mut OpenRequests<Vote>,
        ballot: &mut Ballot,
        until: Moment,
    ) {
        while ballot.known(epoch) < self.majority() {
            match asking.next(until, ballot.heard() >= self.majority()).await {
                Some((at, answer)) => ballot.note(at, &self.servers[at].address, answer),
                None => break,
            }
        }
    }

    /// Returns whether further answers make no difference: a majority has the keys, or it is clear whether somebody else has the lock or a
    /// majority cannot be reached.
    fn is_decided(&self, ballot: &Ballot, open: usize) -> bool {
        let (heard, needed) = (ballot.heard(), self.majority());
        match vote_state(ballot.ours(), open, self.servers.len()) {
            VoteState::Won => true,
            VoteState::Open => false,
            VoteState::Lost => heard >= needed || heard + open < needed,
        }
    }

    /// Finds an epoch that a majority has accepted. Returns `None` if the keys did not last long enough.
    async fn settle(&self, claim: &Claim, ballot: &mut Ballot, until: Moment) -> Option<u64> {
        let (mut epoch, is_agreed) = proposal(&ballot.counts(), self.servers.len())?;
        if is_agreed {
            return Some(epoch);
        }
        while BootClock.now() < until {
            let mut asking = OpenRequests::new();
            let refused = |at: &usize| matches!(ballot.votes[*at], Some(Vote::Taken(_)));
            for at in (0..self.servers.len()).filter(|at| !refused(at)) {
                asking.ask(at, &self.servers[at], |server, listening| {
                    server.accept(claim.clone(), epoch, listening)
                });
            }
            let (mut accepted, mut highest) = (0, 0);
            while vote_state(accepted, asking.open(), self.servers.len()) == VoteState::Open {
                match asking.next(until, false).await {
                    Some((_, Ok(Acceptance::Accepted))) => accepted += 1,
                    Some((_, Ok(Acceptance::Behind(count)))) => highest = highest.max(count),
                    Some((_, Ok(Acceptance::Gone) | Err(_))) => {}
                    None => break,
                }
            }
            asking.leave();
            if accepted >= self.majority() {
                return Some(epoch);
            }
            if highest < epoch {
                return None;
            }
            epoch = highest + 1;
        }
        None
    }

    /// Releases the keys, and returns why there were not enough.
    async fn give_up_attempt(
        &self,
        claim: &Claim,
        ballot: Ballot,
        was_agreed: bool,
    ) -> Result<Outcome> {
        let left = (0..self.servers.len()).filter(|at| ballot.may_be_left(*at));
        let left: Vec<usize> = left.collect();
        let released = if left.is_empty() {
            None
        } else {
            Some(self.give_back(claim, left.iter().copied()).await)
        };
        let is_clean = released.is_none_or(|released| released.answered == left.len());
        let has_failed = ballot.heard() < self.majority() && !ballot.is_first_refused;
        if !has_failed && !was_agreed {
            return Ok(Outcome::Busy(ballot.busy(self.majority())));
        }
        let error: Error = if was_agreed {
            failure::too_slow()
        } else {
            ballot.failures.into_error()
        };
        Err(error.with_effect(if is_clean {
            Effect::None
        } else {
            Effect::Maybe
        }))
    }
}

impl Ballot {
    fn note(&mut self, at: usize, address: &str, answer: Result<Vote>) {
        match answer {
            Ok(vote) => self.votes[at] = Some(vote),
            Err(error) => {
                self.in_doubt[at] = error.effect() == Effect::Maybe;
                self.failures.add(address, error);
            }
        }
    }

    fn counts(&self) -> Vec<u64> {
        let count = |vote: &Option<Vote>| match vote {
            Some(Vote::Ours { count, .. }) => Some(*count),
            _ => None,
        };
        self.votes.iter().filter_map(count).collect()
    }

    /// Returns how many servers had the lease of this epoch before they were asked. A key with another count may come from a late request,
    /// after somebody else had held the lock.
    fn known(&self, epoch: u64) -> usize {
        let lease = Vote::Ours {
            count: epoch,
            is_known: true,
        };
        let is_known = |vote: &&Vote| **vote == lease;
        self.votes.iter().flatten().filter(is_known).count()
    }

    fn ours(&self) -> usize {
        self.counts().len()
    }

    /// Returns how many servers have answered.
    fn heard(&self) -> usize {
        self.votes.iter().flatten().count()
    }

    fn may_be_left(&self, at: usize) -> bool {
        matches!(self.votes[at], Some(Vote::Ours { .. })) || self.in_doubt[at]
    }

    fn busy(&self, needed: usize) -> Busy {
        let now = BootClock.now();
        let is_taken = |vote: &&Option<Vote>| matches!(vote, Some(Vote::Taken(_)));
        let taken = self.votes.iter().filter(is_taken).count();
        let free_after = |vote: &Option<Vote>| match vote {
            Some(Vote::Ours { .. }) => Some(Duration::ZERO),
            Some(Vote::Taken(left)) => *left,
            None => None,
        };
        let mut ends: Vec<Duration> = self.votes.iter().filter_map(free_after).collect();
        ends.sort_unstable();
        // If only the first server was asked and refused, it alone decides when to try again.
        let decisive = if self.is_first_refused { 1 } else { needed };
        Busy {
            is_split: !self.is_first_refused && taken < needed,
            free_at: ends.get(decisive - 1).map(|left| now + *left),
        }
    }
}
