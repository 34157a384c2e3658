//! Good locks, each of which must be acquitted in every trial that its promises cover.

use fencepost_trial::holds::Scenario::{
    Crash, Deadlock, LostWakeup, Pause, ShortStock, Sorted, StaleRelease, TtlEdge,
};
use fencepost_trial::verdict::Outcome;
use libtest_mimic::{Failed, Trial};

use crate::bad::is_harmless;
use crate::part::{HONEST, HONEST_FENCED, HONEST_RENEWED, Part};
use crate::session::Ordeal::{self, Holds, Oversell, Storms};
use crate::{rates, runs};

/// The trials that a lease alone withstands.
const BY_LEASE: &[Ordeal] = &[
    Oversell,
    Holds(Crash),
    Holds(Sorted),
    Holds(StaleRelease),
    Holds(ShortStock),
    Holds(LostWakeup),
    Storms(1),
];
const BY_RENEWAL: &[Ordeal] = &[Holds(TtlEdge), Holds(Pause)];
const BY_FENCES: &[Ordeal] = &[Holds(TtlEdge), Holds(Pause), Holds(Deadlock)];

/// A run that shows nothing, because the machine was too busy, is repeated up to this many times.
const REPEATS: u64 = 5;

fn cases() -> Vec<(Part, Ordeal)> {
    let locks = [
        (Part::External(HONEST), &[] as &[Ordeal]),
        (Part::External(HONEST_FENCED), BY_FENCES),
        (Part::External(HONEST_RENEWED), &[Holds(TtlEdge)]),
        (Part::Library("safe"), &[]),
        (Part::Library("watchdog"), BY_RENEWAL),
        (Part::Library("fenced"), BY_FENCES),
    ];
    let of_lock = |(part, more): (Part, &'static [Ordeal])| {
        let ordeals = BY_LEASE.iter().chain(more);
        ordeals.map(move |ordeal| (part, *ordeal))
    };
    locks.into_iter().flat_map(of_lock).collect()
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |(part, ordeal): (Part, Ordeal)| {
        let name = format!("good::{}::{}", part.name(), ordeal.name());
        Trial::test(name, move || judge(part, ordeal))
    };
    cases().into_iter().map(trial).collect()
}

fn judge(part: Part, ordeal: Ordeal) -> Result<(), Failed> {
    for run in 0..runs() {
        acquit(part, ordeal, run)?;
    }
    Ok(())
}

fn acquit(part: Part, ordeal: Ordeal, run: u64) -> Result<(), Failed> {
    let mut last = String::new();
    for repeat in 0..REPEATS {
        let seed = run * REPEATS + repeat;
        let verdict = ordeal
            .try_subject(part, seed, false)
            .map_err(|stopped| format!("{stopped:?}"))?;
        let is_alarm = !is_harmless(&verdict);
        rates::FALSE_ALARMS.count(is_alarm);
        rates::ACQUITTALS.count(verdict.outcome == Outcome::Held);
        if is_alarm {
            return Err(format!("a false alarm in run {run}: {verdict:#?}").into());
        }
        if verdict.outcome == Outcome::Held {
            return Ok(());
        }
        last = verdict.because;
    }
    Err(format!("run {run} never shows anything: {last}").into())
}
