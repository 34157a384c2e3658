//! Keep-alive: one task per locker that has every lease renewed in time, and notices those that ended.
//!
//! It does not hear of every acquisition: that would cost a message each. It looks at what is held whenever something is
//! due, and acquisitions ring only when their lease is due before the keeper would look anyway. It never waits for a
//! store alone: while [renewals](renewals) are under way it goes on looking, losing and renewing.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::alarm::{Alarm, Doubts};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::lease::{Lease, LostReason, Renewing};

mod renewals;

use renewals::{Renewals, longest_call, note};

/// A lease in doubt is renewed at most this often because of the doubt.
const DOUBT_PAUSE: Duration = Duration::from_millis(100);

/// What the keeper saw when it looked.
struct Look {
    due: Vec<Renewing>,
    ended: Vec<Arc<Lease>>,
    next: Moment,
}

/// Runs until the locker is shut down, or it and all its guards are gone.
pub(crate) async fn keep(engine: Weak<Engine>, alarm: Arc<Alarm>) {
    let mut idle_looks = 0;
    let mut renewals = Renewals::default();
    loop {
        let Some(held) = engine.upgrade() else {
            return;
        };
        if held.is_closed() {
            return;
        }
        let age = age_of_doubts(&held);
        let look = alarm.with_doubts(age, |doubts| look(&held, doubts, &mut idle_looks));
        for lease in &look.ended {
            held.lose(lease, LostReason::Expired);
        }
        for renewing in look.due {
            renewals.add(renewing);
        }
        renewals.start(&held);
        alarm.set(look.next);
        // Between the look and the line above, a lease may have been granted that did not ring: look once more.
        if earliest(&held).is_some_and(|moment| moment < look.next) {
            continue;
        }
        drop(held);
        until_next_look(&engine, &alarm, &mut renewals, look.next).await;
    }
}

/// Takes answers, and starts renewals that had to wait, until it is time to look.
async fn until_next_look(
    engine: &Weak<Engine>,
    alarm: &Alarm,
    renewals: &mut Renewals,
    mut next: Moment,
) {
    loop {
        let Some(held) = engine.upgrade() else {
            return;
        };
        let until = renewals.hurry_at(&held).map_or(next, |at| next.min(at));
        let clock = held.clock.clone();
        drop(held);
        let answered = tokio::select! {
            biased;
            answered = renewals.answered() => answered,
            () = alarm.rung() => return,
            () = clock.sleep_until(until) => return,
        };
        let Some(held) = engine.upgrade() else {
            return;
        };
        let kept = note(&held, answered);
        renewals.start(&held);
        next = next.min(next_of(&held, alarm, &kept));
        alarm.set(next);
    }
}

/// When the first of these leases is to be looked at, once its renewal is over.
fn next_of(engine: &Engine, alarm: &Alarm, renewed: &[Renewing]) -> Moment {
    let age = age_of_doubts(engine);
    let first = alarm.with_doubts(age, |doubts| {
        let leases = renewed.iter().map(|renewing| &renewing.lease);
        let moments = leases.map(|lease| look_at(engine, lease, renew_at(lease, doubts)));
        moments.min()
    });
    first.unwrap_or(Moment::FAR)
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
        if settings.keep_alive && is_due && !lease.is_being_renewed() {
            look.next = look.next.min(lease.valid_until());
            look.due.push(Renewing::new(lease));
        } else {
            look.next = look
                .next
                .min(unless_being_renewed(engine, &lease, renew_at));
        }
    }
    look
}

/// How long a doubt matters: until every lease that it concerns was asked about after it.
fn age_of_doubts(engine: &Engine) -> Duration {
    longest_call(engine).max(DOUBT_PAUSE) * 2
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

/// Its renewal is over when the answer comes; until then only its end matters.
fn unless_being_renewed(engine: &Engine, lease: &Lease, renew_at: Moment) -> Moment {
    match lease.is_being_renewed() {
        true => lease.valid_until(),
        false => look_at(engine, lease, renew_at),
    }
}

fn earliest(engine: &Engine) -> Option<Moment> {
    let leases = engine.leases();
    let moments = leases
        .iter()
        .map(|lease| unless_being_renewed(engine, lease, lease.renew_at()));
    moments.min()
}
