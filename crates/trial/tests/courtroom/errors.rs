//! Locks whose store answers with errors, or whose releases and renewals get no answer: wrong ones with the trial that must convict each,
//! and right ones.

use fencepost_trial::holds::Scenario::{FailedRenewal, LostRelease, StoreErrors};
use fencepost_trial::protocol::Claims;

use crate::flaw::Flaw;
use crate::judging::Due::NoAlarm;
use crate::judging::{BROKEN, Due, STUCK};
use crate::library_mistakes::renewed;
use crate::on_servers::REDLOCK;
use crate::outage::{GIVES_UP, RENEWED};
use crate::part::{ExternalLock, HONEST, KEPT_ALIVE, Part, flawed};
use crate::servers::Place::{Etcd, Postgres, Redlock};
use crate::session::Ordeal::{self, Lasting, LastingAt};

/// Long enough for a lock that was not released to be seen to be taken.
const TTL_MS: u64 = 1_500;
const TRIAL: Ordeal = Lasting(StoreErrors, TTL_MS);
const ON_REDLOCK: Ordeal = LastingAt(Redlock, StoreErrors, TTL_MS);
const RELEASE: Ordeal = Lasting(LostRelease, 2_000);
const RENEWAL: Ordeal = Lasting(FailedRenewal, 2_000);

/// Repeats a release that got no answer, and compares the owner each time.
const REPEATS: ExternalLock = plain("repeats-release", Flaw::RepeatsRelease);

const fn plain(name: &'static str, flaw: Flaw) -> ExternalLock {
    flawed(name, flaw, Claims::PLAIN)
}

const ERROR_IS_RENEWAL: ExternalLock = ExternalLock {
    renews: true,
    ..flawed("error-is-renewal", Flaw::ErrorIsRenewal, KEPT_ALIVE)
};

/// The wrong ones.
#[rustfmt::skip]
pub(crate) const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    (plain("answer-is-grant", Flaw::ErrorIsGrant), TRIAL, BROKEN),
    (plain("writes-after-error-answer", Flaw::WritesAfterError), TRIAL, BROKEN),
    (plain("error-is-release", Flaw::ErrorIsRelease), TRIAL, BROKEN),
    (plain("expires-after-error", Flaw::ExpiresInSecondStep), TRIAL, STUCK),
    (ERROR_IS_RENEWAL, TRIAL, BROKEN),
    (plain("error-is-vote", Flaw::ErrorIsGrant), ON_REDLOCK, BROKEN),
    (plain("error-is-release-of-majority", Flaw::ErrorIsRelease), ON_REDLOCK, BROKEN),
    (plain("repeats-release-blindly", Flaw::RepeatsBlindly), RELEASE, BROKEN),
    (plain("repeats-delete", Flaw::RepeatsDelete), RELEASE, BROKEN),
    (plain("lost-look-is-release", Flaw::LostLookIsRelease), RELEASE, BROKEN),
    (GIVES_UP, RENEWAL, BROKEN),
    (renewed("never-reconnects", Flaw::NeverReconnects), RENEWAL, BROKEN),
    (renewed("error-ends-renewal", Flaw::ErrorEndsRenewal), RENEWAL, BROKEN),
    (HONEST, RENEWAL, NoAlarm),
];

/// The trials that the right ones withstand.
pub(crate) fn right() -> Vec<(Part, Ordeal)> {
    let by_hand = [
        (HONEST, TRIAL),
        (RENEWED, TRIAL),
        (REPEATS, TRIAL),
        (REDLOCK, ON_REDLOCK),
        (HONEST, RELEASE),
        (RENEWED, RELEASE),
        (REPEATS, RELEASE),
        (REDLOCK, LastingAt(Redlock, LostRelease, 2_000)),
        (RENEWED, RENEWAL),
    ];
    let by_hand = by_hand.map(|(lock, trial)| (Part::External(lock), trial));
    let of_all = [
        TRIAL,
        ON_REDLOCK,
        RELEASE,
        LastingAt(Redlock, LostRelease, 2_000),
    ];
    let locks = ["safe", "watchdog", "fenced"].map(Part::Library);
    let library = locks
        .into_iter()
        .flat_map(|lock| of_all.map(|trial| (lock, trial)));
    let elsewhere = [Postgres, Etcd].map(|place| LastingAt(place, LostRelease, 2_000));
    let renewals = [Redlock, Postgres, Etcd].map(|place| LastingAt(place, FailedRenewal, 2_000));
    let kept = elsewhere.into_iter().chain(renewals).chain([RENEWAL]);
    let kept = kept.map(|trial| (Part::Library("watchdog"), trial));
    by_hand.into_iter().chain(library).chain(kept).collect()
}
