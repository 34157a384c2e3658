//! The requests: what is asked, and what the answers mean.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use redis::Value;

use super::attendant::{Told, look_by};
use super::failure;
use super::hub::{Hub, stamp};
use super::keys::{fence_of, is_reserved, line_of};
use super::link::{Link, SILENCE};
use super::plainly::{Plainly, plainly};
use super::script::{ACQUIRE, Answer, RELEASE, RENEW, millis};
use super::seat::{News, POLL, Seat, Times, is_fresh};
use crate::backend::{Release, Renewal, Wait};
use crate::claim::{Claim, Grant};
use crate::clock::{BootClock, Clock, Moment};
use crate::error::{Effect, Operation, Result};
use crate::stores::kit::outage::Outage;

/// Leases in one renewal command: keeps the server's longest pause well below a millisecond.
pub(crate) const RENEWED_AT_ONCE: usize = 64;

/// What the server said to one who asked for a lock.
enum Asked {
    Granted(Grant),
    Queued,
}

pub(super) async fn try_acquire(hub: &Arc<Hub>, claim: &Claim) -> Result<Option<Grant>> {
    let link = hub.link(Operation::Acquire).await?;
    let asked_at = BootClock.now();
    let place = Place {
        times: Times::of(claim.ttl, &link),
        ticket: 0,
        member: "",
    };
    let answer = request(hub, &link, claim, &place, asked_at).await?;
    granted(&answer, claim, asked_at)
}

/// Where a request stands in line, if it does.
struct Place<'a> {
    times: Times,
    /// 0: it has not been there yet.
    ticket: u64,
    /// Empty: it only tries.
    member: &'a str,
}

async fn request(
    hub: &Hub,
    link: &Arc<Link>,
    claim: &Claim,
    place: &Place<'_>,
    asked_at: Moment,
) -> Result<Value> {
    let Claim {
        name,
        owner,
        ttl,
        label,
    } = claim;
    if is_reserved(name.as_str()) {
        return Err(failure::reserved());
    }
    let [every, length] = hub.gap();
    let names = &hub.names;
    let mut ask = names.ask(claim, link, asked_at);
    let mut has_set = false;
    if let Some(epoch) = ask.expect.filter(|_| every == 0) {
        match plainly(link, claim, epoch).await? {
            Plainly::Granted => {
                names.granted_plainly(claim, epoch);
                return Ok(Value::Int(epoch.cast_signed()));
            }
            Plainly::Otherwise { lost_count, is_set } => {
                names.is_wanted(name);
                ask.lift = lost_count;
                has_set = is_set;
            }
        }
    }
    let ttl = millis(*ttl);
    let mut call = ACQUIRE.call(3);
    call.arg(name.as_str())
        .arg(line_of(name.as_str()))
        .arg(fence_of(name.as_str()));
    call.arg(owner.to_string()).arg(ttl);
    call.arg(format!("{ttl} {} {label}", wall_clock_millis()));
    call.arg(u8::from(ask.lift || every > 0) + 2 * u8::from(ask.has_it));
    let Place {
        times,
        ticket,
        member,
    } = place;
    call.arg(ticket).arg(member);
    let (live, stamp, channel) = (millis(times.live), stamp(asked_at), link.channel());
    call.arg(format!("{every} {length} {live} {stamp} {channel}"));
    call.arg(ask.floor).arg(hub.keep());
    let answer = link.call(Operation::Acquire, &ACQUIRE, &call).await;
    let answer = answer.map_err(|error| match has_set {
        // The plain commands took the key before the script was refused.
        true => error.with_effect(Effect::Maybe),
        false => error,
    })?;
    if ask.lift {
        names.lifted(name, link, asked_at);
    }
    match answer {
        // The same lease once more.
        Value::Int(_) if ask.has_it => {}
        Value::Int(_) => names.granted(name, epoch_of(&answer)?),
        _ => names.is_wanted(name),
    }
    Ok(answer)
}

/// Since when a lock is held, for people; decides nothing.
pub(crate) fn wall_clock_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, millis)
}

fn granted(answer: &Value, claim: &Claim, asked_at: Moment) -> Result<Option<Grant>> {
    match answer {
        Value::Int(_) => Ok(Some(Grant {
            epoch: epoch_of(answer)?,
            asked_at,
            lease: claim.ttl,
        })),
        Value::Array(_) => Ok(None),
        _ => Err(failure::unexpected(
            Operation::Acquire,
            &format!("{answer:?}"),
        )),
    }
}

/// The epoch of a grant, or an error that says what came instead.
fn epoch_of(answer: &Value) -> Result<u64> {
    let no_epoch = || failure::unexpected(Operation::Acquire, &format!("the epoch {answer:?}"));
    answer.epoch().ok_or_else(no_epoch)
}

pub(super) async fn acquire(hub: &Arc<Hub>, claim: &Claim, wait: &Wait) -> Result<Grant> {
    let seat = hub.seat(claim);
    let _attended = Attended(&seat);
    let mut outage = Outage::default();
    loop {
        seat.attend();
        match ask(hub, &seat, wait.was_heard()).await {
            Ok(Asked::Granted(grant)) => {
                hub.forget(claim.owner);
                return Ok(grant);
            }
            Ok(Asked::Queued) => {
                wait.heard();
                outage = Outage::default();
                if let News::Granted(grant) = seat.news().await
                    && is_good(hub, &seat, &grant)
                {
                    hub.forget(claim.owner);
                    return Ok(grant);
                }
            }
            Err(error) if wait.was_heard() && failure::is_passing(&error) => {
                outage.sit_out(hub.settings.outage, error).await?;
            }
            // Who has been in line may still be, whatever became of the last request.
            Err(error) if wait.was_heard() => return Err(error.with_effect(Effect::Maybe)),
            Err(error) => {
                if error.effect() == Effect::None {
                    hub.forget(claim.owner);
                }
                return Err(error);
            }
        }
    }
}

/// Asks for a seat's lock once. A grant may come before the answer, for an earlier request of the same owner.
async fn ask(hub: &Arc<Hub>, seat: &Seat, is_in_line: bool) -> Result<Asked> {
    let link = hub.link(Operation::Acquire).await?;
    let asked_at = BootClock.now();
    let entry = seat.entry(&link, stamp(asked_at));
    let place = Place {
        times: entry.times,
        ticket: seat.ticket().unwrap_or(0),
        member: &entry.member,
    };
    let answer = tokio::select! {
        biased;
        grant = good_grant(hub, seat) => return Ok(Asked::Granted(grant)),
        answer = request(hub, &link, &seat.claim, &place, asked_at) => answer?,
        // The first question has its caller's deadline; of later ones only we know.
        () = BootClock.sleep_until(asked_at + SILENCE), if is_in_line => {
            hub.lost(&link);
            return Err(failure::unreachable(Operation::Acquire));
        }
    };
    if let Some(grant) = granted(&answer, &seat.claim, asked_at)? {
        return Ok(Asked::Granted(grant));
    }
    let number = |at: usize| answer.item(at).and_then(|item| item.integer());
    let told = Told {
        left: number(1).unwrap_or(-3),
        rank: 0,
        gap_left: number(2).unwrap_or(0),
    };
    let ticket = number(0).and_then(|ticket| u64::try_from(ticket).ok());
    let ticket = ticket.ok_or_else(|| failure::unexpected(Operation::Acquire, "no ticket"))?;
    let now = BootClock.now();
    let interval = match link.must_poll() {
        true => POLL,
        false => entry.times.beat,
    };
    let beat_at = told.ask_at(now).min(now + interval);
    seat.queued(ticket, beat_at);
    if link.is_down() {
        seat.ask_again();
    }
    look_by(&link, beat_at);
    Ok(Asked::Queued)
}

/// Waits for a grant that is worth something. One that is not tells nothing: the answer that is under way does.
async fn good_grant(hub: &Hub, seat: &Seat) -> Grant {
    loop {
        let grant = seat.grant().await;
        if is_good(hub, seat, &grant) {
            return grant;
        }
    }
}

/// Whether a grant is still worth something, and its epoch larger than those we know. Whoever asks again gets a better one.
fn is_good(hub: &Hub, seat: &Seat, grant: &Grant) -> bool {
    let is_behind = hub.names.is_behind(&seat.claim.name, grant.epoch);
    !is_behind && is_fresh(grant, BootClock.now())
}

/// A future that waits on a seat.
struct Attended<'a>(&'a Seat);

impl Drop for Attended<'_> {
    fn drop(&mut self) {
        self.0.abandon(BootClock.now());
    }
}

/// One command for every [`RENEWED_AT_ONCE`] claims; a locker asks for no more than that in one call.
pub(super) async fn renew(hub: &Arc<Hub>, claims: &[Claim]) -> Vec<Result<Renewal>> {
    let link = match hub.link(Operation::Renew).await {
        Ok(link) => link,
        Err(error) => return claims.iter().map(|_| Err(error.clone())).collect(),
    };
    let batches = claims.chunks(RENEWED_AT_ONCE);
    let renewals = join_all(batches.map(|batch| renew_batch(&link, batch)));
    renewals.await.into_iter().flatten().collect()
}

async fn renew_batch(link: &Arc<Link>, claims: &[Claim]) -> Vec<Result<Renewal>> {
    let mut call = RENEW.call(claims.len());
    for claim in claims {
        call.arg(claim.name.as_str());
    }
    for claim in claims {
        call.arg(claim.owner.to_string()).arg(millis(claim.ttl));
    }
    match link.call(Operation::Renew, &RENEW, &call).await {
        Ok(answer) => (0..claims.len())
            .map(|at| renewal(answer.item(at)))
            .collect(),
        Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
    }
}

pub(crate) fn renewal(answer: Option<&Value>) -> Result<Renewal> {
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
    let name = &claim.name;
    let now = BootClock.now();
    let ask = hub.names.ask(claim, &link, now);
    let [every, length] = hub.gap();
    let mut call = RELEASE.call(3);
    call.arg(name.as_str())
        .arg(line_of(name.as_str()))
        .arg(fence_of(name.as_str()));
    call.arg(claim.owner.to_string());
    call.arg(u8::from(ask.lift) + 2 * u8::from(ask.has_it));
    call.arg(ask.floor).arg(hub.keep());
    if every > 0 || !member.is_empty() {
        call.arg(every).arg(length).arg(member);
    }
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
