//! The order of each owner's requests.
//!
//! A request continues even if nobody waits for its answer any more. A release that follows a dropped acquisition waits until that request
//! was answered, and then knows what to release.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use super::failure;
use super::hub::Hub;
use super::owners::Leases;
use crate::claim::Claim;
use crate::error::{Operation, Result};

/// Executes `work` for the claim's owner after all its earlier requests. Continues even if the future is dropped.
pub(super) async fn in_turn<T, F>(
    hub: &Arc<Hub>,
    claim: &Claim,
    operation: Operation,
    work: impl FnOnce(Arc<Hub>, Claim, OwnedMutexGuard<Leases>) -> F + Send + 'static,
) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let owner_leases = hub.owners.of(claim.owner);
    let mut turn = Box::pin(owner_leases.clone().lock_owned());
    // Poll now, so that the request gets its place in the order now and not when its task first runs, possibly after a later request.
    let first_look = futures_util::poll!(&mut turn);
    let (hub, claim) = (hub.clone(), claim.clone());
    let task = tokio::spawn(async move {
        let leases = match first_look {
            std::task::Poll::Ready(leases) => leases,
            std::task::Poll::Pending => turn.await,
        };
        let (owner, all) = (claim.owner, hub.clone());
        let answer = work(hub, claim, leases).await;
        all.owners.forget_settled(owner, &owner_leases);
        answer
    });
    match task.await {
        Ok(answer) => answer,
        Err(cause) => Err(failure::abandoned(operation, cause)),
    }
}
