//! How long the server of a shared connection may be silent before the connection is given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{BootClock, Clock, Moment, nanos};
use crate::error::Operation;

/// How long a request on a connection may stay unanswered before the connection is given up. This is longer than ordinary delays of a
/// server (a fork, a slow command of another client), and shorter than most callers' timeouts.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The same limit for a renewal. It is shorter, because the lock is at stake and there should be time for another attempt over another
/// connection, even with a short TTL. Replacing a connection without need costs little.
const MIN_RENEWAL_TIMEOUT: Duration = Duration::from_millis(250);
/// How many usual answer times a renewal may take, because on a slow network or from a busy server answers and new connections take longer.
const RENEWAL_TIMEOUT_ANSWERS: u32 = 4;

/// What one connection has heard from its server, and what it still waits for.
#[derive(Debug)]
pub(crate) struct Silence {
    connected_at: Moment,
    /// When the oldest request was sent that was neither answered nor is waited for any more; 0 if there is none.
    unanswered_since: AtomicU64,
    /// When something was last read, in nanoseconds of a [`Moment`].
    heard_at: Arc<AtomicU64>,
    /// How long answers take at present, in nanoseconds. It follows the slowest answer up at once, and goes down slowly.
    answer_ns: AtomicU64,
}

impl Silence {
    /// Begins with a connection whose server took this long to answer. Whoever reads messages that answer no request may
    /// store the time of each in `heard_at`, as Redis does.
    pub(crate) fn new(heard_at: Arc<AtomicU64>, round_trip: Duration) -> Self {
        Self {
            connected_at: BootClock.now(),
            unanswered_since: AtomicU64::new(0),
            heard_at,
            answer_ns: AtomicU64::new(nanos(round_trip)),
        }
    }

    /// Records that the request sent at `asked_at` was just answered.
    pub(crate) fn answered(&self, asked_at: Moment) {
        let now = BootClock.now();
        self.heard_at.store(now.as_nanos(), Ordering::Relaxed);
        self.unanswered_since.store(0, Ordering::Relaxed);
        let before = self.answer_ns.load(Ordering::Relaxed);
        let took = nanos(now.saturating_duration_since(asked_at)).max(before - before / 8);
        self.answer_ns.store(took, Ordering::Relaxed);
    }

    /// Records that nobody waits any longer for the answer to the request sent at `asked_at`. Returns whether the server has been silent for
    /// so long that the connection must be given up: for `limit`, or for [`ANSWER_TIMEOUT`] although other messages came.
    pub(crate) fn is_too_long(&self, asked_at: Moment, limit: Duration) -> bool {
        // It may have been sent over an earlier connection.
        let asked_at = asked_at.max(self.connected_at).as_nanos();
        let order = Ordering::Relaxed;
        let first = self
            .unanswered_since
            .compare_exchange(0, asked_at, order, order);
        let since = Moment::from_nanos(first.err().unwrap_or(asked_at));
        let heard_at = Moment::from_nanos(self.heard_at.load(Ordering::Relaxed));
        let now = BootClock.now();
        // Answers come in order, so this one is missing whatever else was received.
        let is_overdue = now.saturating_duration_since(since) >= ANSWER_TIMEOUT;
        is_overdue || now.saturating_duration_since(since.max(heard_at)) >= limit
    }

    /// Returns how long the connection may stay silent during this operation. Only a dropped renewal means that the store is silent,
    /// because its deadline is a part of the TTL. Other requests may be dropped because their caller changed its mind, which says nothing
    /// about the connection.
    pub(crate) fn limit_for(&self, operation: Operation) -> Duration {
        match operation {
            Operation::Renew => {
                let answer = Duration::from_nanos(self.answer_ns.load(Ordering::Relaxed));
                let usual = answer.saturating_mul(RENEWAL_TIMEOUT_ANSWERS);
                usual.clamp(MIN_RENEWAL_TIMEOUT, ANSWER_TIMEOUT)
            }
            _ => ANSWER_TIMEOUT,
        }
    }
}
