//! The lock requests to ZooKeeper: try, wait, renew, release.

use std::sync::Arc;
use std::time::Duration;

use zookeeper_client::{Error as Cause, MultiWriteError};

use super::failure;
use super::hub::Hub;
use super::line::{self, Position, remove_all};
use super::note::content_of;
use super::owners::{Node, OwnNode, Owner};
use super::session::{Request, Session};
use crate::backend::outage::Outage;
use crate::backend::{Release, Renewal, Wait};
use crate::claim::{Claim, Grant};
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Effect, Operation, Result};
use crate::stores::kit::renewals::{all_failed, in_batches};

/// How many leases one transaction renews.
pub(super) const RENEWED_AT_ONCE: usize = 100;

/// Tries once to acquire the lock.
pub(super) async fn try_acquire(hub: &Hub, claim: &Claim) -> Result<Option<Grant>> {
    let session = hub.session(Operation::Acquire).await?;
    session.check_ttl(Operation::Acquire, claim.ttl)?;
    let request = session.begin(claim).await;
    // A read costs the server little; a node that has to be removed again costs two transactions.
    if request.owner.known() == OwnNode::Nothing && is_wanted(&request).await? {
        request.vacate();
        return Ok(None);
    }
    loop {
        match line::position(&request, claim).await? {
            Position::First { node, made_at } => {
                if let Some(grant) = grant(&request, claim, node, made_at).await? {
                    return Ok(Some(grant));
                }
            }
            Position::Behind { .. } => {
                withdraw(&request).await?;
                return Ok(None);
            }
        }
    }
}

/// Returns whether anybody else holds the lock or waits for it.
async fn is_wanted(request: &Request) -> Result<bool> {
    loop {
        match request.session.line(&request.owner.folder).await {
            Ok(line) => return Ok(line.iter().any(|one| !one.is_of(request.owner.id))),
            Err(cause) => request.session.retry_or_fail(Operation::Acquire, cause)?,
        }
    }
}

/// Waits in line, in a new session if the old one ends, until no server could be reached for too long.
pub(super) async fn acquire(hub: &Hub, claim: &Claim, wait: &Wait) -> Result<Grant> {
    let mut outage = Outage::default();
    let mut has_lost_session = false;
    loop {
        let error = match hub.session(Operation::Acquire).await {
            Ok(session) => match wait_in_session(&session, claim, wait, &mut outage).await {
                Ok(grant) => return Ok(grant),
                // A session may end just when it is needed, for instance one that was idle. Once, that is not a reason to give up.
                Err(error) if session.is_down() && !has_lost_session => {
                    tracing::debug!(%error, "the session has ended; the wait continues in a new one");
                    has_lost_session = true;
                    continue;
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        // The server may not know yet that the lost session is over.
        let error = if has_lost_session {
            error.with_effect(Effect::Maybe)
        } else {
            error
        };
        let is_transient = error.is_transient();
        let longest = hub.settings.max_outage;
        outage.after(error, wait, is_transient, longest).await?;
    }
}

async fn wait_in_session(
    session: &Arc<Session>,
    claim: &Claim,
    wait: &Wait,
    outage: &mut Outage<'_>,
) -> Result<Grant> {
    session.check_ttl(Operation::Acquire, claim.ttl)?;
    wait_in_line(&session.begin(claim).await, claim, wait, outage).await
}

async fn wait_in_line(
    request: &Request,
    claim: &Claim,
    wait: &Wait,
    outage: &mut Outage<'_>,
) -> Result<Grant> {
    loop {
        match line::position(request, claim).await? {
            Position::First { node, made_at } => {
                if let Some(grant) = grant(request, claim, node, made_at).await? {
                    return Ok(grant);
                }
            }
            Position::Behind { before } => {
                wait.report_busy();
                outage.end();
                // Watch only the node just ahead of ours, so that its end wakes nobody else.
                let path = request.path(&before);
                match request.session.client.get_and_watch_data(&path).await {
                    Ok((_, _, watcher)) => request.session.changed(watcher).await,
                    Err(Cause::NoNode) => {}
                    Err(cause) => request.session.retry_or_fail(Operation::Acquire, cause)?,
                }
            }
        }
    }
}

/// Grants the lock if the leader still knows our node. Returns `None` if it does not, and the caller has to start again.
///
/// A node that was just created is proof enough. A node that has waited may have ended with its session, unknown to the server to which we
/// are connected. A write to it reaches the leader, and also records since when the lock is held.
async fn grant(
    request: &Request,
    claim: &Claim,
    node: Node,
    made_at: Option<Moment>,
) -> Result<Option<Grant>> {
    let ttl = request.owner.longest(claim.ttl);
    let asked_at = match made_at {
        Some(made_at) => made_at,
        None => match confirm(request, claim, &node, ttl).await? {
            Some(asked_at) => asked_at,
            None => return Ok(None),
        },
    };
    if !request.owner.hold(asked_at, ttl) {
        return Err(failure::session_ended(Operation::Acquire));
    }
    request.session.look_by(request.owner.ends_at());
    Ok(Some(Grant {
        epoch: node.epoch,
        asked_at,
        lease: ttl,
    }))
}

async fn confirm(
    request: &Request,
    claim: &Claim,
    node: &Node,
    ttl: Duration,
) -> Result<Option<Moment>> {
    let path = request.path(&node.name);
    loop {
        let content = content_of(claim, ttl);
        let asked_at = BootClock.now();
        match request.session.client.set_data(&path, &content, None).await {
            Ok(_) => return Ok(Some(asked_at)),
            Err(Cause::NoNode) => {
                request.owner.set_known(OwnNode::Nothing);
                return Ok(None);
            }
            Err(cause) => request.session.retry_or_fail(Operation::Acquire, cause)?,
        }
    }
}

/// Leaves the line.
async fn withdraw(request: &Request) -> Result<()> {
    loop {
        match remove_all(&request.session, &request.owner).await {
            Ok(_) => break,
            Err(cause) => request.session.retry_or_fail(Operation::Acquire, cause)?,
        }
    }
    request.vacate();
    Ok(())
}

/// Renews leases. Only the session that holds a lock can renew it.
pub(super) async fn renew(hub: &Hub, claims: &[Claim]) -> Vec<Result<Renewal>> {
    in_batches(claims, RENEWED_AT_ONCE, |batch| renew_batch(hub, batch)).await
}

async fn renew_batch(hub: &Hub, claims: &[Claim]) -> Vec<Result<Renewal>> {
    let session = match hub.session(Operation::Renew).await {
        Ok(session) => session,
        Err(error) => return all_failed(claims, &error),
    };
    let mut answers: Vec<Result<Renewal>> = claims.iter().map(|_| Ok(Renewal::Lost)).collect();
    let mut held: Vec<HeldNode> = Vec::new();
    for (at, claim) in claims.iter().enumerate() {
        match session.check_ttl(Operation::Renew, claim.ttl) {
            Ok(()) => held.extend(HeldNode::of(&session, claim, at)),
            Err(error) => answers[at] = Err(error),
        }
    }
    while !held.is_empty() {
        let asked_at = BootClock.now();
        match prove(&session, &held).await {
            Ok(()) => {
                for HeldNode { owner, ttl, at, .. } in held.drain(..) {
                    if owner.hold(asked_at, ttl) {
                        answers[at] = Ok(Renewal::Extended);
                    }
                }
            }
            Err(MultiWriteError::OperationFailed {
                index,
                source: Cause::NoNode,
            }) if index < held.len() => {
                let gone = held.remove(index);
                session.forget(&gone.owner);
            }
            Err(error) => {
                if let Err(error) = session.retry_or_fail(Operation::Renew, error.into()) {
                    for HeldNode { at, .. } in held.drain(..) {
                        answers[at] = Err(error.clone());
                    }
                }
            }
        }
    }
    answers
}

/// A lease that this session knows.
struct HeldNode<'a> {
    claim: &'a Claim,
    /// The index of its answer.
    at: usize,
    owner: Arc<Owner>,
    path: String,
    ttl: Duration,
    /// Whether the TTL grows, which the node of a lock must show. The node of a leader shows its value, which may be another one by now.
    is_longer: bool,
}

impl<'a> HeldNode<'a> {
    fn of(session: &Session, claim: &'a Claim, at: usize) -> Option<Self> {
        let owner = session.owner(claim.owner)?;
        let (node, ttl) = owner.held_node()?;
        Some(Self {
            claim,
            at,
            path: format!("{}/{}", owner.folder, node.name),
            is_longer: claim.ttl > ttl && claim.value.is_none(),
            ttl: claim.ttl.max(ttl),
            owner,
        })
    }
}

/// Proves with a transaction that all these nodes exist. The leader and a majority have to confirm it, so neither a follower nor a leader
/// that was cut off can claim it wrongly.
async fn prove(
    session: &Session,
    held: &[HeldNode<'_>],
) -> std::result::Result<(), MultiWriteError> {
    let mut transaction = session.client.new_multi_writer();
    for HeldNode {
        claim,
        path,
        ttl,
        is_longer,
        ..
    } in held
    {
        if *is_longer {
            let content = content_of(claim, *ttl);
            transaction.add_set_data(path, &content, None)?;
        } else {
            transaction.add_check_version(path, -1)?
        }
    }
    transaction.commit().await.map(|_| ())
}

/// Ends this owner's lease and removes it from the line, even if it belongs to another session (a forced release).
pub(super) async fn release(hub: &Hub, claim: &Claim) -> Result<Release> {
    let mut was_held = None;
    loop {
        let session = hub.session(Operation::Release).await?;
        let released = match session.resume(claim.owner) {
            Some(request) if request.owner.known() != OwnNode::Nothing => {
                give_back(&request, &mut was_held).await
            }
            _ => release_unknown(&session, claim).await,
        };
        match released {
            Ok(release) => return Ok(release),
            Err(cause) if session.is_down() => {
                tracing::debug!(%cause, "releasing in a new session");
            }
            Err(cause) => session.retry_or_fail(Operation::Release, cause)?,
        }
    }
}

/// Ends what this session knows of. `was_held` is what an earlier request of this release found, if its answer was lost.
async fn give_back(
    request: &Request,
    was_held: &mut Option<bool>,
) -> std::result::Result<Release, Cause> {
    let is_repeated = was_held.is_some();
    let was_held = *was_held.get_or_insert_with(|| request.owner.is_held());
    request.owner.give_up();
    let was_there = remove_all(&request.session, &request.owner).await?;
    request.vacate();
    Ok(if was_held && (was_there || is_repeated) {
        Release::Freed
    } else {
        Release::NotHeld
    })
}

/// Ends what another session, or an earlier one, has left behind.
async fn release_unknown(session: &Session, claim: &Claim) -> std::result::Result<Release, Cause> {
    let folder = session.folder(&claim.name);
    let line = session.line(&folder).await?;
    let mut release = Release::NotHeld;
    for (at, contender) in line.iter().enumerate() {
        if !contender.is_of(claim.owner) {
            continue;
        }
        let path = format!("{folder}/{}", contender.node);
        match session.client.delete(&path, None).await {
            Ok(()) if at == 0 => release = Release::Freed,
            Ok(()) | Err(Cause::NoNode) => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(release)
}
