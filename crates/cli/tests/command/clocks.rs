//! Tests of trials in which the clocks of processes are wrong. Each has right locks that are acquitted, and wrong ones that are convicted.

use serde_json::Value;

use crate::external_locks::has_python;
use crate::holds::tells;
use crate::schema::{assert_valid, schema};
use crate::{fencepost, finish};

const CLOCK_LOCK: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/command/clocks/clock_lock.py"
);

/// Tries the lock in Python that counts its leases by this clock. Returns the outcome and the report.
fn outcome(arguments: &str, clock: &str) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().display();
    tried(arguments, &format!("python3 {CLOCK_LOCK} {clock} {folder}"))
}

fn tried(arguments: &str, lock: &str) -> (String, Value) {
    let mut command = fencepost(&format!("{arguments} --json"));
    command.arg(format!("--lock={lock}"));
    let ran = finish(command.output().unwrap());
    let report: Value = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr));
    let outcome = report["verdict"]["outcome"].as_str().unwrap().to_owned();
    (outcome, report)
}

#[test]
fn our_locks_do_not_count_by_the_time_of_day_of_a_process() {
    for lock in ["safe", "watchdog", "fenced"] {
        tells(
            &format!("trial client-clock --lock={lock}"),
            0,
            "\
… N its clock jumps N h back
… N its clock jumps N h forward
… N its clock runs fast
… HELD Never two holders, whatever the time of day: the lock does not count by it.
witness B was kept out while A's time of day was an hour behind; while B's time of day was an",
        );
    }
}

#[test]
fn a_lock_in_python_that_stores_a_time_of_day_is_convicted_and_one_in_boot_time_is_not() {
    if !has_python() {
        return;
    }
    let (held, report) = outcome("trial client-clock", "boottime");
    assert_eq!(held, "HELD", "{report:#}");
    let (broken, report) = outcome("trial client-clock", "realtime");
    assert_eq!(broken, "BROKEN", "{report:#}");
    assert_valid(&schema("report.json"), "trial", &report);
    let because = report["verdict"]["because"].as_str().unwrap();
    let expected = "Two holders at once: A's time of day was an hour behind. ";
    assert!(because.starts_with(expected), "{because}");
}

#[test]
fn a_program_that_never_asks_for_the_time_was_not_tried() {
    if !has_python() {
        return;
    }
    for name in ["client-clock", "suspend"] {
        // Like a program that is linked statically: the library is not there.
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().display();
        let lock = format!("env -u LD_PRELOAD python3 {CLOCK_LOCK} boottime {folder}");
        let (unclear, report) = tried(&format!("trial {name}"), &lock);
        assert_eq!(unclear, "INCONCLUSIVE", "{report:#}");
        let because = report["verdict"]["because"].as_str().unwrap();
        assert!(because.starts_with("Not tried: "), "{because}");
    }
}

#[test]
fn a_suspended_machine_ends_belief_only_by_a_clock_that_goes_on() {
    if has_python() {
        let (held, report) = outcome("trial suspend", "boottime");
        assert_eq!(held, "HELD", "{report:#}");
        let (broken, report) = outcome("trial suspend", "monotonic");
        assert_eq!(broken, "BROKEN", "{report:#}");
        // A mere pause does not fool it.
        let (held, report) = outcome("trial pause --store redis", "monotonic");
        assert_eq!(held, "HELD", "{report:#}");
    }
    tells(
        "trial suspend",
        1,
        "\
trial suspend A reads, and its machine is suspended; B gets the lock and adds N; then A writes
… N SIGSTOP: paused
… N its CLOCK_MONOTONIC stopped
… BROKEN A wrote over B's update, N ms or more after its lease had ended. One is lost.",
    );
    tells(
        "trial suspend --lock=watchdog",
        0,
        "\
… N declines: its lock is lost
… HELD A stopped itself: it wrote nothing after its lock was lost.",
    );
    tells(
        "trial suspend --lock=fenced",
        0,
        "… HELD No damage: the resource refused A's late write (fence …N; it had seen …N).",
    );
}
