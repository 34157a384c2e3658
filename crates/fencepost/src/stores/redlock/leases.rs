//! What happens to a lease once it is there: it is extended, and given back.

use std::time::Duration;

use futures_util::future::join_all;

use super::asking::Asking;
use super::failure;
use super::node::{Extended, Extension};
use super::quorum::Quorum;
use super::votes::{Stand, stand};
use crate::backend::{Release, Renewal};
use crate::claim::Claim;
use crate::clock::{BootClock, Clock};
use crate::error::{Error, Operation, Result};
use crate::stores::redis::requests::RENEWED_AT_ONCE;

/// What the servers said about one lease.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    extended: usize,
    /// Those that have taken the key just now among them: they cannot know who had the lock meanwhile.
    lost: usize,
}

impl Tally {
    fn add(&mut self, answer: Extended) {
        match answer {
            Extended::Yes => self.extended += 1,
            Extended::Late | Extended::No => self.lost += 1,
        }
    }

    fn stand(&self, servers: usize) -> Stand {
        let open = servers - self.extended - self.lost;
        stand(self.extended, open, servers)
    }
}

impl Quorum {
    pub(super) async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let mut renewals = Vec::with_capacity(claims.len());
        for many in claims.chunks(RENEWED_AT_ONCE) {
            renewals.extend(self.renew_some(many).await);
        }
        renewals
    }

    async fn renew_some(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let servers = self.nodes.len();
        let mut failures = self.failures(Operation::Renew);
        let mut tallies = vec![Tally::default(); claims.len()];
        let shortest = claims.iter().map(|claim| claim.ttl).min();
        let until = BootClock.now() + self.patience(shortest.unwrap_or(Duration::ZERO));
        let mut asking = Asking::new();
        let extension = Extension {
            claims: claims.into(),
            stamp: self.next_stamp(),
            granted: self.granted.clone(),
        };
        for (at, node) in self.nodes.iter().enumerate() {
            asking.ask(at, node, |node, listening| {
                node.renew(extension.clone(), listening)
            });
        }
        let is_open = |tally: &Tally| tally.stand(servers) == Stand::Open;
        while tallies.iter().any(is_open) {
            match asking.next(until, false).await {
                Some((_, Ok(answers))) => {
                    for (tally, answer) in tallies.iter_mut().zip(answers) {
                        tally.add(answer);
                    }
                }
                Some((at, Err(error))) => failures.add(&self.nodes[at].address, error),
                None => break,
            }
        }
        for at in asking.silent() {
            failures.add(&self.nodes[at].address, failure::silent(Operation::Renew));
        }
        asking.leave();
        let undecided: Option<Error> = tallies.iter().any(is_open).then(|| failures.into_error());
        let answer = |tally: &Tally| match (tally.stand(servers), &undecided) {
            (Stand::Open, Some(error)) => Err(error.clone()),
            (Stand::Won, _) => Ok(Renewal::Extended),
            (Stand::Lost | Stand::Open, _) => Ok(Renewal::Lost),
        };
        let answers: Vec<Result<Renewal>> = tallies.iter().map(answer).collect();
        let mut lost = Vec::new();
        for (claim, answer) in claims.iter().zip(&answers) {
            match answer {
                Ok(Renewal::Extended) => self.granted.extended(claim, extension.stamp),
                Ok(Renewal::Lost) => lost.extend(self.give_up(claim)),
                Err(_) => {}
            }
        }
        join_all(lost).await;
        answers
    }

    /// A majority does not have this lease. Keys that extensions took in vain must neither keep others out nor look like a lock to a release that
    /// follows. What is left of the lease itself stays until its holder gives it back or its TTL ends it: the holder has not been told yet.
    fn give_up<'a>(&'a self, claim: &'a Claim) -> Option<impl Future<Output = ()> + 'a> {
        let lease = self.granted.lease(claim.owner);
        self.granted.take(claim.owner);
        let lease = lease?;
        Some(async move {
            let mut asking = Asking::new();
            for (at, node) in self.nodes.iter().enumerate() {
                asking.ask(at, node, |node, listening| {
                    node.release_taken(claim.clone(), lease, listening)
                });
            }
            let until = BootClock.now() + self.patience(claim.ttl);
            while asking.next(until, true).await.is_some() {}
            asking.leave();
        })
    }

    pub(super) async fn release(&self, claim: &Claim) -> Result<Release> {
        self.granted.take(claim.owner);
        let released = self.give_back(claim, 0..self.nodes.len()).await;
        let open = self.nodes.len() - released.answered;
        match stand(released.freed, open, self.nodes.len()) {
            Stand::Won => Ok(Release::Freed),
            Stand::Lost => Ok(Release::NotHeld),
            Stand::Open => Err(released.failures.into_error()),
        }
    }
}
