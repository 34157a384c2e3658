//! Tests of trials in which the lab comes between a process and its store. Each has a right lock that is acquitted, and a wrong one that is
//! convicted.

use serde_json::Value;

use crate::external_locks::has_python;
use crate::holds::tells;
use crate::schema::{assert_valid, schema};
use crate::{Ran, fencepost, finish, run};

const RESP_LOCK: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/command/network/resp_lock.py"
);

/// Tries the lock in Python with these flaws.
fn tried(arguments: &str, flaws: &str) -> Ran {
    let mut command = fencepost(arguments);
    command.arg(format!("--lock=python3 {RESP_LOCK} {flaws}"));
    finish(command.output().unwrap())
}

fn as_json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr))
}

/// Returns the outcome of a trial of the lock in Python with these flaws, and the whole report.
fn outcome(arguments: &str, flaws: &str) -> (String, Value) {
    let report = as_json(&tried(&format!("{arguments} --json"), flaws));
    let outcome = report["verdict"]["outcome"].as_str().unwrap().to_owned();
    (outcome, report)
}

#[test]
fn who_is_cut_off_writes_over_an_update_unless_it_stops_itself_or_is_refused() {
    tells(
        "trial cut --lock=safe --seed 7",
        1,
        "\
trial cut A reads and is cut off from its store; B gets the lock and adds N; then A writes
lock safe TTL N ms (the lease, then it is free) store redis (a private server) seed N

at ms A B
… N cut off from its store
… N reaches its store again
… BROKEN A wrote over B's update, N ms or more after its lease had ended. One is lost.",
    );
    tells(
        "trial cut --lock=watchdog",
        0,
        "\
… N declines: its lock is lost
… HELD A stopped itself: it wrote nothing after its lock was lost.
witness A was cut off from its store for N ms on a lease of N ms; B got the lock",
    );
    tells(
        "trial cut --lock=fenced",
        0,
        "… HELD No damage: the resource refused A's late write (fence …N; it had seen …N).",
    );
}

#[test]
fn an_external_lock_is_cut_off_like_ours() {
    if !has_python() {
        return;
    }
    let (held, report) = outcome("trial cut --store redis", "");
    assert_eq!(held, "HELD", "{report:#}");
    let (broken, report) = outcome("trial cut --store redis", "never-stops");
    assert_eq!(broken, "BROKEN", "{report:#}");
    assert_valid(&schema("report.json"), "trial", &report);
}

#[test]
fn who_keeps_its_lock_elsewhere_cannot_be_cut_off_and_shows_nothing() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = format!("never-stops elsewhere={}", folder.path().display());
    let (unclear, report) = outcome("trial cut --store redis", &elsewhere);
    assert_eq!(unclear, "INCONCLUSIVE", "{report:#}");
    assert_eq!(report["faults"], Value::Array(Vec::new()), "{report:#}");
}

#[test]
fn a_lease_runs_from_its_request_however_late_the_reply_is() {
    if !has_python() {
        return;
    }
    let (held, report) = outcome("trial slow-replies --store redis", "");
    assert_eq!(held, "HELD", "{report:#}");
    for flaw in ["from-reply", "never-stops"] {
        let (broken, report) = outcome("trial slow-replies --store redis", flaw);
        assert_eq!(broken, "BROKEN", "{flaw}: {report:#}");
        assert_valid(&schema("report.json"), "trial", &report);
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let flaws = format!("never-stops elsewhere={}", elsewhere.path().display());
    let (unclear, report) = outcome("trial slow-replies --store redis", &flaws);
    assert_eq!(unclear, "INCONCLUSIVE", "{report:#}");
}

#[test]
fn a_late_grant_does_damage_unless_its_holder_stops_itself_or_is_refused() {
    tells(
        "trial slow-replies --lock=safe --ttl 1000",
        1,
        "… BROKEN A wrote over B's update. One is lost.",
    );
    for lock in ["watchdog", "fenced"] {
        tells(
            &format!("trial slow-replies --lock={lock} --ttl 1000"),
            0,
            "… N replies come late from here on",
        );
    }
}

#[test]
fn an_error_is_no_grant_and_the_lock_comes_free_again() {
    if !has_python() {
        return;
    }
    let (held, report) = outcome("trial lost-reply --store redis", "");
    assert_eq!(held, "HELD", "{report:#}");
    let (broken, report) = outcome("trial lost-reply --store redis", "error-is-grant");
    assert_eq!(broken, "BROKEN", "{report:#}");
    let because = report["verdict"]["because"].as_str().unwrap();
    assert!(because.contains("had the lock beside"), "{because}");
    // SETNX first, its expiry in a second step.
    let (stuck, report) = outcome("trial lost-reply --store redis --ttl 400", "two-steps");
    assert_eq!(stuck, "STUCK", "{report:#}");
    let elsewhere = tempfile::tempdir().unwrap();
    let flaws = format!("elsewhere={}", elsewhere.path().display());
    let (unclear, report) = outcome("trial lost-reply --store redis", &flaws);
    assert_eq!(unclear, "INCONCLUSIVE", "{report:#}");
}

#[test]
fn our_locks_survive_lost_replies_and_a_lock_in_two_steps_does_not() {
    for lock in ["safe", "watchdog", "fenced"] {
        tells(
            &format!("trial lost-reply --lock={lock} --ttl 1000"),
            0,
            "\
… N ✗ reply lost, connection cut
… HELD A lost reply was no grant beside B's, and the lock came free again.",
        );
    }
    tells(
        "trial lost-reply --lock=naive --ttl 400",
        3,
        "… STUCK A reply to A was lost, and N ms (N × TTL) later nobody can have the lock.",
    );
}

#[test]
fn a_late_reply_is_neither_a_grant_nor_a_reason_to_free_the_lock_of_another() {
    if !has_python() {
        return;
    }
    let (held, report) = outcome("trial pause-at-step --store redis", "");
    assert_eq!(held, "HELD", "{report:#}");
    for (flaws, said) in [
        (
            "from-reply",
            "A was granted the lock after a pause, although B held it.",
        ),
        (
            "late-grant never-stops",
            "A was granted the lock after a pause, although B held it.",
        ),
        (
            "get-then-delete",
            "A's late release gave B's lock away: C got the lock, too.",
        ),
    ] {
        let (broken, report) = outcome("trial pause-at-step --store redis", flaws);
        assert_eq!(broken, "BROKEN", "{flaws}: {report:#}");
        let because = report["verdict"]["because"].as_str().unwrap();
        assert!(because.starts_with(said), "{flaws}: {because}");
        assert_valid(&schema("report.json"), "trial", &report);
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let flaws = format!("never-stops elsewhere={}", elsewhere.path().display());
    let (unclear, report) = outcome("trial pause-at-step --store redis", &flaws);
    assert_eq!(unclear, "INCONCLUSIVE", "{report:#}");
}

#[test]
fn who_looks_at_the_clock_or_is_refused_withstands_a_pause_at_every_reply() {
    for lock in ["watchdog", "fenced"] {
        tells(
            &format!("trial pause-at-step --lock={lock}"),
            0,
            "\
… N reply held back
… HELD A's late replies did no harm: never two holders, no update lost, and B kept its lock.",
        );
    }
    for lock in ["safe", "naive"] {
        tells(
            &format!("trial pause-at-step --lock={lock}"),
            1,
            "… BROKEN A was granted the lock after a pause, although B held it. One update is lost.",
        );
    }
}

#[test]
fn a_recorded_cut_is_judged_alike_again_and_its_page_shows_it() {
    let folder = tempfile::tempdir().unwrap();
    let (history, page) = (
        folder.path().join("run.jsonl"),
        folder.path().join("page.html"),
    );
    let mut command = fencepost("trial cut --lock=watchdog -q --history");
    command.arg(&history).arg("--report").arg(&page);
    let ran = finish(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let again = finish(fencepost("check").arg(&history).output().unwrap());
    let words: Vec<&str> = again.stdout.split_whitespace().collect();
    assert_eq!(again.code, 0, "{}", again.stdout);
    let words = words.join(" ");
    assert!(words.contains("the recorded verdict stands."), "{words}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(
        page.contains("The lab cuts A off from its store: nothing passes, and nothing is closed.")
    );
}

#[test]
fn a_file_is_not_reached_through_a_connection() {
    let refused = run("trial cut --store sqlite");
    assert_eq!(refused.code, 64);
    let why = "error: no server: a file is not reached through a connection\n";
    assert!(refused.stderr.starts_with(why), "{}", refused.stderr);
    let list = run("gauntlet --list");
    let line =
        "  cut              not tried: no server: a file is not reached through a connection\n";
    assert!(list.stdout.contains(line), "{}", list.stdout);
    let list = run("gauntlet --list --store redis");
    assert!(
        list.stdout
            .contains("  cut              cut off from the store\n")
    );
}

#[test]
fn an_error_of_the_store_is_neither_a_grant_nor_a_release() {
    for lock in ["watchdog", "fenced"] {
        tells(
            &format!("trial store-errors --lock={lock}"),
            0,
            "… HELD An error was no grant and no release, and the lock came free again.",
        );
    }
    tells(
        "trial store-errors --lock=naive --ttl 400",
        3,
        "… STUCK The store answered A with -upstream failure, and N ms (N × TTL) later nobody can have",
    );
    let refused = run("trial store-errors --store postgres");
    assert_eq!(refused.code, 64, "{}", refused.stderr);
}

#[test]
fn our_locks_survive_lost_replies_to_a_release_and_to_a_renewal() {
    for lock in ["safe", "watchdog", "fenced"] {
        tells(
            &format!("trial lost-release --lock={lock}"),
            0,
            "… HELD The lock came free, and A's release left B's lock alone.",
        );
    }
    tells(
        "trial failed-renewal --lock=watchdog",
        0,
        "… HELD A kept its lock when a request failed: it renewed it in time.",
    );
}
