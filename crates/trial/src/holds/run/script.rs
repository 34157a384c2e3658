//! The scripts of lock trials: the sequence of acts for each process in each scenario.

use std::time::Duration;

use super::chance::Chance;
use crate::holds::{FIRST_LOCK, SECOND_LOCK, Scenario, Trial};
use crate::protocol::Claims;
use crate::store::redis::IDLE_CONNECTION;

mod act;
mod clocks;
mod deadline;
mod errors;
mod kept_alive;
mod late_write;
mod names;
mod network;
mod outage;
mod reentry;
mod releases;
mod same_pid;
mod sequence;
mod servers;
mod steps;
mod survival;
mod turns;
mod waiters;
mod wakeup;

use act::try_once;
pub(super) use act::{Act, RoadEvent, ServerEvent, read, write};

/// The names of the processes, by index.
pub const NAMES: [&str; 3] = ["A", "B", "C"];
/// The process that has the lock first, and to which most things happen.
pub(crate) const HOLDER: &str = NAMES[A];
/// The process that wants the lock as well.
pub(crate) const OTHER: &str = NAMES[B];
/// The process that tries last, in scenarios with three processes.
pub(crate) const THIRD: &str = NAMES[C];
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;

/// About how long each process works in scenarios that do not depend on it.
const PAUSE: Duration = Duration::from_millis(50);
/// How long, at most, the holder works before it is killed.
const BEFORE_KILL: Duration = Duration::from_millis(300);
/// How long two processes that may both hold the lock wait for each other.
const MEETING: Duration = Duration::from_secs(2);
/// How much longer than three TTLs a wait lasts, so that three TTLs have certainly passed.
const MARGIN: Duration = Duration::from_millis(20);

/// A database checks for deadlocks only after a while (Postgres: one second by default).
const UNTIL_DETECTED: Duration = Duration::from_secs(5);

/// No recovery is waited for longer than this, whatever a lock claims.
const LONGEST_RECOVERY: Duration = Duration::from_secs(60);

/// Returns the scripts of a trial, one per process, for a lock with these claims.
pub(super) fn scripts(trial: &Trial, claims: Claims) -> Vec<Vec<Act>> {
    let chance = &Chance::new(trial.seed);
    match trial.scenario {
        Scenario::Crash if claims.ends_with_holder() => crash_of_session(trial, claims, chance),
        Scenario::Crash => crash(trial, claims, chance),
        Scenario::TtlEdge => ttl_edge(trial, chance),
        Scenario::Deadlock => deadlock(trial, claims, chance),
        Scenario::Sorted => sorted(trial, chance),
        Scenario::StaleRelease => stale_release(trial, claims, chance),
        Scenario::ShortStock => short_stock(trial, chance),
        Scenario::Pause | Scenario::Suspend => pause(trial, claims, chance),
        Scenario::Failover if claims.survives => survival::script(trial, chance),
        Scenario::Failover | Scenario::RestartEmpty => lost_store(trial, chance),
        Scenario::ServerClock | Scenario::Eviction => servers::lost_lock(trial, chance),
        Scenario::TakenAway => servers::taken_away(trial, claims, chance),
        Scenario::Deposed => servers::deposed(trial, claims, chance),
        Scenario::ServerClockBack => servers::clock_back(trial, claims, chance),
        Scenario::ServerStall => outage::server_stall(trial, claims, chance),
        Scenario::MajorityDown => outage::majority_down(trial, claims, chance),
        Scenario::ClientClock => clocks::client_clock(trial, claims, chance),
        Scenario::Vanish => network::vanish(trial, claims, chance),
        Scenario::LostWakeup => wakeup::lost_wakeup(trial, claims, chance),
        Scenario::Names => names::script(trial, claims, chance),
        Scenario::Turns => turns::script(trial, chance),
        Scenario::Waiters => waiters::script(trial, claims, chance),
        Scenario::Deadline => deadline::script(trial, claims, chance),
        Scenario::Reentry => reentry::script(trial, claims, chance),
        Scenario::SamePid => same_pid::script(trial, claims, chance),
        Scenario::Cut => network::cut(trial, claims, chance),
        Scenario::SlowReplies => network::slow_replies(trial, claims, chance),
        Scenario::LostReply => network::lost_reply(trial, chance),
        Scenario::LostRelease => releases::lost(trial, chance),
        Scenario::FailedRenewal => kept_alive::failed_renewal(trial, claims, chance),
        Scenario::StoreErrors => errors::script(trial, claims, chance),
        Scenario::PauseAtStep => steps::pause_at_step(trial, claims, chance),
        Scenario::LateWrite => late_write::script(trial, chance),
        Scenario::WriteOnlyFence => read_first(trial, claims, chance),
        Scenario::ManyLeases => kept_alive::many_leases(trial, claims, chance),
        Scenario::DeadConnection => kept_alive::dead_connection(trial, claims, chance),
        // What its processes do is chosen while it goes on.
        Scenario::Storm => vec![Vec::new(); trial.processes()],
    }
}

/// Returns how long the holder works before it is killed. The kill must happen well within the lease; otherwise it shows nothing.
fn before_kill(trial: &Trial, chance: &Chance) -> Duration {
    let most = BEFORE_KILL.min(trial.ttl() / 3);
    chance.between(most / 2, most)
}

/// Returns the time after which a lock that nobody could take counts as stuck forever.
fn until_stuck(trial: &Trial) -> Duration {
    3 * trial.ttl() + MARGIN
}

/// Returns how long to wait for a dead holder's lock: longer than the lock claims to need, within reason.
pub(super) fn until_recovered(trial: &Trial, claims: Claims) -> Duration {
    let claimed = Duration::from_millis(claims.recovery_ms.unwrap_or(0)).min(LONGEST_RECOVERY);
    let slack = (claimed / 2).max(Duration::from_secs(1));
    match claims.recovery_ms {
        Some(_) => until_stuck(trial).max(claimed + slack + MARGIN),
        None => until_stuck(trial),
    }
}

fn crash(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let work = before_kill(trial, chance);
    let key = FIRST_LOCK;
    let wait = until_recovered(trial, claims);
    vec![
        vec![
            Act::AcquireStepwise { key },
            read(key),
            Act::Work(work),
            Act::Kill,
        ],
        vec![
            Act::AfterAll(A),
            Act::Try { key },
            Act::Acquire { key, wait },
        ],
    ]
}

/// Returns the scripts for a lock of a session. Such a lock is free as soon as its holder is gone, so it cannot be seen to exclude B after
/// the kill. The script shows that before.
fn crash_of_session(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let work = before_kill(trial, chance);
    let key = FIRST_LOCK;
    let wait = until_recovered(trial, claims);
    vec![
        vec![
            Act::AcquireStepwise { key },
            read(key),
            Act::After(B, 2),
            Act::Work(work),
            Act::Kill,
        ],
        vec![
            Act::After(A, 2),
            Act::Try { key },
            Act::AfterAll(A),
            Act::Acquire { key, wait },
        ],
    ]
}

fn ttl_edge(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    // Well within the lease, so that B has to wait.
    let until_asked = chance.between(Duration::ZERO, trial.ttl() / 10);
    let work = Duration::from_millis(trial.work_ms);
    let wait = work + until_stuck(trial);
    let at_once = Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    vec![
        vec![at_once, read, Act::Work(work), write, release],
        vec![
            Act::After(A, 2),
            Act::Work(until_asked),
            Act::Acquire { key, wait },
            read,
            write,
            release,
        ],
    ]
}

fn deadlock(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let way = |mine, other, theirs| {
        // The cycle closes with the second request and ends with the first refusal. The pauses before the requests differ by up to `PAUSE`.
        let mut wait = until_stuck(trial) + PAUSE;
        if claims.ends_with_holder() {
            wait = wait.max(UNTIL_DETECTED);
        }
        vec![
            Act::Acquire {
                key: mine,
                wait: Duration::ZERO,
            },
            Act::After(other, 1),
            Act::Work(chance.about(PAUSE)),
            Act::Acquire { key: theirs, wait },
            // The number checks the fence of only one of the two locks; it could not compare fences of different locks.
            read(FIRST_LOCK),
            Act::Work(chance.about(PAUSE)),
            // The question is whether both get both locks. If so, they meet here.
            Act::Meet(other, 5, trial.ttl() / 2),
            write(FIRST_LOCK),
            Act::Release { key: theirs },
            Act::Release { key: mine },
        ]
    };
    vec![
        way(FIRST_LOCK, B, SECOND_LOCK),
        way(SECOND_LOCK, A, FIRST_LOCK),
    ]
}

fn sorted(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let way = |wait| {
        vec![
            Act::Acquire {
                key: FIRST_LOCK,
                wait,
            },
            Act::Work(chance.about(PAUSE)),
            Act::Acquire {
                key: SECOND_LOCK,
                wait: until_stuck(trial),
            },
            read(FIRST_LOCK),
            Act::Work(chance.about(PAUSE)),
            write(FIRST_LOCK),
            Act::Release { key: SECOND_LOCK },
            Act::Release { key: FIRST_LOCK },
        ]
    };
    let mut second = way(until_stuck(trial));
    second.insert(0, Act::After(A, 1));
    vec![way(Duration::ZERO), second]
}

fn stale_release(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let wait = 2 * until_stuck(trial);
    let (read, write) = (read(key), write(key));
    let at_once = Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    let mut paused = vec![at_once, read, write];
    // Without a lease, nobody else gets the lock while its holder is paused, so the script does not wait for that.
    let others = if claims.untimed { B_ASKS } else { B_READS };
    let beyond = [
        Act::Work(trial.ttl() + MARGIN + chance.between(Duration::ZERO, trial.ttl() / 4)),
        Act::After(B, others),
        Act::Continue,
    ];
    if claims.looks_before_release {
        paused.push(Act::ReleaseStepwise { key });
        paused.extend(beyond);
    } else {
        paused.push(Act::Stop);
        paused.extend(beyond);
        paused.push(Act::Release { key });
    }
    vec![
        paused,
        vec![
            Act::After(A, 4),
            Act::Acquire { key, wait },
            read,
            Act::AfterAll(C),
            write,
            Act::Release { key },
        ],
        vec![
            Act::AfterAll(A),
            Act::After(B, B_READS),
            at_once,
            read,
            write,
            Act::Release { key },
        ],
    ]
}

/// In the trial of a late release: the act at which B asks for the lock.
const B_ASKS: usize = 1;
/// In the trial of a late release: the act at which B has the lock and starts to work.
const B_READS: usize = 3;

fn short_stock(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let (at_once, wait) = (Duration::ZERO, until_stuck(trial));
    vec![
        vec![Act::Buy { wait: at_once }],
        vec![
            Act::AfterAll(A),
            Act::Restock(1),
            Act::Work(chance.between(Duration::ZERO, PAUSE.min(trial.ttl() / 10))),
            Act::Buy { wait: at_once },
            Act::Buy { wait },
        ],
    ]
}

/// A reads, is stopped or suspended beyond its lease, and writes. If B gets the lock meanwhile, B is done before A goes on, so that A's write is
/// certainly a late one.
fn pause(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let (key, wait) = (FIRST_LOCK, 2 * until_stuck(trial));
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let at_once = Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    let beyond = trial.ttl() + MARGIN + chance.between(Duration::ZERO, trial.ttl() / 4);
    // Without a lease or a session that could end, nobody else gets the lock while its holder is paused, so the script only
    // waits until B has asked.
    let until_b = if trial.length().is_some() {
        Act::Work(Duration::ZERO)
    } else if claims.untimed && !claims.ends_with_holder() {
        Act::After(B, 1)
    } else {
        Act::Meet(B, 5, 2 * trial.ttl())
    };
    vec![
        vec![
            at_once,
            read,
            Act::Stop,
            Act::Work(trial.length().unwrap_or(beyond)),
            until_b,
            Act::Continue,
            write,
            release,
        ],
        takes_over(key, wait),
    ]
}

/// A is stopped as in `pause`, and B takes over. But B only reads before A goes on, and writes when A has written.
fn read_first(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let mut scripts = pause(trial, claims, chance);
    let (holder, other) = (&mut scripts[A], B_HAS_READ);
    for act in holder.iter_mut() {
        if let Act::Meet(process, acts, _) = act {
            (*process, *acts) = (B, other);
        }
    }
    scripts[B].insert(B_HAS_READ, Act::After(A, A_HAS_WRITTEN));
    scripts
}

/// In that trial: how many acts B has done when it has read.
const B_HAS_READ: usize = 3;
/// In that trial: how many acts A has done when it has written, or declined to.
const A_HAS_WRITTEN: usize = 7;

/// A holds the lock while the store fails and comes back. B, which was refused before, asks again.
///
/// A works until B has written, and a little longer. That is enough time for a lock that is notified of the loss to report it,
/// but not for one that only renews. If B is refused, A works until B has waited for a while.
fn lost_store(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let (key, hearing) = (FIRST_LOCK, trial.ttl() / 5);
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let meeting = MEETING.min(trial.ttl() / 4);
    let at_once = Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    let wait = until_stuck(trial);
    vec![
        vec![
            Act::Servers(ServerEvent::CutOff),
            at_once,
            read,
            Act::After(B, 5),
            Act::Meet(B, 9, meeting),
            Act::Work(hearing),
            write,
            release,
        ],
        vec![
            Act::After(A, 3),
            Act::Try { key },
            Act::Work(2 * IDLE_CONNECTION),
            Act::Servers(ServerEvent::Kill),
            Act::Servers(ServerEvent::ServeAgain),
            Act::Acquire { key, wait },
            read,
            Act::Work(chance.about(PAUSE)),
            write,
            // Both processes still hold the lock when the second one has written, so that the overlap is visible.
            Act::Meet(A, 7, meeting),
            Act::Work(PAUSE),
            release,
        ],
    ]
}

/// Returns what B does while A is away: it waits for the lock, adds 1 to the number, and releases the lock.
fn takes_over(key: &'static str, wait: Duration) -> Vec<Act> {
    vec![
        Act::After(A, 3),
        Act::Acquire { key, wait },
        read(key),
        write(key),
        Act::Release { key },
    ]
}

#[cfg(test)]
mod tests;
