//! The keeper: one task per locker that renews every lease in time, and notices leases that ended.
//!
//! The keeper is not told of every acquisition, because that would cost a message each. It looks at what is held whenever something is due,
//! and an acquisition wakes it only if its lease is due before the keeper would look anyway. It never just waits for a store: while
//! [renewals] are in progress, it continues to look, to notice losses and to renew.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::alarm::{Alarm, Doubts};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::lease::{Lease, LostReason, Renewing};

mod renewals;

use renewals::{Renewals, apply_answers, longest_call};

/// How often a doubt may cause a renewal of the same lease at most.
const DOUBT_PAUSE: Duration = Duration::from_millis(100);

/// The leases that are held, sorted by what the keeper has to do about them.
struct LeasesToKeep {
    /// Those that have to be renewed now.
    due: Vec<Renewing>,
    /// Those that have ended.
    ended: Vec<Arc<Lease>>,
    /// When the keeper has to look again, because of the others.
    next_look: Moment,
}

/// Runs until the locker is shut down, or the locker and all its guards are gone.
pub(crate) async fn keep(weak: Weak<Engine>, alarm: Arc<Alarm>) {
    let mut idle_looks = 0;
    let mut renewals = Renewals::default();
    loop {
        let Some(engine) = weak.upgrade() else {
            return;
        };
        if engine.is_closed() {
            return;
        }
        let age = age_of_doubts(&engine);
        let leases = alarm.with_doubts(age, |doubts| sort_leases(&engine, doubts, &mut idle_looks));
        let next_look = leases.next_look;
        for lease in &leases.ended {
            let reason = lease.lost_at(engine.clock.now()).map(|lost| lost.reason());
            engine.lose(lease, reason.unwrap_or(LostReason::Expired));
        }
        for renewing in leases.due {
            renewals.add(renewing);
        }
        renewals.start(&engine);
        alarm.set(next_look);
        // A lease may have been granted between the look and the line above without ringing, so look once more.
        if first_due(&engine).is_some_and(|moment| moment < next_look) {
            continue;
        }
        drop(engine);
        until_next_look(&weak, &alarm, &mut renewals, next_look).await;
    }
}

/// Handles answers, and starts renewals that had to wait, until it is time to look.
async fn until_next_look(
    weak: &Weak<Engine>,
    alarm: &Alarm,
    renewals: &mut Renewals,
    mut next: Moment,
) {
    loop {
        let Some(engine) = weak.upgrade() else {
            return;
        };
        let until = renewals.urgent_at(&engine).map_or(next, |at| next.min(at));
        let clock = engine.clock.clone();
        drop(engine);
        let answered = tokio::select! {
            biased;
            answered = renewals.answered() => answered,
            () = alarm.rung() => return,
            () = clock.sleep_until(until) => return,
        };
        let Some(engine) = weak.upgrade() else {
            return;
        };
        let kept = apply_answers(&engine, answered);
        renewals.start(&engine);
        next = next.min(first_due_of(&engine, alarm, &kept));
        alarm.set(next);
    }
}

/// Returns when the first of these leases has to be looked at, after its renewal.
fn first_due_of(engine: &Engine, alarm: &Alarm, renewed: &[Renewing]) -> Moment {
    let age = age_of_doubts(engine);
    let first = alarm.with_doubts(age, |doubts| {
        let leases = renewed.iter().map(|renewing| &renewing.lease);
        let moments = leases.map(|lease| due_at(engine, lease, renew_at(lease, doubts)));
        moments.min()
    });
    first.unwrap_or(Moment::FAR)
}

/// Sorts the leases that are held into due, ended and later.
fn sort_leases(engine: &Engine, doubts: &Doubts, idle_looks: &mut u32) -> LeasesToKeep {
    let settings = &engine.settings;
    let now = engine.clock.now();
    let mut sorted = LeasesToKeep {
        due: Vec::new(),
        ended: Vec::new(),
        next_look: Moment::FAR,
    };
    let leases = engine.leases();
    // A busy locker holds something at most looks. The keeper goes to sleep for good only after a second empty look, which saves the next
    // acquisition from ringing.
    *idle_looks = if leases.is_empty() {
        *idle_looks + 1
    } else {
        0
    };
    if *idle_looks < 2 {
        sorted.next_look = now + settings.ttl / 3;
    }
    for lease in leases {
        if lease.lost_at(now).is_some() {
            sorted.ended.push(lease);
            continue;
        }
        let renew_at = renew_at(&lease, doubts);
        let is_due = renew_at <= now || lease.renew_at() <= batch_due_by(&lease, now);
        if settings.keep_alive && is_due && !lease.is_being_renewed() {
            sorted.next_look = sorted.next_look.min(lease.valid_until());
            sorted.due.push(Renewing::new(lease));
        } else {
            sorted.next_look = sorted
                .next_look
                .min(due_at_unless_renewing(engine, &lease, renew_at));
        }
    }
    sorted
}

/// Returns how long a doubt matters: until the store was asked about every lease that it concerns.
fn age_of_doubts(engine: &Engine) -> Duration {
    longest_call(engine).max(DOUBT_PAUSE) * 2
}

/// Returns when a lease has to be renewed. A lease in doubt is renewed at once, unless the store was asked about it just before. A lease
/// whose last renewal failed waits for its next attempt, so that an unreachable store is not asked all the time.
fn renew_at(lease: &Lease, doubts: &Doubts) -> Moment {
    if lease.is_failing() || !doubts.concern(lease) {
        return lease.renew_at();
    }
    let pause = (lease.claim.ttl / 10).min(DOUBT_PAUSE);
    lease.renew_at().min(lease.asked_at() + pause)
}

/// Returns by when a lease must be due to be renewed together with the current batch. A lease that is due soon joins the batch, but one
/// whose renewal just failed, or that was just granted for a short time, waits for its own time.
fn batch_due_by(lease: &Lease, now: Moment) -> Moment {
    if lease.is_failing() || lease.is_cut_short() {
        now
    } else {
        now + lease.claim.ttl / 12
    }
}

/// Returns when a lease has to be looked at: to renew it, or to notice its end.
fn due_at(engine: &Engine, lease: &Lease, renew_at: Moment) -> Moment {
    if engine.settings.keep_alive {
        renew_at.min(lease.valid_until())
    } else {
        lease.valid_until()
    }
}

/// Returns when a lease has to be looked at. While it is being renewed, only its end matters.
fn due_at_unless_renewing(engine: &Engine, lease: &Lease, renew_at: Moment) -> Moment {
    if lease.is_being_renewed() {
        lease.valid_until()
    } else {
        due_at(engine, lease, renew_at)
    }
}

/// Returns when the first of all leases has to be looked at.
fn first_due(engine: &Engine) -> Option<Moment> {
    let leases = engine.leases();
    let moments = leases
        .iter()
        .map(|lease| due_at_unless_renewing(engine, lease, lease.renew_at()));
    moments.min()
}
