//! Locks whose server comes back without its data and with a clock that is behind: wrong ones with the trial that must convict each, and a right
//! one.

use fencepost_trial::holds::Scenario::RestartBehind;

use crate::flaw::Flaw;
use crate::judging::{BROKEN, Due};
use crate::part::{ExternalLock, FENCED, HONEST, Part, flawed};
use crate::session::Ordeal::{self, Lasting};

const TRIAL: Ordeal = Lasting(RestartBehind, 6_000);

/// The wrong ones.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    (HONEST, TRIAL, BROKEN),
    (flawed("fence-of-counter", Flaw::FenceOfCounter, FENCED), TRIAL, BROKEN),
];

/// The same for a lock of the library: the exception of its fence, which its page names.
pub(crate) const OF_LIBRARY: (&str, Ordeal, Due) = ("fenced", TRIAL, BROKEN);

/// The trial that the right one withstands: whoever learns of the loss stops, whatever the server knows.
pub(crate) fn right() -> Vec<(Part, Ordeal)> {
    vec![(Part::Library("watchdog"), TRIAL)]
}
