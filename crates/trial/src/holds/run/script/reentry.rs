//! The script of `trial reentry`.

use std::time::Duration;

use super::{A, Act, B, C, PAUSE, read, try_once, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Claims;

/// A takes the lock, and asks for it again while B waits. A lock that is re-entrant is released twice, and C tries to get it in between. When B has
/// the lock, A releases it once more than it has taken it, and C tries again.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let (key, wait) = (FIRST_LOCK, 2 * until_stuck(trial));
    // B has its place in line by then, as far as the lab can tell.
    let place = Act::Work(chance.about(PAUSE));
    let (release, again) = (Act::Release { key }, Act::ReleaseAgain { key });
    let mut holder = vec![
        Act::Acquire {
            key,
            wait: Duration::ZERO,
        },
        read(key),
        try_once(key),
        Act::After(B, 1),
        place,
    ];
    let mut third = Vec::new();
    let mut probe = |holder: &mut Vec<Act>| {
        third.extend([
            Act::After(A, holder.len()),
            try_once(key),
            Act::ReleaseIfHeld { key },
        ]);
        holder.push(Act::After(C, third.len()));
    };
    if claims.reentrant {
        holder.push(release);
        probe(&mut holder);
        holder.extend([write(key), release, Act::After(B, B_HAS_READ), again]);
    } else {
        holder.extend([write(key), release, Act::After(B, B_HAS_READ), again]);
        probe(&mut holder);
        holder.push(again);
    }
    probe(&mut holder);
    let other = vec![
        Act::After(A, 3),
        Act::Acquire { key, wait },
        read(key),
        Act::After(C, third.len()),
        write(key),
        release,
    ];
    vec![holder, other, third]
}

/// How many acts B has done when it has the lock and has read.
const B_HAS_READ: usize = 3;
