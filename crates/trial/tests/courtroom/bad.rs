//! Bad locks and misbehaving subjects: the trial of each, and its required outcome.

use fencepost_trial::holds::Scenario::{
    ClientClock, ClockBack, Crash, Cut, DeadConnection, Deadline, Deadlock, DeadlockSorted,
    Eviction, Failover, LateWrite, LostReply, LostWakeup, ManyLeases, Names, Pause, PauseAtStep,
    RestartEmpty, ServerClock, ShortStock, SlowReplies, StaleRelease, Suspend, TtlEdge, Turns,
    Waiters, WriteOnlyFence,
};
use libtest_mimic::Trial;

use crate::judging::Due::{self, Conviction, NoAlarm, NoTrial, Report};
use crate::judging::{BROKEN, STUCK, judge};
use crate::part::*;
use crate::servers::Place::{Postgres, Redlock, Zookeeper};
use crate::session::Ordeal::{self, At, Holds, Lasting, LastingAt, Oversell, Storms};
use crate::{
    deposed, errors, leader_deaths, library_mistakes, on_servers, one_way, order, outage, reentry,
    replicated, restart_behind, same_pid, taken_away, vanish,
};

const DEATH: &[&str] = &["ended with 4", "out of coffee"];
const INVALID_MESSAGE: &[&str] = &["invalid message", r"'Segmentation\u{1b}[2J fault'"];

const REUSED: &[&str] = &["answered with hold 1, a number that it had given to another hold"];

const CASES: &[(ExternalLock, Ordeal, Due)] = &[
    (NONE, Oversell, BROKEN),
    (NONE, Holds(TtlEdge), BROKEN),
    (NONE, Holds(DeadlockSorted), BROKEN),
    (NONE, Holds(StaleRelease), BROKEN),
    (NONE, Holds(Deadlock), BROKEN),
    (NONE, Holds(LostWakeup), BROKEN),
    (NONE, Holds(Pause), BROKEN),
    (BLIND_DELETE, Holds(StaleRelease), BROKEN),
    (NO_EXPIRY, Holds(Crash), STUCK),
    (NO_EXPIRY, Holds(Deadlock), STUCK),
    (TWICE, Holds(StaleRelease), BROKEN),
    (FORGETFUL, Holds(ShortStock), STUCK),
    (CONSTANT, Holds(TtlEdge), BROKEN),
    (CONSTANT, Holds(Crash), BROKEN),
    (REGRESSING, Holds(TtlEdge), BROKEN),
    (REGRESSING, Holds(DeadlockSorted), BROKEN),
    (WORDS, Holds(TtlEdge), BROKEN),
    (WORDS, Holds(Crash), BROKEN),
    (NO_FENCE, Holds(TtlEdge), BROKEN),
    (NO_FENCE, Holds(Crash), BROKEN),
    (NO_RENEWAL, Holds(TtlEdge), BROKEN),
    (SLOW_RECOVERY, Lasting(Crash, 2_000), BROKEN),
    (LATE, Holds(TtlEdge), BROKEN),
    (LATE_AND_AWARE, Holds(TtlEdge), NoAlarm),
    (LATE_AND_AWARE, Holds(DeadlockSorted), NoAlarm),
    (LATE_AND_AWARE, Holds(StaleRelease), NoAlarm),
    (LATE_AND_AWARE, Holds(Crash), NoAlarm),
    (KNOWS_AND_WRITES, Lasting(Failover, 6_000), BROKEN),
    (KNOWS_AND_WRITES, Lasting(RestartEmpty, 6_000), BROKEN),
    (KNOWS_AND_WRITES_FIRST, Lasting(Failover, 6_000), BROKEN),
    (KNOWS_AND_WRITES_FIRST, Lasting(RestartEmpty, 6_000), BROKEN),
    (HONEST, Lasting(ServerClock, 6_000), BROKEN),
    (HONEST, Lasting(ClockBack, 1_000), STUCK),
    (HONEST, Lasting(Eviction, 6_000), BROKEN),
    (NONE, Holds(ClientClock), BROKEN),
    (WALL_CLOCK, Holds(ClientClock), BROKEN),
    (RENEWS_BY_WALL_CLOCK, Holds(ClientClock), BROKEN),
    (LATE_AND_AWARE, Holds(ClientClock), NoAlarm),
    (STOPS_BY_STEADY_CLOCK, Holds(Suspend), BROKEN),
    (KNOWS_AND_WRITES, Holds(Cut), BROKEN),
    (FROM_REPLY, Holds(SlowReplies), BROKEN),
    (FROM_REPLY, Holds(PauseAtStep), BROKEN),
    (GET_THEN_DELETE, Holds(PauseAtStep), BROKEN),
    (BLIND_REGRET, Holds(PauseAtStep), BROKEN),
    (ERROR_IS_GRANT, Holds(LostReply), BROKEN),
    (NONE, Holds(LateWrite), BROKEN),
    (HONEST, Holds(LateWrite), BROKEN),
    (HONEST_RENEWED, Holds(LateWrite), BROKEN),
    (CONSTANT, Holds(LateWrite), BROKEN),
    (NO_FENCE, Holds(LateWrite), BROKEN),
    (FENCED_WRITES, Holds(WriteOnlyFence), BROKEN),
    (HONEST, Holds(WriteOnlyFence), BROKEN),
    (CONSTANT, Holds(WriteOnlyFence), BROKEN),
    (NONE, Storms(4), BROKEN),
    (BLIND_DELETE, Storms(4), BROKEN),
    (FENCE_RESTARTS, Storms(4), BROKEN),
    (RELEASES_PREFIX, Storms(4), BROKEN),
    (CUTS_NAMES, Storms(4), BROKEN),
    (RENEWS_LAST, Storms(60), BROKEN),
    (NONE, Holds(Names), BROKEN),
    (RELEASES_PREFIX, Holds(Names), BROKEN),
    (CUTS_NAMES, Holds(Names), BROKEN),
    (CUTS_LONG_NAMES, Holds(Names), BROKEN),
    (IGNORES_CASE, Holds(Names), BROKEN),
    (ONE_NAME, Holds(Names), BROKEN),
    (RENEWS_LAST, Holds(Names), BROKEN),
    (STOPS_RENEWING, Holds(Names), BROKEN),
    (NO_RENEWAL, Holds(Names), BROKEN),
    (NO_RENEWAL, Lasting(ManyLeases, 2_000), BROKEN),
    (HONEST, Lasting(ManyLeases, 2_000), NoAlarm),
    (HONEST, Lasting(DeadConnection, 2_000), NoAlarm),
    (NONE, Holds(Turns), BROKEN),
    (FENCE_RESTARTS, Holds(Turns), BROKEN),
    (FENCE_WRAPS, Holds(Turns), BROKEN),
    (FENCE_BY_TEXT, Holds(Turns), BROKEN),
    (WORDS, Holds(Turns), BROKEN),
    (WEARS_OUT, Holds(Turns), STUCK),
    (NONE, Holds(Waiters), BROKEN),
    (TWICE, Holds(Waiters), BROKEN),
    (NO_EXPIRY, Holds(Waiters), STUCK),
    (LINE_KEEPS_DEAD, Holds(Waiters), STUCK),
    (NONE, Lasting(Deadline, 2_000), BROKEN),
    (LINE_KEEPS_GIVEN_UP, Lasting(Deadline, 2_000), BROKEN),
    (LEASE_FROM_REQUEST, Lasting(Deadline, 2_000), BROKEN),
    (COUNTS_FROM_REQUEST, Lasting(Deadline, 2_000), BROKEN),
    (TIME_OUT_IS_GRANT, Lasting(Deadline, 2_000), BROKEN),
    // A kill must hit a holder, and the lab must not stall afterwards.
    (NO_EXPIRY, Storms(8), STUCK),
    (LATE_AND_AWARE, Storms(4), NoAlarm),
    (REUSES_NUMBERS, Holds(DeadlockSorted), Report(REUSED)),
    (DIES_AT_STEP, Holds(TtlEdge), Report(DEATH)),
    (DIES_AT_WORK, Holds(TtlEdge), Report(DEATH)),
    (DIES_AT_WORK, Holds(DeadlockSorted), Report(DEATH)),
    (DIES_AT_INIT, Oversell, NoTrial(DEATH)),
    (GARBAGE, Holds(TtlEdge), Report(INVALID_MESSAGE)),
    (GARBAGE_AT_INIT, Holds(Crash), NoTrial(INVALID_MESSAGE)),
    (
        CHATTY,
        Holds(TtlEdge),
        Report(&["invalid message", "'DEBUG lock taken'"]),
    ),
    (BUFFERED, Holds(Crash), NoTrial(&["flush its output"])),
    (BUFFERED, Oversell, NoTrial(&["flush its output"])),
];

/// Exhibits of the lab.
#[rustfmt::skip]
const EXHIBITS: &[(&str, Ordeal, Due)] = &[
    ("kept-by-pool", At(Postgres, LostWakeup), STUCK),
    ("kept-by-pool", At(Postgres, TtlEdge), STUCK),
    ("rolled-back", At(Postgres, LostWakeup), BROKEN),
    ("rolled-back", At(Postgres, TtlEdge), BROKEN),
    ("trusts-rollback", At(Postgres, LostWakeup), STUCK),
    ("trusts-rollback", At(Postgres, TtlEdge), STUCK),
    restart_behind::OF_LIBRARY,
    ("late-watch", At(Zookeeper, Pause), BROKEN),
    ("lease", LastingAt(Postgres, Failover, 10_000), BROKEN),
    ("safe", LastingAt(Redlock, RestartEmpty, 10_000), BROKEN),
];

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |(part, ordeal, due): (Part, Ordeal, Due)| {
        let name = format!("bad::{}::{}", part.name(), ordeal.name());
        let is_possible = ordeal.is_possible();
        Trial::test(name, move || judge(part, ordeal, due)).with_ignored_flag(!is_possible)
    };
    cases().map(trial).collect()
}

/// Returns every case: the wrong and misbehaving external locks, and those of the lab's own exhibits that stand trial nowhere else.
pub(crate) fn cases() -> impl Iterator<Item = (Part, Ordeal, Due)> {
    let cases = CASES.iter().chain(library_mistakes::CASES);
    let cases = cases.chain(on_servers::CASES);
    let cases = cases.chain(taken_away::CASES).chain(reentry::CASES);
    let cases = cases.chain(outage::CASES).chain(vanish::CASES);
    let cases = cases.chain(deposed::CASES).chain(same_pid::CASES);
    let cases = cases.chain(one_way::CASES).chain(leader_deaths::CASES);
    let cases = cases.chain(order::CASES).chain(restart_behind::CASES);
    let cases = cases.chain(replicated::CASES).chain(errors::CASES);
    let cases = cases.map(|(lock, ordeal, due)| (Part::External(*lock), *ordeal, *due));
    let exhibits = EXHIBITS.iter();
    cases.chain(exhibits.map(|(name, ordeal, due)| (Part::Library(name), *ordeal, *due)))
}

/// Returns the trials that must convict somebody.
pub(crate) fn convictions() -> impl Iterator<Item = Ordeal> {
    let must_convict = |case: &(_, _, Due)| matches!(case.2, Conviction(_));
    cases().filter(must_convict).map(|(_, ordeal, _)| ordeal)
}
