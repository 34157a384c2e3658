//! The lock requests on the tables (try, wait, renew, release), and the meaning of their answers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio_postgres::Row;

use super::failure;
use super::hub::Hub;
use super::keys::{holder_of, micros, row_of};
use super::session::{Parameters, Session};
use super::waiting::{LinePosition, LocalWaiter, Refusal};
use crate::backend::outage::Outage;
use crate::backend::{Release, Renewal, Wait};
use crate::claim::{Claim, Grant, OwnerId};
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Operation, Result};
use crate::stores::kit::renewals::{all_failed, in_batches};
use crate::stores::kit::silence::ANSWER_TIMEOUT;

/// How many leases one renewal covers. This limits the rows that it locks at the same time.
pub(super) const RENEWED_AT_ONCE: usize = 256;

/// The server's answer to a request for a lock.
enum Outcome {
    Granted(Grant),
    Refused(Refusal),
}

pub(super) async fn try_acquire(hub: &Arc<Hub>, claim: &Claim) -> Result<Option<Grant>> {
    let session = hub.session(Operation::Acquire).await?;
    let asked = request(&session, claim, &row_of(&claim.name), &holder_of(claim)).await?;
    Ok(match asked {
        Outcome::Granted(grant) => Some(grant),
        Outcome::Refused(_) => None,
    })
}

async fn request(session: &Session, claim: &Claim, row: &str, holder: &str) -> Result<Outcome> {
    let asked_at = BootClock.now();
    let (owner, ttl) = (claim.owner.to_string(), micros(claim.ttl));
    let name = claim.name.as_str();
    let acquire = &session.statements.acquire;
    let parameters: &Parameters<'_> = &[&row, &owner, &holder, &ttl, &name];
    let rows = session.ask(Operation::Acquire, acquire, parameters).await?;
    read(&rows, claim, asked_at)
        .ok_or_else(|| failure::unexpected(Operation::Acquire, "not one row of five numbers"))
}

fn read(rows: &[Row], claim: &Claim, asked_at: Moment) -> Option<Outcome> {
    let [row] = rows else { return None };
    let number = |at: usize| row.try_get::<_, Option<i64>>(at).ok();
    if let Some(epoch) = number(0)? {
        return Some(Outcome::Granted(Grant {
            epoch: u64::try_from(epoch).ok()?,
            asked_at,
            lease: claim.ttl,
        }));
    }
    let duration = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
    Some(Outcome::Refused(Refusal {
        due_in: number(1)?.map(duration),
        ahead: u32::try_from(number(2)??).unwrap_or(u32::MAX),
        ticket: number(3)?,
        foreign_for: number(4)?.map(duration),
    }))
}

pub(super) async fn acquire(hub: &Arc<Hub>, claim: &Claim, wait: &Wait) -> Result<Grant> {
    let registered = hub.waiters.register(claim);
    let waiter = &registered.waiter;
    let mut outage = Outage::default();
    let mut is_in_line = false;
    loop {
        waiter.begin();
        match ask(hub, waiter, wait.was_busy(), is_in_line).await {
            Ok(Outcome::Granted(grant)) => return Ok(grant),
            Ok(Outcome::Refused(refusal)) => {
                wait.report_busy();
                outage.end();
                is_in_line = refusal.ticket.is_some();
                waiter.refused(&refusal);
                if is_in_line {
                    registered.until_worth_asking().await;
                }
            }
            // The server answers, so this is not part of an outage before or after.
            Err(error) if failure::is_row_locked(&error) => {
                wait.report_busy();
                outage.was_answered();
                outage.pause().await;
            }
            Err(error) => {
                let is_transient = failure::is_transient(&error);
                let longest = hub.settings.max_outage;
                outage.after(error, wait, is_transient, longest).await?;
            }
        }
    }
}

/// Asks once for the lock of a waiter. If the waiter was refused before and is not in line yet, it joins the line first.
async fn ask(
    hub: &Arc<Hub>,
    waiter: &LocalWaiter,
    was_busy: bool,
    is_in_line: bool,
) -> Result<Outcome> {
    let session = hub.session(Operation::Acquire).await?;
    let request = request(&session, &waiter.claim, &waiter.row, &waiter.holder);
    let asking = async {
        if !was_busy || is_in_line {
            return request.await;
        }
        // The request comes after the waiter has a place: from then on, a client that releases the lock notifies us.
        let (joined, asked) = join(join_line(&session, waiter), request).await;
        match asked {
            Ok(Outcome::Refused(refusal)) => joined.map(|()| Outcome::Refused(refusal)),
            asked => asked,
        }
    };
    // The caller limits the first request; only we can limit later ones.
    let give_up_at = if was_busy {
        BootClock.now() + ANSWER_TIMEOUT
    } else {
        Moment::FAR
    };
    tokio::select! {
        biased;
        asked = asking => asked,
        () = BootClock.sleep_until(give_up_at) => {
            hub.give_up(&session);
            Err(failure::unanswered(Operation::Acquire))
        }
    }
}

async fn join_line(session: &Session, waiter: &LocalWaiter) -> Result<()> {
    let owner = waiter.claim.owner.to_string();
    let (row, label, name) = (&*waiter.row, &waiter.label, waiter.claim.name.as_str());
    let statements = &session.statements;
    let joined = match waiter.place() {
        None => {
            let parameters: &Parameters<'_> = &[&row, &owner, label, &name];
            session
                .ask(Operation::Acquire, &statements.join, parameters)
                .await
        }
        Some(LinePosition { ticket, since }) => {
            let waited = micros(BootClock.now().saturating_duration_since(since));
            let parameters: &Parameters<'_> = &[&row, &owner, label, &name, &ticket, &waited];
            session
                .ask(Operation::Acquire, &statements.come_back, parameters)
                .await
        }
    };
    joined.map(|_| ())
}

pub(super) async fn renew(hub: &Arc<Hub>, claims: &[Claim]) -> Vec<Result<Renewal>> {
    let session = match hub.session(Operation::Renew).await {
        Ok(session) => session,
        Err(error) => return all_failed(claims, &error),
    };
    in_batches(claims, RENEWED_AT_ONCE, |batch| {
        renew_batch(&session, batch)
    })
    .await
}

async fn renew_batch(session: &Session, claims: &[Claim]) -> Vec<Result<Renewal>> {
    // All programs use the same order, so that no two of them wait for each other's rows.
    let mut sorted: Vec<&Claim> = claims.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let rows: Vec<String> = sorted.iter().map(|claim| row_of(&claim.name)).collect();
    let owners: Vec<String> = sorted.iter().map(|claim| claim.owner.to_string()).collect();
    let holders: Vec<String> = sorted.iter().map(|claim| holder_of(claim)).collect();
    let ttls: Vec<i64> = sorted.iter().map(|claim| micros(claim.ttl)).collect();
    let renew = &session.statements.renew;
    let parameters: &Parameters<'_> = &[&rows, &owners, &holders, &ttls];
    match session.ask(Operation::Renew, renew, parameters).await {
        Ok(extended) => {
            let owner = |row: &Row| row.try_get::<_, &str>(0).ok()?.parse().ok();
            let extended: HashSet<OwnerId> = extended.iter().filter_map(owner).collect();
            let answer = |claim: &Claim| {
                if extended.contains(&claim.owner) {
                    Renewal::Extended
                } else {
                    Renewal::Lost
                }
            };
            claims.iter().map(|claim| Ok(answer(claim))).collect()
        }
        Err(error) => all_failed(claims, &error),
    }
}

pub(super) async fn release(hub: &Arc<Hub>, claim: &Claim) -> Result<Release> {
    let session = hub.session(Operation::Release).await?;
    let (row, owner) = (row_of(&claim.name), claim.owner.to_string());
    let (released, told): (&Parameters<'_>, &Parameters<'_>) = (&[&row, &owner], &[&row]);
    // Both statements are sent together, so that neither is sent without the other if this is dropped.
    let (answer, told) = join(
        session.ask(Operation::Release, &session.statements.release, released),
        session.ask(Operation::Release, &session.statements.tell, told),
    )
    .await;
    let rows = answer?;
    if let Err(error) = told {
        tracing::debug!(%error, "the next in line was not told; it will look by itself");
    }
    match rows.first().and_then(|row| row.try_get(0).ok()) {
        Some(true) => Ok(Release::Freed),
        Some(false) => Ok(Release::NotHeld),
        None => Err(failure::unexpected(Operation::Release, "no answer")),
    }
}
