//! The scripts in which A is paused between its read and its write: `pause`, `suspend` and `write-only-fence`.

use std::time::Duration;

use super::sequence::{Sequence, after};
use super::takeover::{takes_over, until_overtaken};
use super::{A, Act, B, MARGIN, at_once, read, until_stuck, write};
use crate::holds::run::chance::Chance;
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Claims;

const KEY: &str = FIRST_LOCK;
const RELEASE: Act = Act::Release { key: KEY };

/// A reads, is stopped or suspended beyond its lease, and writes. If B gets the lock meanwhile, B is done before A goes on, so that A's write is
/// certainly a late one.
pub(super) fn script(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let mut acts = Sequence::of(2);
    let is_stopped = acts.add(A, [at_once(KEY), read(KEY), Act::Stop]);
    let b = takes_over(&mut acts, after(is_stopped), 2 * until_stuck(trial));
    let until_b = until_overtaken(trial, claims, b.asks, b.is_done);
    acts.add(A, [beyond(trial, chance), until_b, Act::Continue]);
    acts.add(A, [write(KEY), RELEASE]);
    acts.scripts()
}

/// A is stopped in the same way, and B takes over. But B only reads before A goes on, and writes when A has written, or declined to.
pub(super) fn write_only_fence(trial: &Trial, claims: Claims, chance: &Chance) -> Vec<Vec<Act>> {
    let (key, wait) = (KEY, 2 * until_stuck(trial));
    let mut acts = Sequence::of(2);
    let is_stopped = acts.add(A, [at_once(KEY), read(KEY), Act::Stop]);
    let asks = acts.add(B, [after(is_stopped)]);
    let has_read = acts.add(B, [Act::Acquire { key, wait }, read(KEY)]);
    let until_b = until_overtaken(trial, claims, asks, has_read);
    acts.add(A, [beyond(trial, chance), until_b, Act::Continue]);
    let has_written = acts.add(A, [write(KEY)]);
    acts.add(A, [RELEASE]);
    acts.add(B, [after(has_written), write(KEY), RELEASE]);
    acts.scripts()
}

/// A does nothing until its lease is certainly over or, in a search, for as long as the fault lasts.
fn beyond(trial: &Trial, chance: &Chance) -> Act {
    let beyond = trial.ttl() + MARGIN + chance.between(Duration::ZERO, trial.ttl() / 4);
    Act::Work(trial.length().unwrap_or(beyond))
}
