//! The simulated store: grants in order, forgets leases that ended, and answers later.

use std::time::Duration;

use super::{SHORT, TTL};
use crate::claim::{Grant, OwnerId};
use crate::clock::Moment;
use crate::line::Manner;

/// The store: a lease with its end, those who wait in order, and answers on their way.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) lease: Option<(OwnerId, u64, Moment)>,
    pub(super) line: Vec<Request>,
    pub(super) answers: Vec<(Request, Option<Grant>)>,
    epochs: u64,
    requests: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) owner: OwnerId,
    manner: Manner,
    pub(super) number: u64,
    /// It found the lock taken.
    had_to_wait: bool,
}

impl Store {
    /// Returns the number of the request. Asking again keeps the place.
    pub(super) fn ask(&mut self, owner: OwnerId, manner: Manner) -> u64 {
        self.requests += 1;
        let request = Request {
            owner,
            manner,
            number: self.requests,
            had_to_wait: false,
        };
        match self.line.iter_mut().find(|waiting| waiting.owner == owner) {
            Some(waiting) => {
                *waiting = Request {
                    had_to_wait: waiting.had_to_wait,
                    ..request
                }
            }
            None => self.line.push(request),
        }
        self.requests
    }

    pub(super) fn work(&mut self, now: Moment) {
        self.lease.take_if(|(_, _, ends)| *ends <= now);
        if let Some((owner, epoch, ends)) = &mut self.lease {
            // Its holder asks again: the answer had been lost, or had come too late.
            for request in self.line.extract_if(.., |waiting| waiting.owner == *owner) {
                *ends = (*ends).max(now + TTL);
                self.answers.push((request, Some(grant(*epoch, now, TTL))));
            }
        } else if !self.line.is_empty() {
            let request = self.line.remove(0);
            self.epochs += 1;
            // Who waited may be dead.
            let lease = if request.had_to_wait { SHORT } else { TTL };
            self.lease = Some((request.owner, self.epochs, now + lease));
            let granted = grant(self.epochs, now, lease);
            self.answers.push((request, Some(granted)));
        }
        let waiting = self.line.iter_mut();
        waiting.for_each(|request| request.had_to_wait = true);
        let tries = self
            .line
            .extract_if(.., |waiting| waiting.manner == Manner::Try);
        self.answers.extend(tries.map(|request| (request, None)));
    }

    pub(super) fn release(&mut self, owner: OwnerId) {
        self.line.retain(|waiting| waiting.owner != owner);
        self.lease.take_if(|(held_by, ..)| *held_by == owner);
    }
}

pub(super) fn grant(epoch: u64, now: Moment, lease: Duration) -> Grant {
    Grant {
        epoch,
        // The question left a little before the store saw it.
        asked_at: now.saturating_sub(Duration::from_millis(3)),
        lease,
    }
}
