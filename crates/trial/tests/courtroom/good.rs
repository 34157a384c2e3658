//! Good locks, each of which must be acquitted in every trial that its promises cover.

use fencepost_trial::holds::Scenario::{
    ClientClock, Crash, Cut, DeadConnection, Deadline, Deadlock, DeadlockSorted, LateWrite,
    LostReply, LostWakeup, ManyLeases, Names, Pause, PauseAtStep, ShortStock, SlowReplies,
    StaleRelease, Suspend, TtlEdge, Turns, Waiters, WriteOnlyFence,
};
use fencepost_trial::verdict::Outcome;
use libtest_mimic::{Failed, Trial};

use crate::judging::is_harmless;
use crate::part::{
    ANNOUNCES, FENCED_WRITES, HONEST, HONEST_FENCED, HONEST_FENCED_LINE, HONEST_LINE,
    HONEST_RENEWED, HONEST_RENEWED_FENCED, Part, STOPS_BY_STEADY_CLOCK, STOPS_ITSELF,
};
use crate::session::Ordeal::{self, At, Holds, Lasting, Oversell, Storms};
use crate::{
    deposed, errors, leader_deaths, on_servers, one_way, order, outage, rates, reentry, replicated,
    restart_behind, runs, same_pid, taken_away, vanish,
};

/// The trials that a lease alone withstands.
const BY_LEASE: &[Ordeal] = &[
    Oversell,
    Holds(Crash),
    Holds(DeadlockSorted),
    Holds(StaleRelease),
    Holds(ShortStock),
    Holds(LostWakeup),
    Holds(ClientClock),
    Holds(Names),
    Holds(Turns),
    Holds(Waiters),
    Lasting(Deadline, 2_000),
    Storms(1),
];
const BY_RENEWAL: &[Ordeal] = &[
    Holds(TtlEdge),
    Holds(Pause),
    Holds(Suspend),
    Holds(SlowReplies),
    Lasting(ManyLeases, 2_000),
    Lasting(DeadConnection, 2_000),
];
const BY_FENCES: &[Ordeal] = &[
    Holds(TtlEdge),
    Holds(Pause),
    Holds(Deadlock),
    Holds(LateWrite),
    Holds(WriteOnlyFence),
];
/// The same, for a lock that also has fences on a server.
const BY_FENCES_ANYWHERE: &[Ordeal] = &[
    Holds(TtlEdge),
    Holds(Pause),
    Holds(Suspend),
    Holds(Deadlock),
    Holds(LateWrite),
    Holds(WriteOnlyFence),
];
/// The trials that a lock withstands which knows when its lease is over.
const BY_STOPPING: &[Ordeal] = &[
    Holds(Pause),
    Holds(Suspend),
    Holds(Cut),
    Holds(WriteOnlyFence),
];
/// The trials on Redis that a lease alone withstands, if it is counted from the request.
const ON_REDIS: &[Ordeal] = &[Holds(LostReply), Holds(PauseAtStep)];

/// A run that shows nothing, because the machine was too busy, is repeated up to this many times.
const REPEATS: u64 = 5;

pub(crate) fn cases() -> Vec<(Part, Ordeal)> {
    let locks = [
        (
            Part::External(HONEST),
            ON_REDIS,
            &[Holds(SlowReplies), Holds(Suspend), Holds(Cut)] as &[Ordeal],
        ),
        (Part::External(HONEST_FENCED), &[], BY_FENCES),
        (Part::External(HONEST_LINE), &[], &[]),
        (
            Part::External(HONEST_RENEWED),
            &[],
            &[
                Holds(TtlEdge),
                Lasting(ManyLeases, 2_000),
                Lasting(DeadConnection, 2_000),
            ],
        ),
        (Part::External(HONEST_FENCED_LINE), &[], BY_FENCES),
        (
            Part::External(HONEST_RENEWED_FENCED),
            &[],
            &[Holds(TtlEdge), Holds(Pause)],
        ),
        (Part::External(STOPS_ITSELF), &[], BY_STOPPING),
        (Part::External(STOPS_BY_STEADY_CLOCK), &[], &[Holds(Pause)]),
        (Part::Library("safe"), &[Holds(LostReply)], &[]),
        (Part::Library("watchdog"), ON_REDIS, BY_RENEWAL),
        (Part::Library("fenced"), ON_REDIS, BY_FENCES_ANYWHERE),
    ];
    let of_lock = |(part, on_redis, more): (Part, &'static [Ordeal], &'static [Ordeal])| {
        let ordeals = BY_LEASE.iter().chain(on_redis).chain(more);
        ordeals.map(move |ordeal| (part, *ordeal))
    };
    let here = locks.into_iter().flat_map(of_lock);
    // The others lose what was read, as the storm shows.
    let writes =
        [Holds(Pause), Holds(LateWrite)].map(|ordeal| (Part::External(FENCED_WRITES), ordeal));
    let announces = (Part::External(ANNOUNCES), Holds(PauseAtStep));
    here.chain(writes)
        .chain([announces])
        .chain(on_servers::right())
        .chain(taken_away::right())
        .chain(reentry::right())
        .chain(outage::right())
        .chain(vanish::right())
        .chain(deposed::right())
        .chain(one_way::right())
        .chain(leader_deaths::right())
        .chain(order::right())
        .chain(restart_behind::right())
        .chain(same_pid::right())
        .chain(replicated::right())
        .chain(errors::right())
        .collect()
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |(part, ordeal): (Part, Ordeal)| {
        let name = format!("good::{}::{}", part.name(), ordeal.name());
        let is_possible = ordeal.is_possible();
        Trial::test(name, move || judge(part, ordeal)).with_ignored_flag(!is_possible)
    };
    cases().into_iter().map(trial).collect()
}

fn judge(part: Part, ordeal: Ordeal) -> Result<(), Failed> {
    let _servers = ordeal.start_servers();
    for run in 0..runs_of(part, ordeal) {
        acquit(part, ordeal, run)?;
    }
    Ok(())
}

/// Returns how often a case is tried: once, unless there is time, on slow servers and for what others show too.
fn runs_of(part: Part, ordeal: Ordeal) -> u64 {
    let combined = [HONEST_FENCED_LINE, HONEST_RENEWED_FENCED].map(Part::External);
    let is_brief = matches!(ordeal, At(..)) || combined.contains(&part);
    if is_brief && !fencepost_rig::is_soak() {
        1
    } else {
        runs()
    }
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
