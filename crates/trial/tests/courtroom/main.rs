//! Tests of the lab itself: it must convict known bad locks, report misbehaving subjects, and acquit known good locks.
//!
//! This program is also every subject that it starts: a part in the environment makes it play that part instead of judging. The
//! rates are printed at the end; `FENCEPOST_SOAK=1` makes the loops long.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad;
mod deposed;
mod errors;
mod etcd_latch;
mod fault_list;
mod flaw;
mod good;
mod judging;
mod latch;
mod leader_deaths;
mod library_mistakes;
mod loss_teller;
mod on_servers;
mod one_way;
mod order;
mod outage;
mod owner;
mod part;
mod player;
#[cfg(feature = "postgres")]
mod postgres_latch;
mod rates;
mod redis_latch;
mod redis_renewal;
mod redlock_latch;
mod reentry;
mod remote;
mod renewal;
mod replicated;
mod restart_behind;
mod same_pid;
mod servers;
mod session;
mod stopped;
mod taken_away;
mod vanish;
mod waiting_line;
#[cfg(feature = "zookeeper")]
mod zookeeper_latch;

use fencepost_trial::holds::Scenario;
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    if let Some(part) = part::of_this_process() {
        return part.play();
    }
    if stopped::played_the_lab() {
        return;
    }
    let mut arguments = Arguments::from_args();
    // Most of the time the trials wait for a lease to end.
    arguments.test_threads = arguments.test_threads.or(Some(6));
    let trials = [bad::trials(), good::trials(), stopped::trials()];
    let mut trials: Vec<Trial> = trials.into_iter().flatten().collect();
    trials.push(Trial::test(
        "every_scenario_convicts_somebody",
        every_scenario_convicts_somebody,
    ));
    trials.push(Trial::test(
        "every_fault_of_the_list_is_tried",
        fault_list::every_fault_is_tried,
    ));
    let conclusion = libtest_mimic::run(&arguments, trials);
    rates::print();
    conclusion.exit();
}

fn every_scenario_convicts_somebody() -> Result<(), Failed> {
    let convicts =
        |scenario: &Scenario| bad::convictions().any(|one| one.scenario() == Some(*scenario));
    match Scenario::ALL.iter().find(|scenario| !convicts(scenario)) {
        None => Ok(()),
        Some(missing) => Err(format!("no bad lock is tried in {}", missing.name()).into()),
    }
}

/// Returns how often each case is tried.
fn runs() -> u64 {
    if fencepost_rig::is_soak() { 20 } else { 3 }
}
