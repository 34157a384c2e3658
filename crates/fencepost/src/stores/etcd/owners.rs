//! What each owner may have at the store, and the order of its requests.
//!
//! A request continues even if nobody waits for its answer any more. A release that follows a dropped acquisition waits until that request
//! was answered, and then knows what to release.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use super::failure;
use super::hub::Hub;
use crate::claim::{Claim, OwnerId};
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Operation, Result};
use crate::mutex::lock;

/// How many sessions there may be before those that are over are removed.
const FEW: usize = 256;
/// How long a request may stay in the queue of a stopped server. A server that is stopped for longer has lost its connections.
const HAUNTED: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(super) struct Owners(Mutex<HashMap<OwnerId, Arc<Session>>>);

type Session = tokio::sync::Mutex<Loans>;

/// The leases that an owner may have at the store.
#[derive(Debug, Default)]
pub(super) struct Loans {
    leases: Vec<Loan>,
    /// Until then, a lost request of ours may still arrive and revoke a lease.
    haunted_until: Option<Moment>,
}

#[derive(Debug, Clone, Copy)]
struct Loan {
    lease: i64,
    /// When the store has certainly forgotten the lease, unless it was kept alive.
    over_at: Moment,
}

impl Loans {
    /// Records a lease that is being requested or kept alive.
    pub(super) fn note(&mut self, lease: i64, over_at: Moment) {
        self.settle(lease);
        self.leases.push(Loan { lease, over_at });
    }

    /// Records that the store no longer has this lease.
    pub(super) fn settle(&mut self, lease: i64) {
        self.leases.retain(|loan| loan.lease != lease);
    }

    /// Returns whether a revocation was lost, so that lease numbers must not be used again.
    pub(super) fn are_haunted(&self) -> bool {
        self.haunted_until.is_some()
    }

    /// Records that a server did not answer a request to revoke a lease, and may execute it later.
    pub(super) fn haunt(&mut self, now: Moment) {
        self.haunted_until = Some(now + HAUNTED);
    }

    /// Returns the leases that the store may still have, the latest last.
    pub(super) fn leases(&self) -> Vec<i64> {
        self.leases.iter().map(|loan| loan.lease).collect()
    }

    fn are_over(&self, now: Moment) -> bool {
        let mut ends = self.leases.iter().map(|loan| loan.over_at);
        ends.all(|end| end <= now) && self.haunted_until.is_none_or(|end| end <= now)
    }

    fn are_settled(&self) -> bool {
        self.leases.is_empty() && self.haunted_until.is_none()
    }
}

impl Owners {
    fn of(&self, owner: OwnerId) -> Arc<Session> {
        let mut sessions = lock(&self.0);
        if sessions.len() >= FEW && sessions.len().is_power_of_two() {
            let now = BootClock.now();
            sessions.retain(|_, session| !is_over(session, now));
        }
        sessions.entry(owner).or_default().clone()
    }

    /// Forgets this owner if nothing is left at the store and nobody else makes a request for it.
    fn forget_settled(&self, owner: OwnerId, session: &Arc<Session>) {
        let mut sessions = lock(&self.0);
        // One reference belongs to the table, one to the caller.
        let is_idle = Arc::strong_count(session) == 2;
        if is_idle && session.try_lock().is_ok_and(|loans| loans.are_settled()) {
            sessions.remove(&owner);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

fn is_over(session: &Arc<Session>, now: Moment) -> bool {
    Arc::strong_count(session) == 1 && session.try_lock().is_ok_and(|loans| loans.are_over(now))
}

/// Executes `work` for the claim's owner after all its earlier requests. Continues even if the future is dropped.
pub(super) async fn in_turn<T, F>(
    hub: &Arc<Hub>,
    claim: &Claim,
    operation: Operation,
    work: impl FnOnce(Arc<Hub>, Claim, OwnedMutexGuard<Loans>) -> F + Send + 'static,
) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let session = hub.sessions.of(claim.owner);
    let mut turn = Box::pin(session.clone().lock_owned());
    // Poll now, so that the request gets its place in the order now and not when its task first runs, possibly after a later request.
    let first_look = futures_util::poll!(&mut turn);
    let (hub, claim) = (hub.clone(), claim.clone());
    let task = tokio::spawn(async move {
        let loans = match first_look {
            std::task::Poll::Ready(loans) => loans,
            std::task::Poll::Pending => turn.await,
        };
        let (owner, sessions) = (claim.owner, hub.clone());
        let answer = work(hub, claim, loans).await;
        sessions.sessions.forget_settled(owner, &session);
        answer
    });
    match task.await {
        Ok(answer) => answer,
        Err(cause) => Err(failure::abandoned(operation, cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn what_is_over_is_not_remembered() {
        let sessions = Owners::default();
        let add = |over_at| {
            let owner = OwnerId::random(&SystemRandom);
            let session = sessions.of(owner);
            session.try_lock().unwrap().note(1, over_at);
        };
        (0..FEW).for_each(|_| add(Moment::ZERO));
        assert_eq!(sessions.len(), FEW);
        add(Moment::FAR);
        assert_eq!(sessions.len(), 1);
    }

    #[test]
    fn who_has_nothing_left_is_forgotten_and_who_may_have_is_not() {
        let sessions = Owners::default();
        let owner = OwnerId::random(&SystemRandom);
        let session = sessions.of(owner);
        session.try_lock().unwrap().note(7, Moment::FAR);
        sessions.forget_settled(owner, &session);
        assert_eq!(sessions.len(), 1);
        session.try_lock().unwrap().settle(7);
        let other = sessions.of(owner);
        sessions.forget_settled(owner, &session);
        assert_eq!(sessions.len(), 1, "somebody else is about to ask");
        drop(other);
        sessions.forget_settled(owner, &session);
        assert_eq!(sessions.len(), 0);
    }
}
