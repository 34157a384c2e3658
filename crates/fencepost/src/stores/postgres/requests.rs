//! The lock requests to Postgres (try, wait, renew, release), and the meaning of their answers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::hub::{Hub, Placed};
use super::keys::key_of;
use super::rows::{number, text};
use super::seat::{LastRequest, Seat};
use super::session::LONGEST_LEASE;
use super::view::SessionRow;
use super::{STORE, failure, statements};
use crate::backend::outage::Outage;
use crate::backend::{Release, Renewal, Wait};
use crate::claim::{Claim, Grant};
use crate::clock::{BootClock, Clock};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::random::{Random, SystemRandom};
use crate::retry::Schedule;

/// How often a client asks that has no session to wait with: the shortest and the longest pause.
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));
/// When to repeat a request to stop waiting, because the wait may not have begun when the first one arrived.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

pub(super) async fn try_acquire(hub: &Hub, claim: &Claim) -> Result<Option<Grant>> {
    let key = key_of(&claim.name)?;
    loop {
        match hub.place(claim, key).await? {
            Placed::Nowhere => return Ok(None),
            Placed::Already(seat) => {
                if is_waiting(&seat) {
                    stop_waiting(hub, &seat).await?;
                    if seat.held().is_none() {
                        continue;
                    }
                }
                if let Some(grant) = resume(hub, &seat, claim.ttl).await? {
                    return Ok(Some(grant));
                }
            }
            Placed::Asking(seat) => match asked(hub, &seat).await {
                Ok(Some(grant)) => return Ok(Some(grant)),
                Ok(None) => {
                    hub.refused(&seat);
                    return Ok(None);
                }
                Err(error) if seat.is_reused && failure::was_ended(&error) => {}
                Err(error) => return Err(error),
            },
        }
    }
}

pub(super) async fn acquire(hub: &Hub, claim: &Claim, wait: &Wait) -> Result<Grant> {
    let key = key_of(&claim.name)?;
    let schedule = Schedule::full_jitter(POLL.0, POLL.1);
    let random: &dyn Random = &SystemRandom;
    let mut outage = Outage::default();
    let mut polls = 0;
    loop {
        match wait_once(hub, claim, key, wait, &mut outage).await {
            Ok(Some(grant)) => return Ok(grant),
            Ok(None) => {
                wait.report_busy();
                outage.end();
                let pause = POLL.0 + schedule.delay(polls, random);
                BootClock.sleep_until(BootClock.now() + pause).await;
                polls = polls.saturating_add(1);
            }
            Err(error) => {
                let is_transient = failure::is_transient(&error);
                let longest = hub.settings.max_outage;
                outage.after(error, wait, is_transient, longest).await?;
            }
        }
    }
}

/// Asks, and waits if there is a session to wait with. Returns `None` if somebody else has the lock and the caller has to ask again.
async fn wait_once(
    hub: &Hub,
    claim: &Claim,
    key: i64,
    wait: &Wait,
    outage: &mut Outage<'_>,
) -> Result<Option<Grant>> {
    loop {
        let seat = match hub.place(claim, key).await? {
            Placed::Nowhere => return Ok(None),
            Placed::Already(seat) => {
                if !is_waiting(&seat) {
                    match resume(hub, &seat, claim.ttl).await? {
                        Some(grant) => return Ok(Some(grant)),
                        None => continue,
                    }
                }
                wait.report_busy();
                seat
            }
            Placed::Asking(seat) => match asked(hub, &seat).await {
                Ok(Some(grant)) => return Ok(Some(grant)),
                Ok(None) => {
                    wait.report_busy();
                    // The server answers. If it fails while we stand in its line, that is a new outage.
                    outage.end();
                    if !hub.wait(&seat) {
                        hub.refused(&seat);
                        return Ok(None);
                    }
                    seat
                }
                Err(error) if seat.is_reused && failure::was_ended(&error) => continue,
                Err(error) => return Err(error),
            },
        };
        let answer = asked(hub, &seat).await;
        hub.end_waiting(&seat);
        return answer;
    }
}

/// Returns the answer to what a seat asks for. A seat that got no lock is forgotten.
async fn asked(hub: &Hub, seat: &Seat) -> Result<Option<Grant>> {
    let (LastRequest::Try(answer) | LastRequest::Wait(answer)) = seat.last_request() else {
        return Ok(None);
    };
    match answer.await {
        Ok(held) => Ok(held.map(|held| seat.record_grant(held))),
        Err(error) => {
            hub.refused(seat);
            Err(error)
        }
    }
}

/// Continues an owner's earlier request: if it has the lock, the lease is extended so that it lasts at least `ttl` from now on. Returns
/// `None` if it has nothing and may ask.
async fn resume(hub: &Hub, seat: &Arc<Seat>, ttl: Duration) -> Result<Option<Grant>> {
    if let LastRequest::Leave(answer) = seat.last_request() {
        // Whatever the result, the session is clean or closed.
        let _had_it = answer.await;
        hub.forget(seat);
        return Ok(None);
    }
    let Some(grant) = asked(hub, seat).await? else {
        hub.refused(seat);
        return Ok(None);
    };
    hub.end_waiting(seat);
    seat.raise_ttl(ttl);
    let asked_at = BootClock.now();
    let renewed = renew_seat(hub, seat).await?;
    Ok(match renewed {
        Renewal::Extended => Some(Grant {
            asked_at,
            lease: ttl.min(LONGEST_LEASE),
            ..grant
        }),
        Renewal::Lost => {
            leave(hub, seat).await;
            None
        }
    })
}

/// Makes sure that a seat has nothing, whatever it had.
async fn leave(hub: &Hub, seat: &Seat) {
    if !seat.session.is_closed() {
        hub.give_back(seat);
    }
    if let LastRequest::Leave(answer) = seat.last_request() {
        let _had_it = answer.await;
    }
    hub.forget(seat);
}

/// Renews each claim by itself: if the session of one does not answer, the others do not wait for it.
pub(super) async fn renew(hub: &Hub, claims: &[Claim]) -> Vec<Result<Renewal>> {
    join_all(claims.iter().map(|claim| renew_one(hub, claim))).await
}

async fn renew_one(hub: &Hub, claim: &Claim) -> Result<Renewal> {
    match hub.seat(claim.owner).filter(|seat| seat.held().is_some()) {
        Some(seat) => {
            seat.raise_ttl(claim.ttl);
            renew_seat(hub, &seat).await
        }
        None => Ok(Renewal::Lost),
    }
}

/// Renews with a statement on the connection that holds the lock: if the connection is gone, so is the lock.
async fn renew_seat(hub: &Hub, seat: &Seat) -> Result<Renewal> {
    let Some(sent) = hub.send_renewal(seat) else {
        return Ok(Renewal::Lost);
    };
    let answer = sent.await;
    // The renewal may have shared a statement that was sent later, too late for this lock.
    if seat.is_lost() {
        return Ok(Renewal::Lost);
    }
    match answer {
        Ok(()) => Ok(Renewal::Extended),
        Err(error) if seat.session.is_closed() || failure::is_over(&error) => {
            tracing::debug!(%error, "a session with locks is over");
            Ok(Renewal::Lost)
        }
        Err(error) => Err(error),
    }
}

pub(super) async fn release(hub: &Hub, claim: &Claim) -> Result<Release> {
    let key = key_of(&claim.name)?;
    let Some(seat) = hub.seat(claim.owner) else {
        return release_elsewhere(hub, claim, key).await;
    };
    if is_waiting(&seat) {
        stop_waiting(hub, &seat).await?;
        if seat.held().is_none() && !seat.session.is_closed() {
            return Ok(Release::NotHeld);
        }
    }
    if !matches!(seat.last_request(), LastRequest::Leave(_)) {
        match asked(hub, &seat).await {
            Ok(Some(_)) => hub.give_back(&seat),
            Ok(None) => {
                hub.refused(&seat);
                return Ok(Release::NotHeld);
            }
            // The connection broke in between, and the server may not have noticed yet.
            Err(_) => return release_elsewhere(hub, claim, key).await,
        }
    }
    let LastRequest::Leave(answer) = seat.last_request() else {
        return Ok(Release::NotHeld);
    };
    let left = answer.await;
    hub.forget(&seat);
    match left {
        Ok(true) => Ok(Release::Freed),
        Ok(false) => Ok(Release::NotHeld),
        // The lease was over before, or the server has not noticed yet that we are gone.
        Err(error) if failure::is_over(&error) => release_elsewhere(hub, claim, key).await,
        Err(error) => Err(error),
    }
}

fn is_waiting(seat: &Seat) -> bool {
    matches!(seat.last_request(), LastRequest::Wait(answer) if answer.peek().is_none())
}

/// Removes a seat from the server's line. Afterwards its wait is over: it failed, or was granted just before.
async fn stop_waiting(hub: &Hub, seat: &Seat) -> Result<()> {
    let over = async {
        let _answer = asked(hub, seat).await;
    };
    let cancelling = async {
        let statement = statements::cancel(seat.session.pid, seat.key);
        loop {
            hub.ask_aside(Operation::Release, &statement).await?;
            BootClock.sleep_until(BootClock.now() + CANCEL_AGAIN).await;
        }
    };
    let stopped: Result<std::convert::Infallible> = tokio::select! {
        biased;
        () = over => {
            hub.end_waiting(seat);
            return Ok(());
        }
        stopped = cancelling => stopped,
    };
    // The server does not answer, so we can only close our end. The server notices as soon as it can.
    seat.session.close();
    hub.forget(seat);
    match stopped {
        Ok(never) => match never {},
        Err(error) => Err(error.with_effect(Effect::Maybe)),
    }
}

/// Ends the session of an owner that is not ours: one of another process, or one whose connection broke.
async fn release_elsewhere(hub: &Hub, claim: &Claim, key: i64) -> Result<Release> {
    let look = statements::look(Some(key));
    let rows = hub.ask_aside(Operation::Release, &look).await?;
    let sights = rows
        .iter()
        .filter_map(|row| SessionRow::read(row, BootClock.now()));
    let mut owned = sights.filter(|sight| sight.owner() == Some(claim.owner));
    let Some(sight) = owned.next() else {
        return Ok(Release::NotHeld);
    };
    let statement = statements::terminate(sight.pid, key, claim.owner, sight.shown_in());
    let rows = hub.ask_aside(Operation::Release, &statement).await?;
    let terminated = rows
        .first()
        .map(|row| (number(row, 1).unwrap_or(0_u64), text(row, 2)));
    match terminated {
        None => Ok(Release::NotHeld),
        Some((1, "t")) => Ok(if sight.is_granted {
            Release::Freed
        } else {
            Release::NotHeld
        }),
        // Between the two statements the owner released the lock, and another owner got it in the same session.
        Some((1, "")) => Ok(Release::NotHeld),
        Some((1, _)) => Err(failure::unanswered(STORE, Operation::Release)),
        Some((locks, _)) => {
            let message = format!(
                "this lock and {} others share the session of process {}, which would end with it: release it where it is held",
                locks - 1,
                sight.pid
            );
            Err(Error::new(
                ErrorKind::Unusable,
                STORE,
                Operation::Release,
                message,
            ))
        }
    }
}
