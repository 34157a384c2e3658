//! Tests of trials in which a server misbehaves and lives on: its clock jumps, or it evicts a held lock.

use crate::holds::tells;
use crate::{fencepost, finish, run};

#[test]
fn a_clock_that_jumps_forward_lets_a_second_one_in_unless_the_resource_refuses() {
    tells(
        "trial server-clock --seed 7041",
        1,
        "\
trial server-clock the server's clock jumps forward while A holds the lock and B wants it
lock safe TTL N ms store redis (a private server) seed N

at ms A B
… N tries once: refused
N ── the server is an hour ahead: its clock has jumped forward ──
… N writes N op N
… BROKEN Two holders at once: the server had set its clock forward. One update is lost.
… why The server ends a lease by its time of day: when that jumps, every lease may end at
… next fencepost trial server-clock --lock=fenced lets the resource refuse A",
    );
    tells(
        "trial server-clock --lock=watchdog",
        1,
        "… BROKEN Two holders at once: the server had set its clock forward. One update is lost.",
    );
    tells(
        "trial server-clock --lock=fenced",
        0,
        "… HELD No damage: the resource refused A's late write (fence …N; it had seen …N).",
    );
    tells(
        "trial server-clock --lock=late-expiry",
        0,
        "… HELD A's lock did not end by the server's time of day: B got it only after A had released it.",
    );
}

#[test]
fn a_clock_that_jumps_back_keeps_a_dead_holders_lock() {
    for lock in ["safe", "watchdog", "fenced"] {
        tells(
            &format!("trial clock-back --lock={lock} --ttl 400"),
            3,
            "\
… N ── the server is an hour behind: its clock has jumped back ──
… N ✗ SIGKILL
… STUCK The holder is dead, and N ms (N × TTL) later nobody can have its lock.
proof #N N ms the server is an hour behind: its clock has jumped back
#N N ms A is killed (signal N) while holding
… why The server ends a lease by its time of day: since that jumped back, a lease of N ms",
        );
    }
}

#[test]
fn a_server_that_evicts_lets_a_second_one_in_unless_the_resource_refuses() {
    for lock in ["safe", "watchdog"] {
        tells(
            &format!("trial eviction --lock={lock}"),
            1,
            "\
… N ── the server is short of memory: it has evicted every key it had ──
… BROKEN Two holders at once: the server had evicted its keys. One update is lost.
… why A server that may evict any key evicts a held lock like anything else, and tells nobody.",
        );
    }
    tells(
        "trial eviction --lock=fenced",
        0,
        "… HELD No damage: the resource refused A's late write (fence …N; it had seen …N).",
    );
}

#[test]
fn a_recorded_jump_is_judged_alike_again() {
    let folder = tempfile::tempdir().unwrap();
    for (name, code) in [("server-clock", 1), ("clock-back", 3), ("eviction", 1)] {
        let history = folder.path().join(format!("{name}.jsonl"));
        let mut command = fencepost(&format!("trial {name} -q --history"));
        let ran = finish(command.arg(&history).output().unwrap());
        assert_eq!(ran.code, code, "{}{}", ran.stdout, ran.stderr);
        let again = finish(fencepost("check").arg(&history).output().unwrap());
        assert_eq!(again.code, code, "{}", again.stdout);
        assert!(again.stdout.contains("verdict stands"), "{}", again.stdout);
    }
}

#[test]
fn a_lock_that_keeps_nothing_on_the_server_shows_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/command/network/resp_lock.py"
    );
    for name in ["server-clock", "eviction"] {
        let elsewhere = folder.path().join(name);
        std::fs::create_dir(&elsewhere).unwrap();
        let mut command = fencepost(&format!("trial {name} --json"));
        let lock = format!("python3 {script} elsewhere={}", elsewhere.display());
        let ran = finish(command.arg(format!("--lock={lock}")).output().unwrap());
        assert_eq!(ran.code, 2, "{}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn without_a_c_compiler_the_clock_is_not_set_and_that_is_said() {
    let empty = tempfile::tempdir().unwrap();
    let mut command = fencepost("trial server-clock");
    let ran = finish(command.env("PATH", empty.path()).output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (71, ""), "{}", ran.stderr);
    assert!(
        ran.stderr
            .starts_with("error: this trial needs a C compiler (cc), "),
        "{}",
        ran.stderr
    );
    let mut command = fencepost("gauntlet --list --store redis");
    let ran = finish(command.env("PATH", empty.path()).output().unwrap());
    let line = "server-clock     not tried: needs a C compiler (cc), to set the clock of one program alone";
    assert!(ran.stdout.contains(line), "{}", ran.stdout);
}

#[test]
fn stores_without_such_a_server_are_refused() {
    for (name, store) in [("server-clock", "sqlite"), ("eviction", "postgres")] {
        let ran = run(&format!("trial {name} --store {store}"));
        assert_eq!((ran.code, ran.stdout.as_str()), (64, ""), "{}", ran.stderr);
    }
}
