//! The lock requests to etcd (try, wait, renew, release), and the meaning of their answers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;

use super::failure;
use super::hub::Hub;
use super::keys::{Keys, Value};
use super::leases::{self, Granted};
use super::line::{self, LineSnapshot, Made, Own, Position};
use super::owners::{Leases, in_turn};
use super::waiting::{self, Behind};
use crate::backend::{Release, Renewal, Wait};
use crate::claim::{Claim, Grant};
use crate::clock::{BootClock, Clock};
use crate::error::{Effect, Error, Operation, Result};
use crate::stores::kit::outage::Outage;

/// The lease of a waiter whose TTL is longer. It is short because the waiter may be dead when its turn comes.
pub(super) const WAITING_LEASE: Duration = Duration::from_secs(5);
/// How often the line may change between reading and acting before the store is to blame.
const LOOKS: usize = 100;
/// How often in a row the leader may change between two requests.
const LEADERS: usize = 5;
/// How many renewals are in progress at the same time.
const RENEWALS: usize = 64;

pub(super) async fn try_acquire(hub: &Arc<Hub>, claim: &Claim) -> Result<Option<Grant>> {
    in_turn(
        hub,
        claim,
        Operation::Acquire,
        |hub, claim, mut leases| async move {
            let asking = ClaimRequest::new(&hub, &claim, Operation::Acquire);
            let answer = asking.once(&mut leases).await;
            let answer = answer.map_err(|error| with_effect_of_leases(error, &leases))?;
            if answer.is_none() {
                let left = leases::revoke_all(&hub, Operation::Acquire, &mut leases).await;
                left.map_err(|error| with_effect_of_leases(error, &leases))?;
            }
            hub.watch_over(&claim, answer.as_ref());
            Ok(answer)
        },
    )
    .await
}

pub(super) async fn acquire(hub: &Arc<Hub>, claim: &Claim, wait: &Wait) -> Result<Grant> {
    let mut outage = Outage::default();
    let mut has_waited = false;
    loop {
        let attempt = in_turn(
            hub,
            claim,
            Operation::Acquire,
            move |hub, claim, mut leases| async move {
                let asking = ClaimRequest::new(&hub, &claim, Operation::Acquire);
                let attempt = asking.in_line(&mut leases, has_waited).await;
                if let Ok(Attempt::Granted(grant)) = &attempt {
                    hub.watch_over(&claim, Some(grant));
                }
                attempt.map_err(|error| with_effect_of_leases(error, &leases))
            },
        );
        let waited = match attempt.await {
            Ok(Attempt::Granted(grant)) => return Ok(grant),
            Ok(Attempt::Behind(behind)) => {
                wait.report_busy();
                has_waited = true;
                outage = Outage::default();
                waiting::until_gone(hub, claim, &behind).await
            }
            Err(error) => Err(error),
        };
        match waited {
            Ok(()) => {}
            Err(error) if wait.was_busy() && failure::is_transient(&error) => {
                outage.sit_out(hub.settings.max_outage, error).await?;
            }
            // An owner that has been in line may still be there, whatever happened to the last request.
            Err(error) if wait.was_busy() => return Err(error.with_effect(Effect::Maybe)),
            Err(error) => return Err(error),
        }
    }
}

pub(super) async fn renew(hub: &Arc<Hub>, claims: &[Claim]) -> Vec<Result<Renewal>> {
    let mut renewals = Vec::with_capacity(claims.len());
    for some in claims.chunks(RENEWALS) {
        renewals.extend(join_all(some.iter().map(|claim| renew_one(hub, claim))).await);
    }
    renewals
}

async fn renew_one(hub: &Arc<Hub>, claim: &Claim) -> Result<Renewal> {
    in_turn(
        hub,
        claim,
        Operation::Renew,
        |hub, claim, mut leases| async move {
            let asking = ClaimRequest::new(&hub, &claim, Operation::Renew);
            match asking.kept_place(&mut leases, WantedLease::Full).await? {
                KeptPlace::First(_) => Ok(Renewal::Extended),
                KeptPlace::Behind(_) => {
                    hub.loss_watch.end(claim.owner);
                    Ok(Renewal::Lost)
                }
                KeptPlace::Absent => {
                    hub.loss_watch.end(claim.owner);
                    // Somebody may have deleted the key but not its lease. The lock is lost either way, and nobody releases a lost lock.
                    let _ends_by_itself =
                        leases::revoke_all(&hub, Operation::Renew, &mut leases).await;
                    Ok(Renewal::Lost)
                }
            }
        },
    )
    .await
}

pub(super) async fn release(hub: &Arc<Hub>, claim: &Claim) -> Result<Release> {
    in_turn(
        hub,
        claim,
        Operation::Release,
        |hub, claim, mut leases| async move {
            hub.loss_watch.end(claim.owner);
            let asking = ClaimRequest::new(&hub, &claim, Operation::Release);
            asking.leave(&mut leases).await
        },
    )
    .await
}

/// The answer to a request for a lock.
enum Attempt {
    Granted(Grant),
    Behind(Behind),
}

/// The place of an owner that has asked before, after its lease was restarted.
enum KeptPlace {
    First(Grant),
    Behind(Behind),
    Absent,
}

/// The wanted length of a lease.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WantedLease {
    /// As long as it was when it was granted.
    AsItIs,
    /// The TTL of the claim, with another lease if necessary.
    Full,
}

/// One request of one claim.
struct ClaimRequest<'a> {
    hub: &'a Hub,
    claim: &'a Claim,
    keys: Keys,
    operation: Operation,
}

impl<'a> ClaimRequest<'a> {
    fn new(hub: &'a Hub, claim: &'a Claim, operation: Operation) -> Self {
        Self {
            hub,
            claim,
            keys: Keys::of(&hub.prefix, claim),
            operation,
        }
    }

    /// Takes the lock if it is free, or returns it if the owner already has it.
    async fn once(&self, leases: &mut Leases) -> Result<Option<Grant>> {
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
    async fn in_line(&self, leases: &mut Leases, has_waited: bool) -> Result<Attempt> {
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
                    KeptPlace::First(grant) => return Ok(Attempt::Granted(grant)),
                    KeptPlace::Behind(behind) => return Ok(Attempt::Behind(behind)),
                    KeptPlace::Absent => {}
                }
            }
            let line = line::read(self.hub, self.operation, &self.keys).await?;
            match line.position() {
                Position::First(_) | Position::Behind(..) => has_place = true,
                Position::Absent { is_free: true } => {
                    if let Some(grant) = self.take(leases, &line).await? {
                        return Ok(Attempt::Granted(grant));
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
        let value = Value::new(self.claim, false, SystemTime::now());
        let made = line::enter_empty(self.hub, &self.keys, empty, &value, granted.lease).await?;
        match made {
            Made::Yes(line) => Ok(line.own().map(|own| self.granted(own, &granted))),
            Made::No => Ok(None),
            Made::LeaseEnded => {
                leases.settle(granted.lease);
                Ok(None)
            }
        }
    }

    /// Takes a place at the end of the line. Returns `None` if that failed because the line changed, and the caller must look again.
    async fn queue(&self, leases: &mut Leases) -> Result<Option<Attempt>> {
        let (number, ttl) = if self.claim.ttl <= WAITING_LEASE {
            (self.keys.number, self.claim.ttl)
        } else {
            (leases::another(), WAITING_LEASE)
        };
        let granted = self.lend(leases, number, ttl).await?;
        let value = Value::new(self.claim, true, SystemTime::now());
        let made = line::enter_behind(self.hub, &self.keys, &value, granted.lease).await?;
        let line = match made {
            Made::Yes(line) => line,
            Made::No => return Ok(None),
            Made::LeaseEnded => {
                leases.settle(granted.lease);
                return Ok(None);
            }
        };
        Ok(match line.position() {
            // Those ahead have left in the meantime.
            Position::First(own) => Some(Attempt::Granted(self.granted(own, &granted))),
            Position::Behind(_, other) => Some(Attempt::Behind(Behind {
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

    fn granted(&self, own: &Own, granted: &Granted) -> Grant {
        Grant {
            epoch: own.since.cast_unsigned(),
            asked_at: granted.asked_at,
            // The store may keep others out for longer than requested, but nobody should rely on that.
            lease: granted.ttl.min(self.claim.ttl),
        }
    }

    /// Restarts the lease of an owner that has asked before, and *then* checks its place. An owner that had to wait may have lost its key
    /// in the meantime, and the server that kept the lease alive may no longer be the leader.
    async fn kept_place(&self, leases: &mut Leases, wanted: WantedLease) -> Result<KeptPlace> {
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
    async fn settle(&self, leases: &mut Leases, own: &Own, kept: Granted) -> Result<Option<Grant>> {
        let since = match &own.value {
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
        let value = Value::new(self.claim, false, since);
        let held = line::rewrite(
            self.hub,
            self.operation,
            &self.keys,
            own.since,
            &value,
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
    async fn leave(&self, leases: &mut Leases) -> Result<Release> {
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

/// Adjusts the effect of an error: a request may have had no effect itself, but something may be left at the store.
fn with_effect_of_leases(error: Error, leases: &Leases) -> Error {
    if leases.numbers().is_empty() {
        error
    } else {
        error.with_effect(Effect::Maybe)
    }
}

/// Returns whether the content of the key is correct and its lease is long enough.
fn is_settled(own: &Own, lease: Duration, claim: &Claim) -> bool {
    let is_written = own.value.as_ref().is_some_and(|value| {
        !value.had_to_wait && value.owner == claim.owner && value.ttl >= claim.ttl
    });
    is_written && lease >= claim.ttl
}
