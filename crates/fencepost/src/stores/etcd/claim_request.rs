//! One request of one claim at etcd: where the claim stands in the line, and what it has to write or to leave there.

use std::time::{Duration, SystemTime};

use super::failure;
use super::hub::Hub;
use super::keys::{Keys, Value, content_of};
use super::leases::{self, Granted};
use super::line::{self, KeyCreation, LineSnapshot, OwnKey, Position};
use super::owners::Leases;
use super::waiting::Behind;
use crate::backend::Release;
use crate::claim::{Claim, Grant};
use crate::clock::{BootClock, Clock};
use crate::error::{Error, Operation, Result};

/// The lease of a waiter whose TTL is longer. It is short because the waiter may be dead when its turn comes.
const WAITING_LEASE: Duration = Duration::from_secs(5);
/// How often the line may change between reading and acting before the store is to blame.
const LOOKS: usize = 100;
/// How often in a row the leader may change between two requests.
const LEADERS: usize = 5;
/// The answer to a request for a lock.
pub(super) enum Outcome {
    Granted(Grant),
    Behind(Behind),
}

/// The place of an owner that has asked before, after its lease was restarted.
pub(super) enum KeptPlace {
    First(Grant),
    Behind(Behind),
    Absent,
}

/// The wanted length of a lease.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WantedLease {
    /// As long as it was when it was granted.
    AsItIs,
    /// The TTL of the claim, with another lease if necessary.
    Full,
}

/// One request of one claim.
pub(super) struct ClaimRequest<'a> {
    hub: &'a Hub,
    claim: &'a Claim,
    keys: Keys,
    operation: Operation,
}

impl<'a> ClaimRequest<'a> {
    pub(super) fn new(hub: &'a Hub, claim: &'a Claim, operation: Operation) -> Self {
        Self {
            hub,
            claim,
            keys: Keys::of(&hub.prefix, claim),
            operation,
        }
    }

    /// Takes the lock if it is free, or returns it if the owner already has it.
    pub(super) async fn once(&self, leases: &mut Leases) -> Result<Option<Grant>> {
        for _ in 0..LOOKS {
            let line = line::read(self.hub, self.operation, &self.keys).await?;
            match line.position() {
                Position::First(_) => {
                    if let KeptPlace::First(grant) =
                        self.kept_place(leases, WantedLease::Full).await?
                    {
                        return Ok(Some(grant));
                    }
                }
                Position::Behind(own, _) => {
                    leases.note(own.lease, BootClock.now() + WAITING_LEASE);
                    return Ok(None);
                }
                Position::Absent { is_free: false } => return Ok(None),
                Position::Absent { is_free: true } => {
                    if let Some(grant) = self.take(leases, &line).await? {
                        return Ok(Some(grant));
                    }
                }
            }
        }
        Err(self.too_lively())
    }

    /// Takes the lock if it is free, and otherwise a place in line.
    pub(super) async fn in_line(&self, leases: &mut Leases, has_waited: bool) -> Result<Outcome> {
        let mut has_place = has_waited;
        for _ in 0..LOOKS {
            if has_place {
                // A client that has waited gets the lock at once, and asks for the rest of its TTL when it turns out to need it.
                let lease = if has_waited {
                    WantedLease::AsItIs
                } else {
                    WantedLease::Full
                };
                match self.kept_place(leases, lease).await? {
                    KeptPlace::First(grant) => return Ok(Outcome::Granted(grant)),
                    KeptPlace::Behind(behind) => return Ok(Outcome::Behind(behind)),
                    KeptPlace::Absent => {}
                }
            }
            let line = line::read(self.hub, self.operation, &self.keys).await?;
            match line.position() {
                Position::First(_) | Position::Behind(..) => has_place = true,
                Position::Absent { is_free: true } => {
                    if let Some(grant) = self.take(leases, &line).await? {
                        return Ok(Outcome::Granted(grant));
                    }
                }
                Position::Absent { is_free: false } => {
                    if let Some(attempt) = self.queue(leases).await? {
                        return Ok(attempt);
                    }
                }
            }
        }
        Err(self.too_lively())
    }

    /// Takes a lock that was seen free. Returns `None` if it is not free any more.
    async fn take(&self, leases: &mut Leases, empty: &LineSnapshot) -> Result<Option<Grant>> {
        let granted = self.lend(leases, self.keys.number, self.claim.ttl).await?;
        let content = content_of(self.claim, false, SystemTime::now(), None);
        let made = line::enter_empty(self.hub, &self.keys, empty, content, granted.lease).await?;
        match made {
            KeyCreation::Yes(line) => Ok(line.own().map(|own| self.granted(own, &granted))),
            KeyCreation::No => Ok(None),
            KeyCreation::LeaseEnded => {
                leases.settle(granted.lease);
                Ok(None)
            }
        }
    }

    /// Takes a place at the end of the line. Returns `None` if that failed because the line changed, and the caller must look again.
    async fn queue(&self, leases: &mut Leases) -> Result<Option<Outcome>> {
        let (number, ttl) = if self.claim.ttl <= WAITING_LEASE {
            (self.keys.number, self.claim.ttl)
        } else {
            (leases::another(), WAITING_LEASE)
        };
        let granted = self.lend(leases, number, ttl).await?;
        let content = content_of(self.claim, true, SystemTime::now(), None);
        let made = line::enter_behind(self.hub, &self.keys, content, granted.lease).await?;
        let line = match made {
            KeyCreation::Yes(line) => line,
            KeyCreation::No => return Ok(None),
            KeyCreation::LeaseEnded => {
                leases.settle(granted.lease);
                return Ok(None);
            }
        };
        Ok(match line.position() {
            // Those ahead have left in the meantime.
            Position::First(own) => Some(Outcome::Granted(self.granted(own, &granted))),
            Position::Behind(_, other) => Some(Outcome::Behind(Behind {
                other: other.clone(),
                lease: granted.lease,
                lease_ttl: granted.ttl,
            })),
            Position::Absent { .. } => None,
        })
    }

    async fn lend(&self, leases: &mut Leases, number: i64, ttl: Duration) -> Result<Granted> {
        leases::grant(self.hub, leases, number, ttl).await
    }

    fn granted(&self, own: &OwnKey, granted: &Granted) -> Grant {
        Grant {
            epoch: own.since.cast_unsigned(),
            asked_at: granted.asked_at,
            // The store may keep others out for longer than requested, but nobody should rely on that.
            lease: granted.ttl.min(self.claim.ttl),
        }
    }

    /// Restarts the lease of an owner that has asked before, and *then* checks its place. An owner that had to wait may have lost its key
    /// in the meantime, and the server that kept the lease alive may no longer be the leader.
    pub(super) async fn kept_place(
        &self,
        leases: &mut Leases,
        wanted: WantedLease,
    ) -> Result<KeptPlace> {
        let silence = self.hub.silence_for(self.claim.ttl);
        let mut lease = leases.numbers().last().copied().unwrap_or(self.keys.number);
        for _ in 0..LEADERS {
            let asked_at = BootClock.now();
            let kept = leases::keep_alive(self.hub, self.operation, lease, silence).await?;
            let line = line::read(self.hub, self.operation, &self.keys).await?;
            let Some(own) = line.own() else {
                return Ok(KeptPlace::Absent);
            };
            let ttl = match kept {
                Some(kept) if own.lease == lease && kept.term == line.term => kept.ttl,
                // Somebody has written to our key and detached its lease.
                _ if own.lease == 0 => Duration::ZERO,
                _ => {
                    lease = own.lease;
                    continue;
                }
            };
            leases.note(lease, asked_at + ttl);
            if let Position::Behind(_, other) = line.position() {
                return Ok(KeptPlace::Behind(Behind {
                    other: other.clone(),
                    lease,
                    lease_ttl: ttl,
                }));
            }
            let granted = Granted {
                lease,
                ttl,
                asked_at,
            };
            let is_enough = wanted == WantedLease::AsItIs && own.lease != 0;
            if is_enough || is_settled(own, ttl, self.claim) {
                return Ok(KeptPlace::First(self.granted(own, &granted)));
            }
            return match self.settle(leases, own, granted).await? {
                Some(grant) => Ok(KeptPlace::First(grant)),
                None => Ok(KeptPlace::Absent),
            };
        }
        Err(failure::no_steady_leader(self.operation))
    }

    /// Records in the key that the lock is held, since when, and for how long, and changes to a longer lease if the claim wants one.
    /// Returns `None` if the lock is not held any more.
    async fn settle(
        &self,
        leases: &mut Leases,
        own: &OwnKey,
        kept: Granted,
    ) -> Result<Option<Grant>> {
        let written = own.content.as_deref();
        let since = match written.and_then(Value::read) {
            Some(value) if !value.had_to_wait => value.since,
            _ => SystemTime::now(),
        };
        let is_long_enough = kept.ttl >= self.claim.ttl;
        let granted = if is_long_enough {
            kept
        } else {
            let number = if kept.lease == self.keys.number {
                leases::another()
            } else {
                self.keys.number
            };
            self.lend(leases, number, self.claim.ttl).await?
        };
        let content = content_of(self.claim, false, since, written);
        let held = line::rewrite(
            self.hub,
            self.operation,
            &self.keys,
            own.since,
            content,
            granted.lease,
        );
        if !held.await? {
            return Ok(None);
        }
        if !is_long_enough {
            leases::revoke(self.hub, self.operation, leases, kept.lease).await?;
        }
        Ok(Some(self.granted(own, &granted)))
    }

    /// Ends everything that the owner has at the store.
    pub(super) async fn leave(&self, leases: &mut Leases) -> Result<Release> {
        let line = line::read(self.hub, self.operation, &self.keys).await?;
        let mut was_held = false;
        if let Some(own) = line.own() {
            let has_gone = match own.lease {
                0 => line::leave(self.hub, self.operation, &self.keys, own.since).await?,
                lease => leases::revoke(self.hub, self.operation, leases, lease).await?,
            };
            was_held = has_gone && matches!(line.position(), Position::First(_));
        }
        leases::revoke_all(self.hub, self.operation, leases).await?;
        Ok(if was_held {
            Release::Freed
        } else {
            Release::NotHeld
        })
    }

    fn too_lively(&self) -> Error {
        failure::unexpected(self.operation, "the line changes whenever it is looked at")
    }
}

/// Returns whether the content of the key is correct and its lease is long enough.
fn is_settled(own: &OwnKey, lease: Duration, claim: &Claim) -> bool {
    let is_settled =
        |value: Value| !value.had_to_wait && value.owner == claim.owner && value.ttl >= claim.ttl;
    let is_written = match &own.content {
        // Whatever its value is: the leader may have proclaimed another one.
        Some(_) if claim.value.is_some() => true,
        Some(content) => Value::read(content).is_some_and(is_settled),
        None => false,
    };
    is_written && lease >= claim.ttl
}
