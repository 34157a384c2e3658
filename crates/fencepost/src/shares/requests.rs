//! The requests of a [`Backend`](crate::Backend) as changes of a record.

use std::time::Duration;

use futures_util::future::join_all;

use super::machine::{Asking, Capacity, Claimed, Impossible, Slots};
use super::records::{Decision, Reading, Subject, key};
use super::{Shares, failure};
use crate::backend::{Backend, Release, Renewal, Wait};
use crate::claim::{Claim, Grant, LockName, OwnerId, Part};
use crate::clock::{Moment, within};
use crate::error::{Operation, Result};

/// The answer to a claim.
pub(super) enum Asked {
    Granted(Grant),
    /// The owner stands in line, since just now if it has `joined`.
    Waits {
        reading: Box<Reading>,
        joined: bool,
    },
    Busy,
}

/// How many permits a semaphore has, and how many of them are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permits {
    pub(crate) all: u32,
    /// Neither held nor kept for a waiter whose turn it is.
    pub(crate) free: u32,
}

impl Shares {
    /// Returns how many permits there are: `of`, if the store does not know.
    pub(crate) async fn permits(&self, name: &LockName, of: u32) -> Result<Permits> {
        let operation = Operation::Inspect;
        let reading = self.read(&key(name), operation).await?;
        match reading.roster.capacity {
            None => Ok(Permits { all: of, free: of }),
            Some(Capacity::Permits(all)) => Ok(Permits {
                all,
                free: reading.roster.free(),
            }),
            Some(other @ Capacity::ReadWrite) => {
                let why = Impossible::OtherKind(other);
                Err(failure::impossible(self.store_name(), operation, name, why))
            }
        }
    }

    /// Changes the number of permits.
    pub(crate) async fn resize(&self, name: &LockName, permits: u32) -> Result<()> {
        let subject = Subject::new(name, Operation::ReplaceRecord, &[]);
        let decide = |reading: &mut Reading| {
            reading.roster.resize(permits, reading.now)?;
            Ok(Decision::Replace(()))
        };
        self.change(&subject, decide).await.map(|((), _)| ())
    }

    pub(super) async fn try_claim(&self, claim: &Claim) -> Result<Option<Grant>> {
        match self.ask(claim, None).await? {
            Asked::Granted(grant) => Ok(Some(grant)),
            Asked::Waits { .. } | Asked::Busy => Ok(None),
        }
    }

    /// Asks for a share, and joins the line if there is a `wait`.
    pub(super) async fn ask(&self, claim: &Claim, wait: Option<&Wait>) -> Result<Asked> {
        let owner = claim.owner;
        self.owners.asks(owner, claim.ttl, self.clock.now());
        let owners = [owner];
        let subject = Subject::new(&claim.name, Operation::Acquire, &owners).with_wait(wait);
        let decide = |reading: &mut Reading| {
            let asking = match wait {
                Some(_) => Asking::InLine(self.owners.place_of(owner)),
                None => Asking::Once,
            };
            let floor = reading.snapshot.epoch_floor;
            let claimed = reading.roster.claim(claim, asking, reading.now, floor)?;
            if let (Claimed::Waits { .. }, Some(wait)) = (&claimed, wait) {
                wait.report_busy();
            }
            Ok(match claimed {
                Claimed::Granted { .. } | Claimed::Waits { joined: true, .. } => {
                    Decision::Replace(claimed)
                }
                Claimed::Waits { joined: false, .. } | Claimed::Busy => Decision::Keep(claimed),
            })
        };
        let (claimed, reading) = self.change(&subject, decide).await?;
        Ok(match claimed {
            Claimed::Granted { epoch, slots } => self.granted(claim, epoch, slots, &reading),
            Claimed::Waits { place, joined } => {
                self.owners.waits_at(owner, place);
                let reading = Box::new(reading);
                Asked::Waits { reading, joined }
            }
            Claimed::Busy => Asked::Busy,
        })
    }

    fn granted(&self, claim: &Claim, epoch: u64, slots: Slots, reading: &Reading) -> Asked {
        self.owners.was_granted(claim.owner, slots);
        if let Part::ReadInPlaceOf(writer) = claim.part {
            // Its last replacement ended here. One that is still on its way comes too late.
            self.owners.forget(writer);
        }
        // The store counts the lease from the time of its answer, which is later than the request.
        Asked::Granted(Grant::new(epoch, reading.snapshot.asked_at, claim.ttl))
    }

    /// Renews the shares of each name in one replacement. A name for which that takes too long gets no answer, so that the others get theirs.
    pub(super) async fn renew_all(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let mut names: Vec<&LockName> = claims.iter().map(|claim| &claim.name).collect();
        names.sort_unstable();
        names.dedup();
        let until = if names.len() > 1 {
            self.clock.now() + self.longest_renewal(claims)
        } else {
            Moment::FAR
        };
        let groups = names.into_iter().map(|name| {
            let of_it = claims.iter().enumerate();
            let of_it = of_it.filter(move |(_, claim)| claim.name == *name);
            self.renew_until(until, name, of_it.collect())
        });
        let mut answers: Vec<_> = join_all(groups).await.into_iter().flatten().collect();
        answers.sort_by_key(|(at, _)| *at);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Returns how long the names in one call may wait for each other: less than the keeper waits for the call.
    fn longest_renewal(&self, claims: &[Claim]) -> Duration {
        let ttls = claims.iter().map(|claim| claim.ttl);
        let ttl = ttls.min().unwrap_or_default();
        (ttl / 5).min(self.store_timeout * 4 / 5)
    }

    /// Renews these claims of one name. Returns each answer with the number of its claim, and an error for all of them if `until` comes first.
    async fn renew_until(
        &self,
        until: Moment,
        name: &LockName,
        claims: Vec<(usize, &Claim)>,
    ) -> Vec<(usize, Result<Renewal>)> {
        let numbers: Vec<usize> = claims.iter().map(|(at, _)| *at).collect();
        let renewed = within(&*self.clock, until, self.renew_those_of(name, claims)).await;
        renewed.unwrap_or_else(|| {
            let error = failure::unanswered(self.store_name(), Operation::Renew);
            let answers = numbers.into_iter().map(|at| (at, Err(error.clone())));
            answers.collect()
        })
    }

    /// Renews these claims of one name. Returns each answer with the number of its claim.
    async fn renew_those_of(
        &self,
        name: &LockName,
        claims: Vec<(usize, &Claim)>,
    ) -> Vec<(usize, Result<Renewal>)> {
        let now = self.clock.now();
        for (_, claim) in &claims {
            self.owners.extends(claim.owner, claim.ttl, now);
        }
        let owners: Vec<OwnerId> = claims.iter().map(|(_, claim)| claim.owner).collect();
        let subject = Subject::new(name, Operation::Renew, &owners);
        let decide = |reading: &mut Reading| {
            let now = reading.now;
            let renew =
                |(_, claim): &(usize, &Claim)| reading.roster.renew(claim.owner, claim.ttl, now);
            let renewals: Vec<Renewal> = claims.iter().map(renew).collect();
            Ok(if renewals.contains(&Renewal::Extended) {
                Decision::Replace(renewals)
            } else {
                Decision::Keep(renewals)
            })
        };
        let numbers = claims.iter().map(|(at, _)| *at);
        match self.change(&subject, decide).await {
            Ok((renewals, _)) => numbers.zip(renewals.into_iter().map(Ok)).collect(),
            Err(error) => numbers.map(|at| (at, Err(error.clone()))).collect(),
        }
    }

    /// Releases the share of an owner, or takes it out of the line.
    ///
    /// A replacement of this owner that was not answered may still take effect, until somebody else replaces the record. So the record is
    /// replaced even if there is nothing of the owner in it, unless all requests of the owner were answered. It is also replaced if the store
    /// still has a place of the owner whose turn has passed: another client, which has read the record before the turn passed, may be about
    /// to write that place down once more.
    pub(super) async fn give_back(&self, claim: &Claim) -> Result<Release> {
        let owner = claim.owner;
        let owners = [owner];
        let subject = Subject::new(&claim.name, Operation::Release, &owners);
        let decide = |reading: &mut Reading| {
            let (release, has_changed) = reading.roster.release(owner, reading.now);
            let is_stored = has_changed || reading.is_stored(owner);
            Ok(if is_stored || !self.owners.is_answered(owner) {
                Decision::Replace(release)
            } else {
                Decision::Keep(release)
            })
        };
        let (release, _) = self.change(&subject, decide).await?;
        self.owners.forget(owner);
        Ok(release)
    }
}
