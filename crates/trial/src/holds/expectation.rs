//! The expected verdict of every lock trial, as a committed table. `run-all` compares its results with the columns of its six lock trials.
//!
//! The table is a hypothesis, not a rule: the trial decides, and `run-all` reports a deviation as a surprise.

use fencepost::stores::kinds::{ETCD, POSTGRES};

use super::{Scenario, Trial};
use crate::verdict::Outcome;

/// The expected verdicts for each lock, for scenarios in which the store itself does not fail: opposite order, same order, kill, work
/// beyond the lease, late release, nothing to sell, pause before the write.
const HOLDS: [(&str, [Outcome; 7]); 16] = {
    use Outcome::{Broken, Held, Stuck};
    [
        ("naive", [Broken, Held, Stuck, Broken, Broken, Held, Broken]),
        (
            "blind-delete",
            [Broken, Held, Held, Broken, Broken, Held, Broken],
        ),
        (
            "get-then-delete",
            [Broken, Held, Held, Broken, Broken, Held, Broken],
        ),
        (
            "late-expiry",
            [Stuck, Held, Stuck, Held, Broken, Stuck, Held],
        ),
        // ZooKeeper does not detect the deadlock, but the end of a session ends its holds.
        ("late-watch", [Stuck, Held, Held, Held, Held, Held, Broken]),
        ("safe", [Broken, Held, Held, Broken, Held, Held, Broken]),
        ("watchdog", [Stuck, Held, Held, Held, Held, Held, Held]),
        ("in-line", [Stuck, Held, Held, Held, Held, Held, Held]),
        ("fenced", [Held, Held, Held, Held, Held, Held, Held]),
        (
            "fenced-watchdog",
            [Stuck, Held, Held, Held, Held, Held, Held],
        ),
        // What a holder has read is not protected; only one trial is about that, and tables leave it out.
        ("fenced-writes", [Held, Held, Held, Held, Held, Held, Held]),
        // The database detects both the deadlock and the end of a session.
        ("row", [Held, Held, Held, Held, Held, Held, Held]),
        ("table", [Held, Held, Held, Held, Held, Held, Held]),
        ("advisory", [Held, Held, Held, Held, Held, Held, Held]),
        ("unique-index", [Stuck, Held, Stuck, Held, Held, Held, Held]),
        ("lease", [Broken, Held, Held, Broken, Held, Held, Broken]),
    ]
};

/// Advisory locks that are used wrongly, in the trials that show it: work beyond the lease, and somebody who waits for a release.
const MISUSED: [(&str, Outcome); 3] = [
    ("kept-by-pool", Outcome::Stuck),
    ("rolled-back", Outcome::Broken),
    ("trusts-rollback", Outcome::Stuck),
];

/// Returns the expected verdict of a lock trial of this strategy, or `None` if the strategy has no lock.
pub fn of_strategy(scenario: Scenario, strategy: &str) -> Option<Outcome> {
    if let Some((_, expected)) = MISUSED.iter().find(|(name, _)| *name == strategy) {
        return matches!(scenario, Scenario::TtlEdge | Scenario::LostWakeup).then_some(*expected);
    }
    let (_, row) = HOLDS.iter().find(|(name, _)| *name == strategy)?;
    let [opposite, sorted, crash, edge, stale, stock, pause] = *row;
    Some(match scenario {
        Scenario::Deadlock => opposite,
        Scenario::DeadlockSorted => sorted,
        Scenario::Crash => crash,
        Scenario::TtlEdge => edge,
        Scenario::StaleRelease => stale,
        Scenario::ShortStock => stock,
        // Whoever withstands a pause withstands a cut, a suspended machine, a grant that is learned late, and a pause at any step, in the
        // same way.
        Scenario::Pause
        | Scenario::Cut
        | Scenario::CutReplies
        | Scenario::CutRequests
        | Scenario::SlowReplies
        | Scenario::PauseAtStep
        | Scenario::Suspend => pause,
        Scenario::Failover | Scenario::RestartEmpty => lost_store(strategy),
        // What has seen no fence, and starts from a time that is behind, counts from there.
        Scenario::RestartBehind => match strategy {
            "fenced" | "fenced-watchdog" | "fenced-writes" => Outcome::Broken,
            _ => lost_store(strategy),
        },
        Scenario::ServerClock => clock_ahead(strategy),
        // Every lock in Redis ends by the server's time of day, or not at all.
        Scenario::ClockBack => Outcome::Stuck,
        Scenario::Eviction => evicted(strategy),
        Scenario::TakenAway => taken_away(strategy),
        Scenario::Deposed => deposed(strategy),
        Scenario::ServerStall => server_stall(strategy),
        // Whoever needs a majority grants nothing without one, and its servers keep their data.
        Scenario::MajorityDown | Scenario::LeaderDeaths => Outcome::Held,
        // No lock of ours counts by the time of day of a client.
        Scenario::ClientClock => Outcome::Held,
        // Among hundreds of turns there is one that comes between its look and its watch.
        Scenario::LostWakeup | Scenario::Turns => match strategy {
            "late-watch" => Outcome::Stuck,
            _ => Outcome::Held,
        },
        Scenario::Names => names(strategy),
        // It takes the end of any predecessor for its turn, also of one that has given up.
        Scenario::Deadline => match strategy {
            "late-watch" => Outcome::Broken,
            _ => Outcome::Held,
        },
        // Only one of our strategies claims an order.
        Scenario::Order => match strategy {
            "in-line" => Outcome::Held,
            _ => Outcome::Inconclusive,
        },
        // What was released before is not released again: our programs forget a hold with its release.
        Scenario::Reentry => Outcome::Held,
        Scenario::Waiters | Scenario::SamePid => left_by_the_dead(strategy),
        Scenario::WriteOnlyFence => match strategy {
            "fenced-writes" => Outcome::Broken,
            _ => pause,
        },
        // No lock can call a write back. Only the resource can refuse it.
        Scenario::LateWrite => match strategy {
            "fenced" | "fenced-watchdog" | "fenced-writes" => Outcome::Held,
            _ => Outcome::Broken,
        },
        // An error may follow the first of two steps, like a lost reply.
        Scenario::LostReply | Scenario::StoreErrors => lost_reply(strategy),
        Scenario::ManyLeases | Scenario::DeadConnection | Scenario::FailedRenewal => {
            kept_alive(strategy)
        }
        // No lock of ours repeats a release without comparing its owner.
        Scenario::LostRelease => Outcome::Held,
        Scenario::Vanish => vanished(strategy),
        Scenario::Storm => storm(strategy),
    })
}

/// Returns the expected verdict of a trial, taking its store into account: a majority of servers forgets nothing.
pub fn expected(trial: &Trial) -> Option<Outcome> {
    let expected = of_strategy(trial.scenario, trial.strategy.name)?;
    let survives = match trial.scenario {
        Scenario::Failover => trial.store.is(&ETCD),
        // A restarted server does not vote during its restart delay. If the delay covers the TTL, the server cannot grant a
        // lock that it has forgotten.
        Scenario::RestartEmpty => {
            let delay = trial.store.restart_delay();
            delay.is_some_and(|delay| delay.as_millis() >= u128::from(trial.ttl_ms))
        }
        // The commits of the old primary wait for a standby that does not follow it any more, so no renewal is confirmed.
        Scenario::Deposed => trial.store.is(&POSTGRES) && trial.strategy.claims.keep_alive,
        _ => false,
    };
    // The sessions of the primary are not copied, and whoever has taken over lets another one in while the lease runs.
    let is_let_in = trial.scenario == Scenario::Deposed
        && trial.store.has_advisory_locks()
        && trial.strategy.name == "safe";
    Some(match (survives, is_let_in) {
        (true, _) => Outcome::Held,
        (_, true) => Outcome::Broken,
        _ => expected,
    })
}

/// Returns the expected verdict if replies to a request for the lock are lost: what has no expiry from the first step on stays taken.
fn lost_reply(strategy: &str) -> Outcome {
    match strategy {
        "naive" | "late-expiry" | "unique-index" => Outcome::Stuck,
        _ => Outcome::Held,
    }
}

/// Returns the expected verdict if the holder's machine vanishes from the network: what belongs to a connection stays taken for as long as the
/// server does not look for dead ones, and what has no expiry stays taken forever.
fn vanished(strategy: &str) -> Outcome {
    match strategy {
        "row" | "table" | "advisory" | "unique-index" | "late-expiry" => Outcome::Stuck,
        _ => Outcome::Held,
    }
}

/// Returns the expected verdict if the store forgets the lock. How carefully the lock is taken makes no difference. What helps
/// is a resource that checks the fence and, for later writes, a lock that asks the server again as soon as its connection
/// breaks.
fn lost_store(strategy: &str) -> Outcome {
    match strategy {
        "fenced" | "fenced-watchdog" | "fenced-writes" | "watchdog" | "in-line" => Outcome::Held,
        // The end of its session tells the holder.
        "row" | "table" | "advisory" => Outcome::Held,
        _ => Outcome::Broken,
    }
}

/// Returns the expected verdict if the server's clock jumps forward. Nobody tells the holder, and it does not ask so soon.
fn clock_ahead(strategy: &str) -> Outcome {
    match strategy {
        "fenced" | "fenced-watchdog" | "fenced-writes" => Outcome::Held,
        // It has no expiry while its holder works.
        "late-expiry" => Outcome::Held,
        _ => Outcome::Broken,
    }
}

/// Returns the expected verdict if the server evicts the lock.
fn evicted(strategy: &str) -> Outcome {
    match strategy {
        "fenced" | "fenced-watchdog" | "fenced-writes" => Outcome::Held,
        _ => Outcome::Broken,
    }
}

/// Returns the expected verdict if the lock is taken away at the store: a holder that keeps its lock alive asks for it again soon, and the end
/// of a session tells its holder.
fn taken_away(strategy: &str) -> Outcome {
    match strategy {
        "fenced" | "fenced-watchdog" | "fenced-writes" | "watchdog" | "in-line" | "row"
        | "table" | "advisory" => Outcome::Held,
        _ => Outcome::Broken,
    }
}

/// Returns the expected verdict if a copy of the server takes over while the old primary lives on. The copy has every record that was made, but
/// not those that are renewed at the old primary, and no sessions.
fn deposed(strategy: &str) -> Outcome {
    match strategy {
        "watchdog" | "in-line" | "fenced-watchdog" | "row" | "table" | "advisory" => {
            Outcome::Broken
        }
        _ => Outcome::Held,
    }
}

/// Returns the expected verdict if the server is stopped for a while: it forgets nothing. What has no expiry from the first step on may be
/// left by somebody who has stopped waiting for the server.
fn server_stall(strategy: &str) -> Outcome {
    match strategy {
        "blind-delete" | "naive" => Outcome::Broken,
        _ => Outcome::Held,
    }
}

/// Returns the expected verdict of a trial of similar names. Locks on rows and tables lock what exists, and no row and no table has such a
/// name.
fn names(strategy: &str) -> Outcome {
    match strategy {
        "row" | "table" => Outcome::Inconclusive,
        _ => Outcome::Held,
    }
}

/// Returns the expected verdict if a holder is killed that takes its locks like any other: what has no expiry yet stays taken.
fn left_by_the_dead(strategy: &str) -> Outcome {
    match strategy {
        "late-expiry" | "unique-index" => Outcome::Stuck,
        _ => Outcome::Held,
    }
}

/// Returns the expected verdict of a trial that only a lock with `keep_alive` can pass or fail.
fn kept_alive(strategy: &str) -> Outcome {
    match strategy {
        "watchdog" | "in-line" | "fenced-watchdog" => Outcome::Held,
        _ => Outcome::Inconclusive,
    }
}

/// Returns the expected verdict of a storm. What a lock does not claim is not judged there: a plain lease may be overrun.
fn storm(strategy: &str) -> Outcome {
    match strategy {
        "naive" | "blind-delete" | "fenced-writes" => Outcome::Broken,
        // Whoever is killed while holding the lock keeps it forever.
        "late-expiry" | "unique-index" => Outcome::Stuck,
        _ => Outcome::Held,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy;

    #[test]
    fn every_lock_has_an_expectation_in_every_lock_trial() {
        for strategy in strategy::ALL {
            for scenario in Scenario::ALL {
                let expected = of_strategy(scenario, strategy.name);
                assert_eq!(
                    expected.is_some(),
                    strategy.lock.is_some(),
                    "{}",
                    strategy.name
                );
            }
        }
    }
}
