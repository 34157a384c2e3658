//! Heartbeats of waiters: one task per connection, and one command for up to 64 waiters.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;

use super::hub::Hub;
use super::keys::line_of;
use super::scripts::{BEAT, ReadValue, millis, stamp};
use super::session::Session;
use super::settings::GapMs;
use super::waiting::{LinePosition, LocalWaiter, POLL, WAITER_LEASE};
use crate::claim::Grant;
use crate::clock::{BootClock, Clock, Moment, within};
use crate::error::Operation;
use crate::stores::kit::silence::ANSWER_TIMEOUT;

/// How many waiters share a command. This keeps the server's longest pause well below a millisecond.
const WAITERS_PER_COMMAND: usize = 64;
/// After the lock's own end, the first waiter asks, and each one behind it this much later in case those ahead are dead.
const BEHIND: Duration = Duration::from_millis(5);
/// The server rounds times to milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);

/// Runs as long as the connection works and the hub exists.
pub(super) async fn run(hub: Weak<Hub>, session: Arc<Session>) {
    let served = ServedSession { hub, session };
    let session = &served.session;
    while !session.is_down() {
        let Some(hub) = served.hub.upgrade() else {
            return;
        };
        let now = BootClock.now();
        let next = next_beat(&hub);
        if next <= now {
            beat(&hub, session, now).await;
            continue;
        }
        session.next_look.store(next.as_nanos(), Ordering::SeqCst);
        // A waiter may have come between the check and the line above, without ringing.
        if next_beat(&hub) < next {
            continue;
        }
        drop(hub);
        tokio::select! {
            () = session.wake.notified() => {}
            () = BootClock.sleep_until(next) => {}
        }
    }
}

/// Belongs to a task that serves the connection, and announces when the task ends, including when its runtime ends.
struct ServedSession {
    hub: Weak<Hub>,
    session: Arc<Session>,
}

impl Drop for ServedSession {
    fn drop(&mut self) {
        match self.hub.upgrade() {
            Some(hub) => hub.give_up(&self.session),
            None => self.session.give_up(),
        }
    }
}

fn next_beat(hub: &Hub) -> Moment {
    let waiters = hub.waiters.all();
    let due = waiters.iter().filter_map(|waiter| waiter.beat_at());
    due.min().unwrap_or(Moment::FAR)
}

/// Wakes the task that sends heartbeats if it would sleep past `moment`, the latest time for a waiter's heartbeat.
pub(super) fn look_by(session: &Session, moment: Moment) {
    if moment.as_nanos() < session.next_look.load(Ordering::SeqCst) {
        session.wake.notify_one();
    }
}

/// A waiter whose heartbeat is due.
struct Due {
    waiter: Arc<LocalWaiter>,
    position: LinePosition,
}

async fn beat(hub: &Arc<Hub>, session: &Arc<Session>, now: Moment) {
    let due: Vec<Due> = hub
        .waiters
        .all()
        .into_iter()
        .filter_map(|waiter| due(waiter, now))
        .collect();
    let batches = due
        .chunks(WAITERS_PER_COMMAND)
        .map(|batch| ask(hub, session, batch));
    if within(&BootClock, now + ANSWER_TIMEOUT, join_all(batches))
        .await
        .is_none()
    {
        hub.give_up(session);
    }
}

/// Returns the waiter if its heartbeat is due now or soon; a heartbeat that is due soon is sent together with the others.
fn due(waiter: Arc<LocalWaiter>, now: Moment) -> Option<Due> {
    let at = waiter.beat_at()?;
    let soon = waiter.claim.ttl.min(WAITER_LEASE) / 16;
    if at > now + soon {
        return None;
    }
    let position = waiter.begin_beat(now)?;
    Some(Due { waiter, position })
}

async fn ask(hub: &Arc<Hub>, session: &Arc<Session>, batch: &[Due]) {
    let asked_at = BootClock.now();
    let GapMs { every, length } = hub.settings.gap_ms;
    let mut call = BEAT.call(batch.len() * 2);
    for Due { waiter, .. } in batch {
        let name = waiter.claim.name.as_str();
        call.arg(name).arg(line_of(name));
    }
    call.arg(stamp(asked_at)).arg(session.channel());
    call.arg(every.to_string()).arg(length.to_string());
    call.arg(hub.settings.keep_fences_ms);
    for Due { waiter, position } in batch {
        call.arg(waiter.claim.owner.to_string())
            .arg(&position.member);
        call.arg(millis(position.times.waiter_lease))
            .arg(millis(position.times.live));
        call.arg(hub.names.plan(&waiter.claim, session, asked_at).floor);
    }
    match session.call(Operation::Acquire, &BEAT, &call).await {
        Ok(answers) => {
            let mut behind_plain = Vec::new();
            for (due, answer) in batch.iter().zip(answers.items().unwrap_or_default()) {
                if tell(hub, session, due, answer, asked_at) {
                    behind_plain.push(due.waiter.clone());
                }
            }
            watch(session, behind_plain);
        }
        // Each waiter asks for itself, and gets the error itself.
        Err(error) => {
            tracing::debug!(%error, "a heartbeat was not answered");
            batch.iter().for_each(|due| due.waiter.ask_again());
        }
    }
}

/// Passes the server's answer to a waiter. Returns whether it is the first behind a plain client, whose release nobody announces.
fn tell(
    hub: &Hub,
    session: &Session,
    Due { waiter, position }: &Due,
    answer: &Value,
    asked_at: Moment,
) -> bool {
    let number = |at: usize| answer.item(at).and_then(|item| item.integer());
    match (answer, answer.epoch()) {
        (Value::Int(_), Some(epoch)) => {
            hub.names.saw(&waiter.claim.name, epoch);
            waiter.granted(Grant {
                epoch,
                asked_at,
                lease: position.times.waiter_lease,
            });
            false
        }
        // The waiter is not in line, or the number is not an epoch, which the waiter learns when it asks for itself.
        (Value::Int(_), None) => {
            waiter.ask_again();
            false
        }
        _ => {
            let advice = WaitAdvice {
                left: number(0).unwrap_or(-2),
                rank: number(1)
                    .and_then(|rank| u32::try_from(rank).ok())
                    .unwrap_or(0),
                gap_left: number(3).unwrap_or(0),
            };
            waiter.beat_by(advice.ask_at(BootClock.now()));
            let is_behind_plain = number(2) == Some(1) && advice.rank == 0;
            if session.must_poll() || (is_behind_plain && session.watched.is_impossible()) {
                waiter.beat_by(BootClock.now() + POLL);
                return false;
            }
            is_behind_plain
        }
    }
}

/// The server's answer to a waiter that has to keep waiting.
pub(super) struct WaitAdvice {
    /// Milliseconds until the lock ends by itself; negative if it does not, or if the server does not say.
    pub(super) left: i64,
    /// How many waiters are ahead of this one.
    pub(super) rank: u32,
    /// Milliseconds for which the lock stays free for others.
    pub(super) gap_left: i64,
}

impl WaitAdvice {
    /// Returns when it is worth asking again, because the lock may be free then without a notification.
    pub(super) fn ask_at(&self, now: Moment) -> Moment {
        let ends = [self.left, self.gap_left].into_iter().max().unwrap_or(0);
        match u64::try_from(ends) {
            Ok(left) if left > 0 => {
                now + Duration::from_millis(left) + ROUNDING + BEHIND * self.rank
            }
            _ => Moment::FAR,
        }
    }
}

/// Asks the server to announce when plain clients release these locks, unless it has been asked already. Heartbeats continue in the
/// meantime: on a slow network, or with many names, the answer takes longer than a heartbeat may.
fn watch(session: &Arc<Session>, mut waiters: Vec<Arc<LocalWaiter>>) {
    let key_of = |waiter: &Arc<LocalWaiter>| waiter.claim.name.as_str().to_owned();
    let new = session.watched.begin(waiters.iter().map(key_of));
    if new.is_empty() {
        return;
    }
    waiters.retain(|waiter| new.iter().any(|key| *key == waiter.claim.name.as_str()));
    let session = session.clone();
    tokio::spawn(async move {
        let now = BootClock.now();
        // A connection that stays silent is given up, and this task must not keep it alive.
        let watching = within(&BootClock, now + ANSWER_TIMEOUT, session.watch_all(&new));
        match watching.await.flatten() {
            Some(are_there) => {
                let waiters = waiters.iter().zip(are_there);
                for (waiter, _) in waiters.filter(|(_, is_there)| !is_there) {
                    session.watched.end([waiter.claim.name.as_str()]);
                    waiter.beat_by(now);
                }
            }
            None => {
                session.watched.end(new.iter().map(String::as_str));
                waiters.iter().for_each(|waiter| waiter.beat_by(now + POLL));
            }
        }
        session.wake.notify_one();
    });
}
