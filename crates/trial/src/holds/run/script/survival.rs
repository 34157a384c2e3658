//! The script of `trial failover` for a lock that claims to survive it.

use std::time::Duration;

use super::{A, Act, B, lost_store};
use crate::holds::run::chance::Chance;
use crate::holds::{SECOND_LOCK, Trial};

/// Returns the scripts. A shows first that it is granted a lock while the replica listens. Then the same happens as for any other lock, and a
/// lock that keeps its word refuses A while the replica is cut off.
///
/// B waits for longer than A holds the lock, but not for so long that a refusal would count as a lock that nobody can take: a lock that grants
/// nothing without a replica is not to blame.
pub(super) fn script(trial: &Trial, chance: &Chance) -> Vec<Vec<Act>> {
    let mut scripts = lost_store(trial, chance);
    let key = SECOND_LOCK;
    let at_once = Duration::ZERO;
    let shown = [Act::Acquire { key, wait: at_once }, Act::Release { key }];
    for act in &mut scripts[B] {
        match act {
            Act::After(process, acts) | Act::Meet(process, acts, _) if *process == A => {
                *acts += shown.len();
            }
            Act::Acquire { wait, .. } => *wait = 3 * trial.ttl() / 4,
            _ => {}
        }
    }
    scripts[A].splice(..0, shown);
    scripts
}
