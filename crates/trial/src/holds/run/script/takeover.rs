//! How B takes over while A is away, and how A waits for that.

use std::time::Duration;

use super::sequence::{Milestone, Sequence, after, meet};
use super::{Act, B, read, write};
use crate::holds::{FIRST_LOCK, Trial};
use crate::protocol::Claims;

/// How far B is when it takes over.
pub(super) struct Takeover {
    /// When it asks for the lock.
    pub(super) asks: Milestone,
    /// When it has released the lock.
    pub(super) is_done: Milestone,
}

/// Adds what B does when A is away, which this act waits for: it waits for the lock, adds 1 to the number, and releases the lock.
pub(super) fn takes_over(acts: &mut Sequence, until_away: Act, wait: Duration) -> Takeover {
    let key = FIRST_LOCK;
    let asks = acts.add(B, [until_away]);
    let is_done = acts.add(
        B,
        [
            Act::Acquire { key, wait },
            read(key),
            write(key),
            Act::Release { key },
        ],
    );
    Takeover { asks, is_done }
}

/// Returns the act with which A waits until B has the lock and comes this far. Without a lease or a session that could end, nobody else gets
/// the lock while its holder is away, so the script only waits until B has asked.
pub(super) fn until_overtaken(
    trial: &Trial,
    claims: Claims,
    asks: Milestone,
    comes_to: Milestone,
) -> Act {
    // In a search, the length of the fault alone decides.
    if trial.length().is_some() {
        return Act::Work(Duration::ZERO);
    }
    if claims.untimed && !claims.belongs_to_session() {
        after(asks)
    } else {
        meet(comes_to, 2 * trial.ttl())
    }
}
