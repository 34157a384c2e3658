//! The lock requests to Redis (try, wait, renew, release), and the meaning of their answers. A lock that nobody else seems to want is
//! acquired with plain commands instead of a script.

use std::sync::Arc;

use redis::{Cmd, Value};

use super::failure;
use super::heartbeats::{WaitAdvice, look_by};
use super::hub::Hub;
use super::keys::{fence_of, is_reserved, line_of};
use super::names::RequestPlan;
use super::scripts::{ACQUIRE, LAYOUT, RELEASE, RENEW, ReadValue, millis, stamp};
use super::session::Session;
use super::settings::GapMs;
use super::waiting::{LinePosition, LocalWaiter, News, POLL};
use crate::backend::outage::Outage;
use crate::backend::{Release, Renewal, Wait};
use crate::claim::{Claim, Grant};
use crate::clock::{BootClock, Clock, Moment, unix_millis};
use crate::error::{Effect, Operation, Result};
use crate::stores::kit::renewals::{all_failed, in_batches};
use crate::stores::kit::silence::ANSWER_TIMEOUT;

/// How many leases one renewal command carries. This keeps the server's longest pause well below a millisecond.
pub(crate) const RENEWED_AT_ONCE: usize = 64;

/// The server's answer to a request for a lock.
enum Outcome {
    Granted(Grant),
    Queued,
}

pub(super) async fn try_acquire(hub: &Arc<Hub>, claim: &Claim) -> Result<Option<Grant>> {
    let session = hub.session(Operation::Acquire).await?;
    let asked_at = BootClock.now();
    let position = LinePosition::outside(claim.ttl, &session);
    let answer = request(hub, &session, claim, &position, asked_at).await?;
    granted(&answer, claim, asked_at)
}

async fn request(
    hub: &Hub,
    session: &Arc<Session>,
    claim: &Claim,
    position: &LinePosition,
    asked_at: Moment,
) -> Result<Value> {
    let name = &claim.name;
    if is_reserved(name.as_str()) {
        return Err(failure::reserved(Operation::Acquire));
    }
    let GapMs { every, .. } = hub.settings.gap_ms;
    let names = &hub.names;
    let mut plan = names.plan(claim, session, asked_at);
    let mut has_set = false;
    if let Some(epoch) = plan.expect.filter(|_| every == 0) {
        match try_plain_commands(session, claim, epoch).await? {
            PlainAttempt::Granted => {
                names.granted_by_plain_commands(claim, epoch);
                return Ok(Value::Int(epoch.cast_signed()));
            }
            PlainAttempt::Unclear { lost_count, is_set } => {
                names.record_contention(name);
                plan.lift = lost_count;
                has_set = is_set;
            }
        }
    }
    let call = acquire_command(hub, session, claim, position, &plan, asked_at);
    let answer = session.call(Operation::Acquire, &ACQUIRE, &call).await;
    let answer = answer.map_err(|error| {
        if has_set {
            // The plain commands set the key before the script was refused.
            error.with_effect(Effect::Maybe)
        } else {
            error
        }
    })?;
    if plan.lift {
        names.lifted(name, session, asked_at);
    }
    match answer {
        // This is the same lease again.
        Value::Int(_) if plan.has_it => {}
        Value::Int(_) => names.granted(name, epoch_of(&answer)?),
        _ => names.record_contention(name),
    }
    Ok(answer)
}

/// The result of the plain commands.
enum PlainAttempt {
    Granted,
    /// We may have the lock, but without an epoch: the script must check.
    Unclear {
        lost_count: bool,
        /// Whether the commands set the key.
        is_set: bool,
    },
}

/// Acquires a lock that nobody seems to want with plain commands, which cost the server half as much as the script. Each command can fail,
/// and anything can happen between them. If an answer is not exactly as expected, the script takes over.
async fn try_plain_commands(
    session: &Arc<Session>,
    claim: &Claim,
    epoch: u64,
) -> Result<PlainAttempt> {
    let name = claim.name.as_str();
    let ttl = millis(claim.ttl);
    let (owner, since, label) = (claim.owner, unix_millis(), &claim.label);
    let mut commands = redis::Pipeline::with_capacity(3);
    let set = commands.cmd("SET").arg(name);
    set.arg(format!("{owner} ~{epoch} {ttl} {since} {label}"));
    set.arg("NX").arg("PX").arg(ttl);
    // With XX, `ZADD` does not recreate a counter that the server has forgotten. It would never expire if we died before the script set its
    // expiry.
    let count = commands.cmd("ZADD").arg(fence_of(name));
    count.arg("XX").arg("INCR").arg(1).arg(LAYOUT);
    commands.cmd("EXISTS").arg(line_of(name));
    let answers = session.send_all(&commands).await;
    let answers = answers.map_err(|cause| failure::of_command(Operation::Acquire, cause))?;
    let [set, counted, waiting] = answers.as_slice() else {
        return Err(failure::unexpected(Operation::Acquire, "too few answers"));
    };
    let is_expected = counted.integer() == Some(epoch.cast_signed());
    Ok(match (set, waiting.integer()) {
        (Value::Okay, Some(0)) if is_expected => PlainAttempt::Granted,
        _ => PlainAttempt::Unclear {
            lost_count: !is_expected,
            is_set: matches!(set, Value::Okay),
        },
    })
}

/// Returns the call of the script; `acquire_fast.lua` describes its arguments.
fn acquire_command(
    hub: &Hub,
    session: &Session,
    claim: &Claim,
    position: &LinePosition,
    plan: &RequestPlan,
    asked_at: Moment,
) -> Cmd {
    let (name, ttl) = (claim.name.as_str(), millis(claim.ttl));
    let GapMs { every, length } = hub.settings.gap_ms;
    let mut call = ACQUIRE.call(3);
    call.arg(name).arg(line_of(name)).arg(fence_of(name));
    call.arg(claim.owner.to_string()).arg(ttl);
    call.arg(format!("{ttl} {} {}", unix_millis(), claim.label));
    call.arg(u8::from(plan.lift || every > 0) + 2 * u8::from(plan.has_it));
    let LinePosition {
        times,
        ticket,
        member,
    } = position;
    call.arg(ticket).arg(member);
    let (live, stamp, channel) = (millis(times.live), stamp(asked_at), session.channel());
    call.arg(format!("{every} {length} {live} {stamp} {channel}"));
    call.arg(plan.floor).arg(hub.settings.keep_fences_ms);
    call
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

/// Returns the epoch of a grant, or an error that shows the actual answer.
fn epoch_of(answer: &Value) -> Result<u64> {
    let no_epoch = || failure::unexpected(Operation::Acquire, &format!("the epoch {answer:?}"));
    answer.epoch().ok_or_else(no_epoch)
}

pub(super) async fn acquire(hub: &Arc<Hub>, claim: &Claim, wait: &Wait) -> Result<Grant> {
    let waiter = hub.waiters.register(claim);
    let _attended = Attended(&waiter);
    let mut outage = Outage::default();
    loop {
        waiter.attend();
        match ask(hub, &waiter, wait.was_busy()).await {
            Ok(Outcome::Granted(grant)) => {
                hub.waiters.forget(claim.owner);
                return Ok(grant);
            }
            Ok(Outcome::Queued) => {
                wait.report_busy();
                outage.end();
                if let News::Granted(grant) = waiter.news().await
                    && is_good(hub, &waiter, &grant)
                {
                    hub.waiters.forget(claim.owner);
                    return Ok(grant);
                }
            }
            Err(error) => {
                if !wait.was_busy() && error.effect() == Effect::None {
                    hub.waiters.forget(claim.owner);
                }
                let is_transient = failure::is_transient(&error);
                let longest = hub.settings.max_outage;
                outage.after(error, wait, is_transient, longest).await?;
            }
        }
    }
}

/// Asks once for the lock of a waiter. A grant for an earlier request of the same owner may arrive before the answer.
async fn ask(hub: &Arc<Hub>, waiter: &LocalWaiter, is_in_line: bool) -> Result<Outcome> {
    let session = hub.session(Operation::Acquire).await?;
    let asked_at = BootClock.now();
    let position = waiter.position(&session, stamp(asked_at));
    let answer = tokio::select! {
        biased;
        grant = good_grant(hub, waiter) => return Ok(Outcome::Granted(grant)),
        answer = request(hub, &session, &waiter.claim, &position, asked_at) => answer?,
        // The caller limits the first request; only we can limit later ones.
        () = BootClock.sleep_until(asked_at + ANSWER_TIMEOUT), if is_in_line => {
            hub.give_up(&session);
            return Err(failure::unreachable(Operation::Acquire));
        }
    };
    if let Some(grant) = granted(&answer, &waiter.claim, asked_at)? {
        return Ok(Outcome::Granted(grant));
    }
    let number = |at: usize| answer.item(at).and_then(|item| item.integer());
    let advice = WaitAdvice {
        left: number(1).unwrap_or(-3),
        rank: 0,
        gap_left: number(2).unwrap_or(0),
    };
    let ticket = number(0).and_then(|ticket| u64::try_from(ticket).ok());
    let ticket = ticket.ok_or_else(|| failure::unexpected(Operation::Acquire, "no ticket"))?;
    let now = BootClock.now();
    let interval = if session.must_poll() {
        POLL
    } else {
        position.times.beat
    };
    let beat_at = advice.ask_at(now).min(now + interval);
    waiter.queued(ticket, beat_at);
    if session.is_down() {
        waiter.ask_again();
    }
    look_by(&session, beat_at);
    Ok(Outcome::Queued)
}

/// Waits for a grant that is still valid. An outdated grant means nothing; the answer that is on its way decides.
async fn good_grant(hub: &Hub, waiter: &LocalWaiter) -> Grant {
    loop {
        let grant = waiter.grant().await;
        if is_good(hub, waiter, &grant) {
            return grant;
        }
    }
}

/// Returns whether a grant is still valid and its epoch is larger than those we know. If not, asking again yields a better one.
fn is_good(hub: &Hub, waiter: &LocalWaiter, grant: &Grant) -> bool {
    let is_behind = hub.names.is_behind(&waiter.claim.name, grant.epoch);
    !is_behind && BootClock.now() < grant.valid_until()
}

/// Marks a waiter as attended while a future waits on it.
struct Attended<'a>(&'a LocalWaiter);

impl Drop for Attended<'_> {
    fn drop(&mut self) {
        self.0.abandon(BootClock.now());
    }
}

/// Renews with one command for every [`RENEWED_AT_ONCE`] claims; a locker passes no more than that in one call.
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

async fn renew_batch(session: &Arc<Session>, claims: &[Claim]) -> Vec<Result<Renewal>> {
    let mut call = RENEW.call(claims.len());
    for claim in claims {
        call.arg(claim.name.as_str());
    }
    for claim in claims {
        call.arg(claim.owner.to_string()).arg(millis(claim.ttl));
    }
    match session.call(Operation::Renew, &RENEW, &call).await {
        Ok(answer) => (0..claims.len())
            .map(|at| renewal(answer.item(at)))
            .collect(),
        Err(error) => all_failed(claims, &error),
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
    let session = hub.session(Operation::Release).await?;
    let waiter = hub.waiters.get(claim.owner);
    let member = waiter
        .and_then(|waiter| waiter.member())
        .unwrap_or_default();
    let name = &claim.name;
    let now = BootClock.now();
    let plan = hub.names.plan(claim, &session, now);
    let GapMs { every, length } = hub.settings.gap_ms;
    let mut call = RELEASE.call(3);
    call.arg(name.as_str())
        .arg(line_of(name.as_str()))
        .arg(fence_of(name.as_str()));
    call.arg(claim.owner.to_string());
    call.arg(u8::from(plan.lift) + 2 * u8::from(plan.has_it));
    call.arg(plan.floor).arg(hub.settings.keep_fences_ms);
    if every > 0 || !member.is_empty() {
        call.arg(every).arg(length).arg(member);
    }
    let answer = session.call(Operation::Release, &RELEASE, &call).await?;
    hub.waiters.forget(claim.owner);
    match answer.integer() {
        Some(1) => Ok(Release::Freed),
        Some(0 | 2) => Ok(Release::NotHeld),
        _ => Err(failure::unexpected(
            Operation::Release,
            &format!("{answer:?}"),
        )),
    }
}
