//! The scripts of lock trials: the sequence of acts for each process in each scenario.

use std::time::Duration;

use fencepost_rig::Direction;

use super::chance::Chance;
use crate::holds::{Scenario, Trial};
use crate::protocol::Claims;

mod act;
mod client_clock;
mod crash;
mod deadline;
mod deadlock;
mod kept_alive;
mod late_write;
mod leader_deaths;
mod lost_release;
mod lost_store;
mod lost_wakeup;
mod names;
mod network;
mod order;
mod outage;
mod pause;
mod pause_at_step;
mod reentry;
mod same_pid;
mod sequence;
mod servers;
mod short_stock;
mod stale_release;
mod store_errors;
mod takeover;
mod turns;
mod waiters;

pub(super) use act::{Act, RoadEvent, ServerEvent, read, write};
use act::{at_once, try_once};

/// The names of the processes, by index.
pub const NAMES: [&str; 3] = ["A", "B", "C"];
/// The process that has the lock first, and to which most things happen.
pub(crate) const HOLDER: &str = NAMES[A];
/// The process that wants the lock as well.
pub(crate) const OTHER: &str = NAMES[B];
/// The process that tries last, in scenarios with three processes.
pub(crate) const THIRD: &str = NAMES[C];
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;

/// About how long each process works in scenarios that do not depend on it.
const PAUSE: Duration = Duration::from_millis(50);
/// How long, at most, the holder works before it is killed.
const BEFORE_KILL: Duration = Duration::from_millis(300);
/// How long two processes that may both hold the lock wait for each other.
const MEETING: Duration = Duration::from_secs(2);
/// How much longer than three TTLs a wait lasts, so that three TTLs have certainly passed.
const MARGIN: Duration = Duration::from_millis(20);

/// No recovery is waited for longer than this, whatever a lock claims.
const LONGEST_RECOVERY: Duration = Duration::from_secs(60);

/// Returns the scripts of a trial, one per process, for a lock with these claims.
pub(super) fn scripts(trial: &Trial, claims: Claims) -> Vec<Vec<Act>> {
    let chance = &Chance::new(trial.seed);
    match trial.scenario {
        Scenario::Crash if claims.belongs_to_session() => crash::of_session(trial, claims, chance),
        Scenario::Crash => crash::script(trial, claims, chance),
        Scenario::TtlEdge => crash::ttl_edge(trial, chance),
        Scenario::Deadlock => deadlock::script(trial, claims, chance),
        Scenario::DeadlockSorted => deadlock::sorted(trial, chance),
        Scenario::StaleRelease => stale_release::script(trial, claims, chance),
        Scenario::ShortStock => short_stock::script(trial, chance),
        Scenario::Pause | Scenario::Suspend => pause::script(trial, claims, chance),
        Scenario::Failover if claims.survives => lost_store::survival(trial, chance),
        Scenario::Failover | Scenario::RestartEmpty => lost_store::script(trial, chance),
        Scenario::RestartBehind => lost_store::unasked(trial, chance),
        Scenario::ServerClock | Scenario::Eviction => servers::lost_lock(trial, chance),
        Scenario::TakenAway => servers::taken_away(trial, claims, chance),
        Scenario::Deposed => servers::deposed(trial, claims, chance),
        Scenario::ClockBack => servers::clock_back(trial, claims, chance),
        Scenario::ServerStall => outage::server_stall(trial, claims, chance),
        Scenario::MajorityDown => outage::majority_down(trial, claims, chance),
        Scenario::LeaderDeaths => leader_deaths::script(trial, claims, chance),
        Scenario::ClientClock => client_clock::script(trial, claims, chance),
        Scenario::Vanish => network::vanish(trial, claims, chance),
        Scenario::LostWakeup => lost_wakeup::script(trial, claims, chance),
        Scenario::Names => names::script(trial, claims, chance),
        Scenario::Turns => turns::script(trial, chance),
        Scenario::Waiters => waiters::script(trial, claims, chance),
        Scenario::Deadline => deadline::script(trial, claims, chance),
        Scenario::Order => order::script(trial, claims, chance),
        Scenario::Reentry => reentry::script(trial, claims, chance),
        Scenario::SamePid => same_pid::script(trial, claims, chance),
        Scenario::Cut => network::cut(trial, claims, chance),
        Scenario::CutReplies => network::cut_one_way(trial, claims, chance, Direction::ToClient),
        Scenario::CutRequests => network::cut_one_way(trial, claims, chance, Direction::ToServer),
        Scenario::SlowReplies => network::slow_replies(trial, claims, chance),
        Scenario::LostReply => network::lost_reply(trial, chance),
        Scenario::LostRelease => lost_release::script(trial, chance),
        Scenario::FailedRenewal => kept_alive::failed_renewal(trial, claims, chance),
        Scenario::StoreErrors => store_errors::script(trial, claims, chance),
        Scenario::PauseAtStep => pause_at_step::script(trial, claims, chance),
        Scenario::LateWrite => late_write::script(trial, chance),
        Scenario::WriteOnlyFence => pause::write_only_fence(trial, claims, chance),
        Scenario::ManyLeases => kept_alive::many_leases(trial, claims, chance),
        Scenario::DeadConnection => kept_alive::dead_connection(trial, claims, chance),
        // What its processes do is chosen while it goes on.
        Scenario::Storm => vec![Vec::new(); trial.processes()],
    }
}

/// Returns how long the holder works before it is killed. The kill must happen well within the lease; otherwise it shows nothing.
fn before_kill(trial: &Trial, chance: &Chance) -> Duration {
    let most = BEFORE_KILL.min(trial.ttl() / 3);
    chance.between(most / 2, most)
}

/// Returns how long the holder works before it is killed if it renews its lease: long enough for several renewals. What they did to the lease
/// shows when nobody renews it any more.
fn beyond_renewals(trial: &Trial, chance: &Chance) -> Duration {
    chance.between(2 * trial.ttl(), 5 * trial.ttl() / 2)
}

/// Returns the time after which a lock that nobody could take counts as stuck forever.
fn until_stuck(trial: &Trial) -> Duration {
    3 * trial.ttl() + MARGIN
}

/// Returns how long to wait for a dead holder's lock: longer than the lock claims to need, within reason.
pub(super) fn until_recovered(trial: &Trial, claims: Claims) -> Duration {
    let claimed = Duration::from_millis(claims.recovery_ms.unwrap_or(0)).min(LONGEST_RECOVERY);
    let slack = (claimed / 2).max(Duration::from_secs(1));
    match claims.recovery_ms {
        Some(_) => until_stuck(trial).max(claimed + slack + MARGIN),
        None => until_stuck(trial),
    }
}

#[cfg(test)]
mod tests;
