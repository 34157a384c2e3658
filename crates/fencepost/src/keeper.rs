//! Keep-alive: one task per locker that renews every lease in batches, and notices those that ended.
//!
//! It does not hear of every acquisition: that would cost a message each. It looks at what is held whenever something is
//! due, and acquisitions ring only when their lease is due before the keeper would look anyway.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::alarm::{Alarm, Doubts};
use crate::backend::Renewal;
use crate::claim::Claim;
use crate::clock::Moment;
use crate::engine::{Engine, within};
use crate::error::{Operation, Result};
use crate::lease::{Lease, LostReason};

/// A lease in doubt is renewed at most this often because of the doubt.
const DOUBT_PAUSE: Duration = Duration::from_millis(100);

/// What the keeper saw when it looked.
struct Look {
    due: Vec<Arc<Lease>>,
    ended: Vec<Arc<Lease>>,
    next: Moment,
}

/// Runs until the locker is shut down, or it and all its guards are gone.
pub(crate) async fn keep(engine: Weak<Engine>, alarm: Arc<Alarm>) {
    let mut idle_looks = 0;
    loop {
        let Some(engine) = engine.upgrade() else {
            return;
        };
        if engine.is_closed() {
            return;
        }
        let age = longest_renewal(&engine) * 2;
        let look = alarm.with_doubts(age, |doubts| look(&engine, doubts, &mut idle_looks));
        for lease in &look.ended {
            engine.lose(lease, LostReason::Expired);
        }
        if !look.due.is_empty() {
            renew(&engine, &look.due).await;
            continue;
        }
        alarm.set(look.next);
        // Between the look and the line above, a lease may have been granted that did not ring: look once more.
        if earliest(&engine).is_some_and(|moment| moment < look.next) {
            continue;
        }
        let clock = engine.clock.clone();
        drop(engine);
        tokio::select! {
            () = alarm.rung() => {}
            () = clock.sleep_until(look.next) => {}
        }
    }
}

/// Sorts what is held into due, ended and later.
fn look(engine: &Engine, doubts: &Doubts, idle_looks: &mut u32) -> Look {
    let settings = &engine.settings;
    let now = engine.clock.now();
    let mut look = Look {
        due: Vec::new(),
        ended: Vec::new(),
        next: Moment::FAR,
    };
    let leases = engine.leases();
    // A busy locker holds something at most looks. Going to sleep for good only after a second empty look saves the
    // next acquisition from ringing.
    *idle_looks = if leases.is_empty() {
        *idle_looks + 1
    } else {
        0
    };
    if *idle_looks < 2 {
        look.next = now + settings.ttl / 3;
    }
    for lease in leases {
        if lease.lost_at(now).is_some() {
            look.ended.push(lease);
            continue;
        }
        let renew_at = renew_at(&lease, doubts);
        let is_due = renew_at <= now || lease.renew_at() <= renewed_along(&lease, now);
        if settings.keep_alive && is_due {
            look.due.push(lease);
        } else {
            look.next = look.next.min(look_at(engine, &lease, renew_at));
        }
    }
    look
}

/// When a lease is to be renewed. One in doubt is renewed at once, unless the store was asked about it just before; one
/// whose last renewal failed waits for its next attempt, so that a store that is away is not asked all the time.
fn renew_at(lease: &Lease, doubts: &Doubts) -> Moment {
    if lease.is_failing() || !doubts.concern(lease) {
        return lease.renew_at();
    }
    let pause = (lease.claim.ttl / 10).min(DOUBT_PAUSE);
    lease.renew_at().min(lease.asked_at() + pause)
}

/// What is due soon goes along in the same batch; but who has just been refused, or has just been granted the lock for a
/// short while, waits for its time.
fn renewed_along(lease: &Lease, now: Moment) -> Moment {
    match lease.is_failing() || lease.is_cut_short() {
        true => now,
        false => now + lease.claim.ttl / 12,
    }
}

fn look_at(engine: &Engine, lease: &Lease, renew_at: Moment) -> Moment {
    match engine.settings.keep_alive {
        true => renew_at.min(lease.valid_until()),
        false => lease.valid_until(),
    }
}

fn earliest(engine: &Engine) -> Option<Moment> {
    let leases = engine.leases();
    let moments = leases.iter();
    moments
        .map(|lease| look_at(engine, lease, lease.renew_at()))
        .min()
}

/// How long the keeper waits for the answer to a renewal.
fn longest_renewal(engine: &Engine) -> Duration {
    (engine.settings.ttl / 4).min(engine.settings.store_timeout)
}

/// Renews a batch. Gives up waiting for the answer when the first of its leases ends, or after a quarter of the TTL.
async fn renew(engine: &Arc<Engine>, due: &[Arc<Lease>]) {
    let claims: Vec<Claim> = due.iter().map(|lease| lease.claim.clone()).collect();
    let asked_at = engine.clock.now();
    for lease in due {
        lease.asking(asked_at);
    }
    let first_end = due
        .iter()
        .map(|lease| lease.valid_until())
        .min()
        .unwrap_or(asked_at);
    let until = first_end.min(asked_at + longest_renewal(engine));
    let answers = within(&*engine.clock, until, engine.backend.renew(&claims)).await;
    let now = engine.clock.now();
    match answers {
        Some(answers) => {
            let mut answers = answers.into_iter();
            for lease in due {
                let answer = answers.next();
                let answer = answer.unwrap_or_else(|| Err(engine.unanswered(Operation::Renew)));
                note(engine, lease, answer, asked_at, now);
            }
        }
        None => {
            for lease in due {
                note(
                    engine,
                    lease,
                    Err(engine.unanswered(Operation::Renew)),
                    asked_at,
                    now,
                );
            }
        }
    }
}

fn note(
    engine: &Arc<Engine>,
    lease: &Arc<Lease>,
    answer: Result<Renewal>,
    asked_at: Moment,
    now: Moment,
) {
    match answer {
        Ok(Renewal::Extended) => {
            engine.telemetry.renewed(lease.left(now));
            lease.renewed(asked_at, lease.claim.ttl);
        }
        Ok(Renewal::Lost) => {
            engine.telemetry.renewal_lost();
            engine.lose(lease, LostReason::Gone);
        }
        Err(error) => {
            engine.telemetry.renewal_failed();
            tracing::warn!(name = %lease.claim.name, %error, left = ?lease.left(now), "renewal failed");
            let pause = (lease.claim.ttl / 10).min(Duration::from_secs(1));
            lease.renewal_failed(error, now + pause);
        }
    }
}
