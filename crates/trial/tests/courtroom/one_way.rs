//! Locks whose road to their store is open in one direction only: wrong ones with the trial that must convict each, and right ones.

use fencepost_trial::holds::Scenario::{Cut, CutReplies, CutRequests};

use crate::flaw::Flaw;
use crate::judging::{BROKEN, Due};
use crate::library_mistakes::renewed;
use crate::on_servers::REDLOCK;
use crate::outage::RENEWED;
use crate::part::{ExternalLock, HONEST, KNOWS_AND_WRITES, Part, STOPS_ITSELF};
use crate::servers::Place::{Etcd, Postgres, Redlock, Zookeeper};
use crate::session::Ordeal::{self, At, Lasting};

/// Long enough for a renewal that fails, and what follows it, within a lease.
const TTL_MS: u64 = 2_000;
const REPLIES: Ordeal = Lasting(CutReplies, TTL_MS);
const REQUESTS: Ordeal = Lasting(CutRequests, TTL_MS);

/// Its release arrives, and in a cut in both directions it does not.
const RELEASES: ExternalLock = renewed("releases-unanswered", Flaw::ReleasesUnanswered);
/// In a cut in both directions it hears nothing.
const ANY_WORD: ExternalLock = renewed("any-word-is-renewal", Flaw::AnyWordIsRenewal);
/// Its renewals arrive while replies are cut, and not while requests are.
const SENT: ExternalLock = renewed("sent-is-renewal", Flaw::SentIsRenewal);

/// The wrong ones.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    (KNOWS_AND_WRITES, REPLIES, BROKEN),
    (KNOWS_AND_WRITES, REQUESTS, BROKEN),
    (RELEASES, REPLIES, BROKEN),
    (ANY_WORD, REQUESTS, BROKEN),
    (SENT, REQUESTS, BROKEN),
];

/// The trials that the right ones withstand. Some of the wrong ones are right in another direction.
pub(crate) fn right() -> Vec<(Part, Ordeal)> {
    let cut = Lasting(Cut, TTL_MS);
    let by_hand = [
        (HONEST, REPLIES),
        (HONEST, REQUESTS),
        (STOPS_ITSELF, REPLIES),
        (STOPS_ITSELF, REQUESTS),
        (RENEWED, REPLIES),
        (RENEWED, REQUESTS),
        (RELEASES, cut),
        (ANY_WORD, cut),
        (SENT, REPLIES),
        (REDLOCK, At(Redlock, CutReplies)),
        (REDLOCK, At(Redlock, CutRequests)),
    ];
    let by_hand = by_hand.map(|(lock, ordeal)| (Part::External(lock), ordeal));
    let library = ["watchdog", "fenced"]
        .into_iter()
        .flat_map(|name| [REPLIES, REQUESTS].map(|ordeal| (Part::Library(name), ordeal)));
    let places = [Redlock, Postgres, Etcd, Zookeeper];
    let elsewhere = places.into_iter().flat_map(|place| {
        [CutReplies, CutRequests].map(|scenario| (Part::Library("watchdog"), At(place, scenario)))
    });
    by_hand
        .into_iter()
        .chain(library)
        .chain(elsewhere)
        .collect()
}
