//! The requests: what is asked, and what the answers mean.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;

use super::attendant::{Told, look_by};
use super::failure;
use super::hub::{Hub, stamp};
use super::keys::Keys;
use super::link::Link;
use super::script::{ACQUIRE, Answer, Call, RELEASE, RENEW};
use super::seat::{News, POLL, Seat, Times, is_fresh};
use crate::backend::{Release, Renewal, Wait};
use crate::claim::{Claim, Grant};
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Effect, Error, Operation, Result};

/// Leases in one renewal command: keeps the server's longest pause well below a millisecond.
const RENEWED_AT_ONCE: usize = 64;
/// Renewal commands under way at once.
const RENEWALS_UNDER_WAY: usize = 16;
/// Between two attempts to reach a server that is away.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What the server said to one who asked for a lock.
enum Asked {
    Granted(Grant),
    Queued,
}

pub(super) async fn try_acquire(hub: &Arc<Hub>, claim: &Claim) -> Result<Option<Grant>> {
    let link = hub.link(Operation::Acquire).await?;
    let asked_at = BootClock.now();
    let times = Times::of(claim.ttl, &link);
    let call = acquire_call(claim).arg("").arg(0);
    let call = reachable(call, hub, &link, times, asked_at);
    let answer = link.call(Operation::Acquire, &ACQUIRE, &call).await?;
    granted(&answer, claim, asked_at)
}

/// Keys, owner, TTL and label.
fn acquire_call(claim: &Claim) -> Call {
    Call::default()
        .keys(Keys::of(claim.name.as_str()).all())
        .arg(claim.owner)
        .arg(claim.ttl.as_millis())
        .arg(&claim.label)
}

/// How to reach the one who waits, and the gap.
fn reachable(call: Call, hub: &Hub, link: &Link, times: Times, asked_at: Moment) -> Call {
    let [every, length] = hub.gap();
    call.arg(times.live.as_millis())
        .arg(stamp(asked_at))
        .arg(link.channel())
        .arg(every)
        .arg(length)
}

fn granted(answer: &Value, claim: &Claim, asked_at: Moment) -> Result<Option<Grant>> {
    let number = |at: usize| answer.item(at).and_then(|item| item.integer());
    let unexpected = || failure::unexpected(Operation::Acquire, &format!("{answer:?}"));
    match number(0) {
        Some(1) => {
            let epoch = number(1).and_then(|epoch| u64::try_from(epoch).ok());
            Ok(Some(Grant {
                epoch: epoch.ok_or_else(unexpected)?,
                asked_at,
                lease: claim.ttl,
            }))
        }
        Some(0) => Ok(None),
        _ => Err(unexpected()),
    }
}

pub(super) async fn acquire(hub: &Arc<Hub>, claim: &Claim, wait: &Wait) -> Result<Grant> {
    let seat = hub.seat(claim);
    let _attended = Attended(&seat);
    let mut outage = Outage::default();
    loop {
        seat.attend();
        match ask(hub, &seat).await {
            Ok(Asked::Granted(grant)) => {
                hub.forget(claim.owner);
                return Ok(grant);
            }
            Ok(Asked::Queued) => {
                wait.heard();
                outage = Outage::default();
                if let News::Granted(grant) = seat.news().await
                    && is_fresh(&grant, BootClock.now())
                {
                    hub.forget(claim.owner);
                    return Ok(grant);
                }
            }
            Err(error) if wait.was_heard() && failure::is_passing(&error) => {
                outage.sit_out(hub.settings.outage, error).await?;
            }
            Err(error) => return Err(outage.taint(error)),
        }
    }
}

/// Asks for a seat's lock once. A grant may come before the answer, for an earlier request of the same owner.
async fn ask(hub: &Arc<Hub>, seat: &Seat) -> Result<Asked> {
    let link = hub.link(Operation::Acquire).await?;
    let asked_at = BootClock.now();
    let entry = seat.entry(&link, stamp(asked_at));
    let call = acquire_call(&seat.claim)
        .arg(&entry.member)
        .arg(seat.ticket().unwrap_or(0));
    let call = reachable(call, hub, &link, entry.times, asked_at);
    let answer = tokio::select! {
        biased;
        grant = seat.grant() => return Ok(Asked::Granted(grant)),
        answer = link.call(Operation::Acquire, &ACQUIRE, &call) => answer?,
    };
    if let Some(grant) = granted(&answer, &seat.claim, asked_at)? {
        return Ok(Asked::Granted(grant));
    }
    let number = |at: usize| answer.item(at).and_then(|item| item.integer());
    let told = Told {
        left: number(2).unwrap_or(-3),
        rank: 0,
        gap_left: number(3).unwrap_or(0),
    };
    let ticket = number(1).and_then(|ticket| u64::try_from(ticket).ok());
    let ticket = ticket.ok_or_else(|| failure::unexpected(Operation::Acquire, "no ticket"))?;
    let now = BootClock.now();
    let interval = match link.must_poll() {
        true => POLL,
        false => entry.times.beat,
    };
    let beat_at = told.ask_at(now).min(now + interval);
    seat.queued(ticket, beat_at);
    look_by(&link, beat_at);
    Ok(Asked::Queued)
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
            return Err(self.taint(error));
        }
        self.pause = (self.pause * 2).clamp(PAUSE, LONGEST_PAUSE);
        BootClock.sleep_until(now + self.pause).await;
        Ok(())
    }

    /// Who has been in line may still be, whatever became of the last request.
    fn taint(&self, error: Error) -> Error {
        match self.since {
            Some(_) => error.with_effect(Effect::Maybe),
            None => error,
        }
    }
}

/// A future that waits on a seat.
struct Attended<'a>(&'a Seat);

impl Drop for Attended<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

pub(super) async fn renew(hub: &Arc<Hub>, claims: &[Claim]) -> Vec<Result<Renewal>> {
    let link = match hub.link(Operation::Renew).await {
        Ok(link) => link,
        Err(error) => return claims.iter().map(|_| Err(error.clone())).collect(),
    };
    let mut renewals = Vec::with_capacity(claims.len());
    for many in claims.chunks(RENEWED_AT_ONCE * RENEWALS_UNDER_WAY) {
        let batches = many
            .chunks(RENEWED_AT_ONCE)
            .map(|batch| renew_batch(&link, batch));
        renewals.extend(join_all(batches).await.into_iter().flatten());
    }
    renewals
}

async fn renew_batch(link: &Arc<Link>, claims: &[Claim]) -> Vec<Result<Renewal>> {
    let mut call = Call::default();
    for claim in claims {
        call = call
            .key(claim.name.as_str())
            .arg(claim.owner)
            .arg(claim.ttl.as_millis());
    }
    match link.call(Operation::Renew, &RENEW, &call).await {
        Ok(answer) => (0..claims.len())
            .map(|at| renewal(answer.item(at)))
            .collect(),
        Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
    }
}

fn renewal(answer: Option<&Value>) -> Result<Renewal> {
    match answer.and_then(|answer| answer.integer()) {
        Some(1) => Ok(Renewal::Extended),
        Some(0) => Ok(Renewal::Lost),
        _ => Err(failure::unexpected(Operation::Renew, "too few answers")),
    }
}

pub(super) async fn release(hub: &Arc<Hub>, claim: &Claim) -> Result<Release> {
    let link = hub.link(Operation::Release).await?;
    let seat = hub.seat_of(claim.owner);
    let member = seat.and_then(|seat| seat.member()).unwrap_or_default();
    let [every, length] = hub.gap();
    let call = Call::default()
        .keys(Keys::of(claim.name.as_str()).all())
        .arg(claim.owner)
        .arg(member)
        .arg(every)
        .arg(length);
    let answer = link.call(Operation::Release, &RELEASE, &call).await?;
    hub.forget(claim.owner);
    match answer.integer() {
        Some(1) => Ok(Release::Freed),
        Some(0 | 2) => Ok(Release::NotHeld),
        _ => Err(failure::unexpected(
            Operation::Release,
            &format!("{answer:?}"),
        )),
    }
}
