//! The scripts in which a server misbehaves and lives on.

use std::time::Duration;

use super::{
    A, Act, B, MARGIN, MEETING, PAUSE, RoadEvent, ServerEvent, before_kill, read, try_once,
    until_recovered, until_stuck, write,
};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, SECOND_LOCK, Trial};
use crate::protocol::{Action, Claims};

/// B, which was refused before, asks again when the server may have ended A's lease. If B gets the lock, A writes right after it.
///
/// Nobody tells A of the loss, and a lock that renews its lease does not ask so soon. If B is refused, A writes after a while.
pub(super) fn lost_lock(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let (read, write, release) = (read(key), write(key), Act::Release { key });
    let meeting = trial.ttl() / 8;
    vec![
        vec![
            at_once(key),
            read,
            Act::After(B, 3),
            Act::Meet(B, 7, meeting),
            write,
            release,
        ],
        vec![
            Act::After(A, 2),
            Act::Try { key },
            Act::Servers(ServerEvent::Misbehave),
            Act::Acquire {
                key,
                wait: until_stuck(trial),
            },
            read,
            Act::Work(chance.about(PAUSE) / 2),
            write,
            // Both processes still hold the lock when the second one has written, so that the overlap is visible.
            Act::Meet(A, 5, meeting),
            Act::Work(PAUSE),
            release,
        ],
    ]
}

/// The lab takes A's lock away, and B, which was refused before, gets it.
///
/// A lock that claims nothing writes right after that. One that claims to tell a loss has as long as it claims, and some slack: only then is A
/// asked to write, and once more when B has released the lock and A may have got it back behind its own back.
pub(super) fn taken_away(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let Some(bound_ms) = claims.tells_loss_ms else {
        return lost_lock(trial, chance);
    };
    let key = FIRST_LOCK;
    let bound = Duration::from_millis(bound_ms).min(LONGEST_BOUND);
    let slack = (bound / 2).max(Duration::from_secs(1));
    let write = Act::StepIfHeld {
        key,
        action: Action::Write,
    };
    vec![
        vec![
            at_once(key),
            read(key),
            Act::After(B, 3),
            Act::Meet(B, 4, trial.ttl()),
            Act::Work(bound + slack + MARGIN),
            write,
            Act::After(B, 9),
            Act::Work(trial.ttl()),
            write,
            Act::ReleaseIfHeld { key },
        ],
        vec![
            Act::After(A, 2),
            Act::Try { key },
            Act::Servers(ServerEvent::Misbehave),
            Act::Acquire {
                key,
                wait: until_stuck(trial),
            },
            read(key),
            Act::Work(chance.about(PAUSE) / 2),
            self::write(key),
            Act::After(A, 6),
            Act::Release { key },
        ],
    ]
}

/// A copy of the server takes over while A holds the lock. A stays with the old primary, and B moves on to the new one.
///
/// A lock that claims to last longer than its lease has as long as it claims to tell a loss, otherwise a lease, and some slack: only then is A
/// asked to write. It does not release the lock, because nobody confirms that any more.
pub(super) fn deposed(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let bound = claims.tells_loss_ms.map(Duration::from_millis);
    let bound = bound.unwrap_or(trial.ttl()).min(LONGEST_BOUND);
    let slack = (bound / 2).max(Duration::from_secs(1));
    let wait = until_stuck(trial) + trial.ttl();
    let lasts = claims.keep_alive || claims.untimed;
    let is_covered = lasts || claims.fencing || claims.tells_loss_ms.is_some();
    let mut holder = vec![
        at_once(key),
        read(key),
        Act::After(B, 2),
        Act::Road(RoadEvent::StayAtFirst),
        Act::Servers(ServerEvent::Misbehave),
        Act::Meet(B, B_HAS_WRITTEN, wait + MEETING),
    ];
    if is_covered {
        holder.extend([
            Act::Work(bound + slack + MARGIN),
            Act::StepIfHeld {
                key,
                action: Action::Write,
            },
        ]);
    }
    let other = vec![
        Act::After(A, 2),
        Act::Try { key },
        Act::After(A, 5),
        Act::Road(RoadEvent::MoveOn),
        Act::Work(chance.about(PAUSE)),
        // Another lock, so that its connection is open again.
        try_once(SECOND_LOCK),
        Act::ReleaseIfHeld { key: SECOND_LOCK },
        Act::Acquire { key, wait },
        read(key),
        Act::Work(chance.about(PAUSE) / 2),
        write(key),
        Act::AfterAll(A),
        Act::ReleaseIfHeld { key },
    ];
    vec![holder, other]
}

/// In that trial: how many acts B has done when it has written.
const B_HAS_WRITTEN: usize = 11;

/// No loss is waited for longer than this, whatever a lock claims.
const LONGEST_BOUND: Duration = Duration::from_secs(60);

/// The clock of the server jumps back while A holds the lock. Then A dies, and B waits as long as a dead holder may keep it.
pub(super) fn clock_back(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let key = FIRST_LOCK;
    let work = before_kill(trial, chance);
    vec![
        vec![
            at_once(key),
            read(key),
            Act::After(B, 3),
            Act::Work(work / 4),
            Act::Kill,
        ],
        vec![
            Act::After(A, 2),
            Act::Try { key },
            Act::Servers(ServerEvent::Misbehave),
            Act::AfterAll(A),
            Act::Acquire {
                key,
                wait: until_recovered(trial, claims),
            },
            // Whatever the answer is, the lab looks at the store.
        ],
    ]
}

fn at_once(key: &'static str) -> Act {
    Act::Acquire {
        key,
        wait: Duration::ZERO,
    }
}
