//! What every process of a lock trial is asked to do, act by act.

use std::time::Duration;

use crate::holds::{FIRST, SECOND, Scenario, Trial};
use crate::protocol::{Action, Claims};
use crate::store::redis::IDLE_CONNECTION;

/// The processes, by their index.
pub const NAMES: [&str; 3] = ["A", "B", "C"];
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// How long everybody works where the length is not the question.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the holder works before it is killed, at most.
const BEFORE_KILL: Duration = Duration::from_millis(300);
/// How long two who may both be inside wait for each other.
const MEETING: Duration = Duration::from_secs(2);
/// Waits end somewhat after three TTLs, so that three TTLs have passed for certain.
const MARGIN: Duration = Duration::from_millis(20);

/// A database looks for deadlocks only after a while (Postgres: a second, unless told otherwise).
const UNTIL_DETECTED: Duration = Duration::from_secs(5);

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Act {
    /// Take the lock, waiting for it; whoever does not get it is done.
    Acquire { key: &'static str, wait: Duration },
    /// The same at once, stopping between the lock's own steps where it has several.
    AcquireStepwise { key: &'static str },
    /// Take the lock, stopping after its first step on the way to waiting.
    AcquirePaused { key: &'static str, wait: Duration },
    /// Try once. Whoever gets the lock is done with its script; whoever does not goes on.
    Try { key: &'static str },
    /// A step on the number, under the hold of this lock.
    Step { key: &'static str, action: Action },
    /// Do nothing for a while.
    Work(Duration),
    /// Give the lock back.
    Release { key: &'static str },
    /// The same, stopping between the lock's own steps.
    ReleaseStepwise { key: &'static str },
    /// The lab kills the process.
    Kill,
    /// The lab stops the process.
    Stop,
    /// The lab continues it, and waits for what it still has to answer.
    Continue,
    /// Buy one unit; whoever gets an answer other than "busy" is done.
    Buy { wait: Duration },
    /// The lab puts units in.
    Restock(i64),
    /// The lab does this to the servers.
    Turn(Turn),
    /// Wait until another process has done so many acts, or all of its own.
    After(usize, usize),
    /// The same, but no longer than so.
    Meet(usize, usize, Duration),
    /// Wait until another process has done all it was to do.
    AfterAll(usize),
}

/// What happens to the servers of a trial that has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    CutOff,
    Kill,
    ServeAgain,
}

const fn read(key: &'static str) -> Act {
    let action = Action::Read;
    Act::Step { key, action }
}

const fn write(key: &'static str) -> Act {
    let action = Action::Write;
    Act::Step { key, action }
}

/// The scripts of a trial, one for each process, of a lock that promises this.
pub(super) fn scripts(trial: &Trial, claims: Claims) -> Vec<Vec<Act>> {
    match trial.scenario {
        Scenario::Crash if claims.ends_with_holder() => crash_of_session(trial),
        Scenario::Crash => crash(trial),
        Scenario::TtlEdge => ttl_edge(trial),
        Scenario::Deadlock => deadlock(trial, claims),
        Scenario::Sorted => sorted(trial),
        Scenario::StaleRelease => stale_release(trial, claims),
        Scenario::ShortStock => short_stock(trial),
        Scenario::Failover | Scenario::RestartEmpty => lost_store(trial),
        Scenario::LostWakeup => lost_wakeup(trial, claims),
    }
}

/// After so long without the lock, nobody will ever have it.
fn for_ever(trial: &Trial) -> Duration {
    3 * trial.ttl() + MARGIN
}

fn crash(trial: &Trial) -> Vec<Vec<Act>> {
    // Well within the lease, or the kill would show nothing.
    let work = BEFORE_KILL.min(trial.ttl() / 3);
    let key = FIRST;
    let wait = for_ever(trial);
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

/// A lock that is free the moment its holder is gone keeps nobody out afterwards: that it did is shown before.
fn crash_of_session(trial: &Trial) -> Vec<Vec<Act>> {
    let work = BEFORE_KILL.min(trial.ttl() / 3);
    let key = FIRST;
    let wait = for_ever(trial);
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

fn ttl_edge(trial: &Trial) -> Vec<Vec<Act>> {
    let key = FIRST;
    let work = Duration::from_millis(trial.work_ms);
    let wait = work + for_ever(trial);
    let at_once = Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    vec![
        vec![at_once, read, Act::Work(work), write, release],
        vec![
            Act::After(A, 2),
            Act::Acquire { key, wait },
            read,
            write,
            release,
        ],
    ]
}

fn deadlock(trial: &Trial, claims: Claims) -> Vec<Vec<Act>> {
    let way = |mine, other, theirs| {
        let mut wait = for_ever(trial);
        if claims.ends_with_holder() {
            wait = wait.max(UNTIL_DETECTED);
        }
        vec![
            Act::Acquire {
                key: mine,
                wait: Duration::ZERO,
            },
            Act::After(other, 1),
            Act::Work(PAUSE),
            Act::Acquire { key: theirs, wait },
            // The number asks for the fence of one of the two locks, or it could not compare them.
            read(FIRST),
            Act::Work(PAUSE),
            // Whether both are let in is the question; if so, they meet.
            Act::Meet(other, 5, trial.ttl() / 2),
            write(FIRST),
            Act::Release { key: theirs },
            Act::Release { key: mine },
        ]
    };
    vec![way(FIRST, B, SECOND), way(SECOND, A, FIRST)]
}

fn sorted(trial: &Trial) -> Vec<Vec<Act>> {
    let way = |wait| {
        vec![
            Act::Acquire { key: FIRST, wait },
            Act::Work(PAUSE),
            Act::Acquire {
                key: SECOND,
                wait: for_ever(trial),
            },
            read(FIRST),
            Act::Work(PAUSE),
            write(FIRST),
            Act::Release { key: SECOND },
            Act::Release { key: FIRST },
        ]
    };
    let mut second = way(for_ever(trial));
    second.insert(0, Act::After(A, 1));
    vec![way(Duration::ZERO), second]
}

fn stale_release(trial: &Trial, claims: Claims) -> Vec<Vec<Act>> {
    let key = FIRST;
    let wait = 2 * for_ever(trial);
    let (read, write) = (read(key), write(key));
    let at_once = Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    let mut paused = vec![at_once, read, write];
    // What has no lease is not had by anybody else while its holder is paused: nobody waits for that.
    let others = if claims.untimed { B_ASKS } else { B_READS };
    let beyond = [
        Act::Work(trial.ttl() + MARGIN),
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

/// B has come to ask, in the trial of a late release.
const B_ASKS: usize = 1;
/// B has the lock there, and has begun to work.
const B_READS: usize = 3;

fn short_stock(trial: &Trial) -> Vec<Vec<Act>> {
    let (at_once, wait) = (Duration::ZERO, for_ever(trial));
    vec![
        vec![Act::Buy { wait: at_once }],
        vec![
            Act::AfterAll(A),
            Act::Restock(1),
            Act::Buy { wait: at_once },
            Act::Buy { wait },
        ],
    ]
}

/// A holds the lock while the store fails and comes back; B, who was kept out before, asks again.
///
/// A works until B has written, and a little longer, so that a lock that hears of the loss has the time to say so, and one that only renews
/// has not; where B is kept out, until it has waited for a while.
fn lost_store(trial: &Trial) -> Vec<Vec<Act>> {
    let (key, hearing) = (FIRST, trial.ttl() / 5);
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let meeting = MEETING.min(trial.ttl() / 4);
    let at_once = Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    let wait = for_ever(trial);
    vec![
        vec![
            Act::Turn(Turn::CutOff),
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
            Act::Turn(Turn::Kill),
            Act::Turn(Turn::ServeAgain),
            Act::Acquire { key, wait },
            read,
            Act::Work(PAUSE),
            write,
            // So that both still hold it when the second of them has written, for everybody to see.
            Act::Meet(A, 7, meeting),
            Act::Work(PAUSE),
            release,
        ],
    ]
}

/// A gives the lock back while B is on its way to waiting for it.
fn lost_wakeup(trial: &Trial, claims: Claims) -> Vec<Vec<Act>> {
    let (key, wait) = (FIRST, for_ever(trial) + PAUSE + MARGIN);
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let at_once = Act::Acquire {
        key,
        wait: Duration::ZERO,
    };
    let mut first = vec![at_once, read];
    let (last, waiting) = if claims.looks_before_wait {
        (
            // Not before B has looked: what A writes would stand in the picture anywhere between what B does.
            vec![Act::After(B, 2), write, release],
            vec![
                Act::AcquirePaused { key, wait },
                Act::AfterAll(A),
                Act::Continue,
            ],
        )
    } else {
        (
            vec![write, Act::After(B, 1), Act::Work(PAUSE), release],
            vec![Act::Acquire { key, wait }],
        )
    };
    first.extend(last);
    let mut next = vec![Act::After(A, 2)];
    next.extend(waiting);
    next.extend([read, write, release]);
    vec![first, next]
}
