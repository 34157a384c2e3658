//! The lock requests to etcd (try, wait, renew, release), and the meaning of their answers.

use std::sync::Arc;

use futures_util::future::join_all;

use super::claim_request::{ClaimRequest, KeptPlace, Outcome, WantedLease};
use super::hub::Hub;
use super::leases;
use super::owners::Leases;
use super::turns::in_turn;
use super::waiting;
use super::watch_stream::watch_over;
use crate::backend::outage::Outage;
use crate::backend::{Release, Renewal, Wait};
use crate::claim::{Claim, Grant};
use crate::error::{Effect, Error, Operation, Result};

/// How many renewals are in progress at the same time.
const RENEWALS_AT_ONCE: usize = 64;

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
            watch_over(&hub, &claim, answer.as_ref());
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
                if let Ok(Outcome::Granted(grant)) = &attempt {
                    watch_over(&hub, &claim, Some(grant));
                }
                attempt.map_err(|error| with_effect_of_leases(error, &leases))
            },
        );
        let waited = match attempt.await {
            Ok(Outcome::Granted(grant)) => return Ok(grant),
            Ok(Outcome::Behind(behind)) => {
                wait.report_busy();
                has_waited = true;
                outage.end();
                waiting::until_gone(hub, claim, &behind).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = waited {
            let is_transient = error.is_transient();
            let longest = hub.settings.max_outage;
            outage.after(error, wait, is_transient, longest).await?;
        }
    }
}

pub(super) async fn renew(hub: &Arc<Hub>, claims: &[Claim]) -> Vec<Result<Renewal>> {
    let mut renewals = Vec::with_capacity(claims.len());
    for some in claims.chunks(RENEWALS_AT_ONCE) {
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

/// Adjusts the effect of an error: a request may have had no effect itself, but something may be left at the store.
fn with_effect_of_leases(error: Error, leases: &Leases) -> Error {
    if leases.numbers().is_empty() {
        error
    } else {
        error.with_effect(Effect::Maybe)
    }
}
