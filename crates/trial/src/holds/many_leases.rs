//! The names of `trial many-leases`, and how far away the store is there.

use std::sync::LazyLock;
use std::time::Duration;

/// How many locks one process holds at once. A lock that renews them one after the other, or some hundreds at a time, needs more round
/// trips than a lease has room for. So did the library, which had a quarter of the TTL for three batches of a thousand.
pub(crate) const KEPT: usize = 2_500;

/// How much longer a message takes in each direction: as long as to the other side of the world.
pub(crate) const EACH_WAY: Duration = Duration::from_millis(150);

/// Another process asks for one lock in so many.
const SAMPLED: usize = 50;

/// The lock that A asks for when the store is far away, to show that it is.
pub(crate) const ONE_MORE: &str = "one_more";

/// The lock that B takes again and again, to show that the store answers.
pub(crate) const CONTROL: &str = "control";

static NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..KEPT).map(|number| format!("lease_{number}")).collect());

/// Returns the names of the locks that one process holds at once.
pub(crate) fn kept() -> impl Iterator<Item = &'static str> + Clone {
    NAMES.iter().map(String::as_str)
}

/// Returns those that another process asks for.
pub(crate) fn sample() -> impl Iterator<Item = &'static str> + Clone {
    kept().step_by(SAMPLED)
}

/// Returns every name of the trial.
pub(super) fn all() -> Vec<&'static str> {
    kept().chain([ONE_MORE, CONTROL]).collect()
}
