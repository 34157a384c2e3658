//! Wrong locks in a file and on Redis that make the mistakes of real libraries, and the trial that must convict each.

use fencepost_trial::holds::Scenario::{
    Crash, DeadConnection, Deadline, DeadlockSorted, LostReply, ManyLeases, Names, StaleRelease,
    TtlEdge, Turns, Waiters,
};
use fencepost_trial::protocol::Claims;

use crate::flaw::Flaw;
use crate::judging::{BROKEN, Due, STUCK};
use crate::part::{ExternalLock, FENCED, KEPT_ALIVE, flawed};
use crate::servers::Place::Redis;
use crate::session::Ordeal::{self, At, Holds, Lasting, Oversell, Storms};

const fn plain(name: &'static str, flaw: Flaw) -> ExternalLock {
    flawed(name, flaw, Claims::PLAIN)
}

const fn fenced(name: &'static str, flaw: Flaw) -> ExternalLock {
    flawed(name, flaw, FENCED)
}

pub(crate) const fn renewed(name: &'static str, flaw: Flaw) -> ExternalLock {
    ExternalLock {
        renews: true,
        ..flawed(name, flaw, KEPT_ALIVE)
    }
}

const fn in_line(name: &'static str, flaw: Flaw) -> ExternalLock {
    ExternalLock {
        has_line: true,
        ..plain(name, flaw)
    }
}

/// The cases.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    (plain("owner-is-thread", Flaw::OwnerIsThread), Holds(DeadlockSorted), BROKEN),
    (plain("owner-is-host", Flaw::OwnerIsHost), Lasting(StaleRelease, 1_500), BROKEN),
    (plain("ttl-in-seconds", Flaw::TtlInSeconds), At(Redis, Crash), STUCK),
    (plain("ttl-in-microseconds", Flaw::TtlInMicroseconds), Holds(DeadlockSorted), BROKEN),
    (plain("ttl-of-whole-seconds", Flaw::TtlOfWholeSeconds), Holds(Crash), STUCK),
    (renewed("renewal-dies", Flaw::RenewalDies), Holds(Names), BROKEN),
    (renewed("renewal-shortens", Flaw::RenewalShortens), Holds(TtlEdge), BROKEN),
    (renewed("renews-one-by-one", Flaw::RenewsOneByOne), Lasting(ManyLeases, 2_000), BROKEN),
    (renewed("renews-by-fifties", Flaw::RenewsByFifties), Lasting(ManyLeases, 2_000), BROKEN),
    (renewed("trusts-connection", Flaw::TrustsConnection), Lasting(DeadConnection, 2_000), BROKEN),
    (renewed("never-reconnects", Flaw::NeverReconnects), Lasting(DeadConnection, 2_000), BROKEN),
    (plain("renewal-recreates", Flaw::RenewalRecreates), Lasting(StaleRelease, 1_500), BROKEN),
    (renewed("renewal-drops-expiry", Flaw::RenewalDropsExpiry), Holds(Crash), STUCK),
    (renewed("renewal-adds-up", Flaw::RenewalAddsUp), Holds(Crash), BROKEN),
    (plain("sets-on-retry", Flaw::SetsOnRetry), Holds(DeadlockSorted), BROKEN),
    (plain("forces-release", Flaw::ForcesRelease), Lasting(StaleRelease, 1_500), BROKEN),
    (plain("clears-expired", Flaw::ClearsExpired), Lasting(StaleRelease, 1_500), BROKEN),
    (plain("waiters-prolong", Flaw::WaitersProlong), At(Redis, Crash), STUCK),
    (fenced("fence-ends-with-lock", Flaw::FenceEndsWithLock), Holds(Turns), BROKEN),
    (fenced("fence-of-seconds", Flaw::FenceOfSeconds), Holds(Turns), BROKEN),
    (fenced("fence-of-process", Flaw::FenceOfProcess), Holds(Turns), BROKEN),
    (fenced("fence-read-before", Flaw::FenceReadBefore), Holds(Turns), BROKEN),
    (fenced("fence-drawn-before", Flaw::FenceDrawnBefore), Holds(Turns), BROKEN),
    (fenced("fence-drawn-before", Flaw::FenceDrawnBefore), Storms(4), BROKEN),
    (plain("slash-is-underscore", Flaw::SlashIsUnderscore), Holds(Names), BROKEN),
    (plain("tag-is-name", Flaw::TagIsName), Holds(Names), BROKEN),
    (plain("cuts-last-letter", Flaw::CutsLastLetter), Holds(Names), BROKEN),
    (plain("releases-all", Flaw::ReleasesAll), Holds(Names), BROKEN),
    (plain("releases-after-refusal", Flaw::ReleasesAfterRefusal), Holds(Names), BROKEN),
    (in_line("takes-after-giving-up", Flaw::TakesAfterGivingUp), Lasting(Deadline, 2_000), BROKEN),
    (plain("looks-then-takes", Flaw::LooksThenTakes), Oversell, BROKEN),
    (plain("breaks-stale", Flaw::BreaksStale), Lasting(Waiters, 2_000), BROKEN),
    (plain("writes-after-error", Flaw::WritesAfterError), Holds(LostReply), BROKEN),
    (plain("looks-after-error", Flaw::LooksAfterError), Holds(LostReply), BROKEN),
];
