//! What the server is asked for, and what its answers mean.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::hub::{Hub, Placed};
use super::key::key_of;
use super::seat::{Deed, Seat};
use super::session::{number, text};
use super::view::Sight;
use super::{STORE, failure, statement};
use crate::backend::{Release, Renewal, Wait};
use crate::claim::{Claim, Grant};
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Effect, Error, ErrorKind, Operation, Result};
use crate::random::{Random, SystemRandom};
use crate::retry::Schedule;

/// How often one asks who has no session to wait with.
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));
/// Pauses between attempts to reach a server that is away.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A request to stop waiting is repeated after this time: the wait may not have begun when it came.
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
                if let Some(grant) = resume(hub, &seat).await? {
                    return Ok(Some(grant));
                }
            }
            Placed::Asking(seat) => match asked(hub, &seat).await {
                Ok(Some(grant)) => return Ok(Some(grant)),
                Ok(None) => {
                    hub.forget(&seat);
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
        match wait_once(hub, claim, key, wait).await {
            Ok(Some(grant)) => return Ok(grant),
            Ok(None) => {
                wait.heard();
                outage = Outage::default();
                let pause = POLL.0 + schedule.delay(polls, random);
                BootClock.sleep_until(BootClock.now() + pause).await;
                polls = polls.saturating_add(1);
            }
            Err(error) if wait.was_heard() && failure::is_passing(&error) => {
                outage.sit_out(hub.settings.outage, error).await?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Asks, and waits if there is a session to wait with. `None`: somebody else has it, and one has to ask again.
async fn wait_once(hub: &Hub, claim: &Claim, key: i64, wait: &Wait) -> Result<Option<Grant>> {
    loop {
        let seat = match hub.place(claim, key).await? {
            Placed::Nowhere => return Ok(None),
            Placed::Already(seat) => {
                if !is_waiting(&seat) {
                    match resume(hub, &seat).await? {
                        Some(grant) => return Ok(Some(grant)),
                        None => continue,
                    }
                }
                wait.heard();
                seat
            }
            Placed::Asking(seat) => match asked(hub, &seat).await {
                Ok(Some(grant)) => return Ok(Some(grant)),
                Ok(None) => {
                    wait.heard();
                    if !hub.wait(&seat) {
                        hub.forget(&seat);
                        return Ok(None);
                    }
                    seat
                }
                Err(error) if seat.is_reused && failure::was_ended(&error) => continue,
                Err(error) => return Err(error),
            },
        };
        let answer = asked(hub, &seat).await;
        hub.waits_no_more(&seat);
        return answer;
    }
}

/// The answer to what a seat asks for; a seat that got none is forgotten.
async fn asked(hub: &Hub, seat: &Seat) -> Result<Option<Grant>> {
    let (Deed::Try(flight) | Deed::Wait(flight)) = seat.deed() else {
        return Ok(None);
    };
    match flight.await {
        Ok(held) => Ok(held.map(|held| seat.has(held))),
        Err(error) => {
            hub.forget(seat);
            Err(error)
        }
    }
}

/// Goes on with what an owner has asked for before: a lock that it has is extended. `None`: it has nothing, and may ask.
async fn resume(hub: &Hub, seat: &Arc<Seat>) -> Result<Option<Grant>> {
    if let Deed::Leave(flight) = seat.deed() {
        // Whatever became of it, the session is clean or closed.
        let _had_it = flight.await;
        hub.forget(seat);
        return Ok(None);
    }
    let Some(grant) = asked(hub, seat).await? else {
        hub.forget(seat);
        return Ok(None);
    };
    hub.waits_no_more(seat);
    let asked_at = BootClock.now();
    let renewed = renew_session(hub, seat.number, std::slice::from_ref(seat)).await?;
    Ok(match renewed {
        Renewal::Extended => Some(Grant { asked_at, ..grant }),
        Renewal::Lost => {
            hub.forget(seat);
            None
        }
    })
}

/// A server that was there and is away: how long it has been.
#[derive(Default)]
struct Outage {
    since: Option<Moment>,
    pause: Duration,
}

impl Outage {
    /// Waits a little; gives up when it has lasted too long.
    async fn sit_out(&mut self, longest: Duration, error: Error) -> Result<()> {
        let now = BootClock.now();
        if now.since(*self.since.get_or_insert(now)) >= longest {
            return Err(error);
        }
        self.pause = (self.pause * 2).clamp(PAUSE, LONGEST_PAUSE);
        BootClock.sleep_until(now + self.pause).await;
        Ok(())
    }
}

pub(super) async fn renew(hub: &Hub, claims: &[Claim]) -> Vec<Result<Renewal>> {
    let mut by_session: BTreeMap<u64, Vec<Arc<Seat>>> = BTreeMap::new();
    let mut session_of = Vec::with_capacity(claims.len());
    for claim in claims {
        let seat = hub.seat(claim.owner).filter(|seat| seat.held().is_some());
        session_of.push(seat.as_ref().map(|seat| seat.number));
        if let Some(seat) = seat {
            seat.wants(claim.ttl);
            by_session.entry(seat.number).or_default().push(seat);
        }
    }
    let asking = by_session.iter().map(async |(number, seats)| {
        let answer = renew_session(hub, *number, seats).await;
        (*number, answer)
    });
    let answers: BTreeMap<_, _> = join_all(asking).await.into_iter().collect();
    let answer_of = |number: Option<u64>| match number.and_then(|number| answers.get(&number)) {
        Some(answer) => answer.clone(),
        None => Ok(Renewal::Lost),
    };
    session_of.into_iter().map(answer_of).collect()
}

/// One sign of life for the locks of a session, on the connection that holds them: if that is gone, so are they.
async fn renew_session(hub: &Hub, number: u64, seats: &[Arc<Seat>]) -> Result<Renewal> {
    let Some(session) = seats.first().map(|seat| seat.session.clone()) else {
        return Ok(Renewal::Lost);
    };
    let statement = hub.sign_of_life(number, seats);
    let asked_at = BootClock.now();
    match session.ask(Operation::Renew, &statement).await {
        Ok(_) => {
            for seat in seats {
                seat.extended(asked_at);
            }
            Ok(Renewal::Extended)
        }
        Err(error) if session.is_closed() || failure::is_over(&error) => {
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
    if !matches!(seat.deed(), Deed::Leave(_)) {
        match asked(hub, &seat).await {
            Ok(Some(_)) => hub.give_back(&seat),
            Ok(None) => {
                hub.forget(&seat);
                return Ok(Release::NotHeld);
            }
            // Cut off in between: the server may not have noticed yet.
            Err(_) => return release_elsewhere(hub, claim, key).await,
        }
    }
    let Deed::Leave(flight) = seat.deed() else {
        return Ok(Release::NotHeld);
    };
    let left = flight.await;
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
    matches!(seat.deed(), Deed::Wait(flight) if flight.peek().is_none())
}

/// Takes a seat out of the server's line. Afterwards its wait is over: it failed, or was granted just before.
async fn stop_waiting(hub: &Hub, seat: &Seat) -> Result<()> {
    let over = async {
        let _answer = asked(hub, seat).await;
    };
    let cancelling = async {
        let visit = hub.visit(Operation::Release).await?;
        let statement = statement::cancel(seat.session.pid, seat.key);
        loop {
            visit.ask(Operation::Release, &statement).await?;
            BootClock.sleep_until(BootClock.now() + CANCEL_AGAIN).await;
        }
    };
    let stopped: Result<std::convert::Infallible> = tokio::select! {
        biased;
        () = over => {
            hub.waits_no_more(seat);
            return Ok(());
        }
        stopped = cancelling => stopped,
    };
    // Without a word from the server this end can only be closed. It notices as soon as it can.
    seat.session.close();
    hub.forget(seat);
    match stopped {
        Ok(never) => match never {},
        Err(error) => Err(error.with_effect(Effect::Maybe)),
    }
}

/// Ends the session of an owner that is not ours: another process's, or one whose connection broke.
async fn release_elsewhere(hub: &Hub, claim: &Claim, key: i64) -> Result<Release> {
    let visit = hub.visit(Operation::Release).await?;
    let rows = visit
        .ask(Operation::Release, &statement::look(Some(key)))
        .await?;
    let sights = rows
        .iter()
        .filter_map(|row| Sight::read(row, BootClock.now()));
    let mut owned = sights.filter(|sight| sight.owner() == Some(claim.owner));
    let Some(sight) = owned.next() else {
        return Ok(Release::NotHeld);
    };
    let statement = statement::terminate(sight.pid, key);
    let rows = visit.ask(Operation::Release, &statement).await?;
    let terminated = rows
        .first()
        .map(|row| (number(row, 1).unwrap_or(0_u64), text(row, 2) == "t"));
    match terminated {
        None => Ok(Release::NotHeld),
        Some((1, true)) => Ok(match sight.is_granted {
            true => Release::Freed,
            false => Release::NotHeld,
        }),
        Some((1, false)) => Err(failure::silent(STORE, Operation::Release)),
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
