//! Tests of the terminal output of lock trials: shape and wording, with numbers masked.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::interrupt::send;
use crate::{Ran, fencepost, finish, run, shape};

/// How many runs may be needed until the picture is the expected one: what happens within 25 ms stands on one line, and a busy machine is
/// not always that quick. It may also be too slow to show anything (INCONCLUSIVE). Any other exit code has to be right every time.
const PICTURES: usize = 5;
/// The exit code of a trial that showed nothing.
const INCONCLUSIVE: i32 = 2;

/// Runs it, and expects this exit code and these lines in this order, masked; `…` skips lines.
pub(crate) fn tells(arguments: &str, code: i32, expected: &str) -> Ran {
    let mut missing = String::new();
    for _ in 0..PICTURES {
        let ran = run(arguments);
        if ran.code == INCONCLUSIVE && code != INCONCLUSIVE {
            missing = ran.stdout;
            continue;
        }
        assert_eq!(ran.code, code, "{arguments}\n{}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stderr, "", "{arguments}");
        assert!(
            ran.stdout.lines().all(|line| line.chars().count() <= 100),
            "{}",
            ran.stdout
        );
        let shape = shape(&ran.stdout);
        match first_missing(&shape, expected) {
            None => return ran,
            Some(line) => missing = format!("no line '{line}' in\n{shape}"),
        }
    }
    panic!("{arguments}: {missing}");
}

/// The first expected line that is not where it should be.
fn first_missing<'a>(shape: &str, expected: &'a str) -> Option<&'a str> {
    let mut lines = shape.lines();
    expected.lines().find(|line| {
        let found = match line.strip_prefix("… ") {
            Some(later) => lines.find(|found| *found == later),
            None => lines.next().filter(|found| found == line),
        };
        found.is_none()
    })
}

#[test]
fn a_dead_holders_lock_is_free_after_its_lease() {
    tells(
        "crash --ttl 500 --seed 7041",
        0,
        "\
crash the holder is killed: how long until somebody else gets the lock?
lock safe TTL N ms (the lease, then it is free) store sqlite (one machine) seed N

at ms A B
N granted, starts to work
N ✗ SIGKILL
N tries once: refused; then waits
N granted

HELD Recovered by itself, N ms after the kill.
… witness A died of signal N while holding; B was refused N ms later
limits nobody could work for N s. A shorter TTL recovers sooner and is overrun sooner.
next fencepost crash --lock=naive --ttl N · fencepost crash --ttl-edge",
    );
}

#[test]
fn a_lock_made_in_two_steps_is_stuck_when_its_maker_dies_in_between() {
    tells(
        "crash --lock=naive --ttl 300",
        3,
        "\
crash the holder is killed: how long until somebody else gets the lock?
lock naive TTL N ms (the lease, then it is free) store sqlite (one machine) seed N

at ms A B
N step N of N: creates the key
N ✗ SIGKILL, before step N
N tries once: refused; then waits
N gives up: N × TTL since the kill

STUCK The holder is dead, and N ms (N × TTL) later nobody can have its lock.
proof #N N ms A is killed (signal N) between its two steps
#N N ms B is still refused
#N N ms the lab reads the store: key there, no expiry, owner gone
why naive creates the key and sets its expiry in two steps; a death in between is forever.
next fencepost crash --lock=safe --ttl N both in one step",
    );
}

#[test]
fn work_beyond_the_lease_loses_an_update() {
    tells(
        "crash --ttl-edge --ttl 400 --work 700",
        1,
        "\
crash --ttl-edge A's work takes longer than its lock lasts; both add N to a shared number
lock safe TTL N ms work N ms store sqlite (one machine) seed N

at ms A B
N granted; reads N; works op N
… N lease over by now; A does not know
… N ✗ writes N over it op N
N release: no longer the owner

BROKEN A wrote over B's update, N ms or more after its lease had ended. One is lost.
proof op N N ms A reads N
op N N ms B, granted in between, writes N
op N N ms A writes N: computed from op N, B's update is gone
belief two holders for N ms: B from N to N, A from N to N ms
damage N additions acknowledged, the number is N
why A token guards the release, not the work: A is never asked again whether it still holds.
next fencepost crash --ttl-edge --lock=watchdog --ttl N --work N
fencepost crash --ttl-edge --lock=fenced --ttl N --work N",
    );
}

#[test]
fn a_fence_makes_the_late_write_harmless() {
    let ran = tells(
        "crash --ttl-edge --ttl 400 --work 700 --lock=fenced",
        0,
        "\
crash --ttl-edge A's work takes longer than its lock lasts; both add N to a shared number
lock fenced TTL N ms work N ms store sqlite (one machine) seed N
fence = a number that grows with every grant; the resource refuses a lower one

… HELD No damage: the resource refused A's late write (fence N; it had seen N).
witness A's lease was over by N ms, and A wrote at N ms
belief still two holders for N ms; harmless, because the resource asked for the fence
limits every resource must check the fence, on reads too; what cannot check is not protected",
    );
    assert!(
        shape(&ran.stdout).contains("– write refused: N < N op N"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_renewed_lease_keeps_the_other_out() {
    tells(
        "crash --ttl-edge --ttl 400 --work 700 --lock=watchdog",
        0,
        "… HELD B got the lock only after A had released it: never two holders, no update lost.
witness A worked N ms on a lease of N ms; B waited, and got the lock N ms after A
released it",
    );
}

#[test]
fn the_ttl_ends_a_deadlock_and_both_get_both_locks() {
    tells(
        "deadlock --ttl 500 --seed 7041",
        1,
        "\
deadlock two processes take two locks in opposite order, then each adds N to a shared number
lock safe TTL N ms (the lease, then it is free) store sqlite (one machine) seed N

at ms A: product_A, then product_B B: product_B, then product_A
… ── wait cycle: A waits for B, B waits for A, for N ms ──
… BROKEN Two holders at once: the TTL ended both leases, and both processes got both locks. One
update is lost.
proof #N N ms wait cycle: A waits for B, B waits for A, until N ms
… belief two holders of product_A for N ms
damage N additions acknowledged, the number is N
why A lease that ends while its holder waits no longer protects what the holder believes.
next fencepost deadlock --sorted both take the locks in the same order",
    );
}

#[test]
fn in_the_same_order_nobody_waits_in_a_circle() {
    tells(
        "deadlock --sorted",
        0,
        "… at ms A: product_A, then product_B B: product_A, then product_B (sorted)
… HELD Both finished, one after the other: no wait cycle, never two holders, no update lost.
witness B met product_A taken and waited N ms for it
limits works only if everybody sorts; one program that does not brings the deadlock back",
    );
}

#[test]
fn the_order_of_a_deadlock_is_named_after_its_scenario() {
    for flag in ["--sorted", "--mitigate"] {
        let ran = fencepost(&format!("deadlock {flag} --json"))
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(0), "{flag}");
        let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(report["scenario"], "deadlock-sorted", "{flag}");
    }
    let help = fencepost("deadlock --help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(
        help.contains("--sorted") && !help.contains("--mitigate"),
        "{help}"
    );
}

#[test]
fn renewed_leases_make_a_deadlock_last() {
    tells(
        "deadlock --ttl 300 --lock=watchdog",
        3,
        "… STUCK Both wait for each other, and N ms (N × TTL) later neither has made progress.
proof #N N ms wait cycle: A waits for B, B waits for A",
    );
}

#[test]
fn a_late_release_gives_anothers_lock_away_or_does_not() {
    for lock in ["blind-delete", "get-then-delete"] {
        tells(
            &format!("trial stale-release --lock={lock}"),
            1,
            "… BROKEN A's late release gave B's lock away: C got the lock, too. One update is lost.",
        );
    }
    for lock in ["safe", "watchdog"] {
        tells(
            &format!("trial stale-release --lock={lock}"),
            0,
            "… HELD A's late release changed nothing: B kept its lock, and C was refused.",
        );
    }
}

#[test]
fn a_write_after_a_pause_does_damage_unless_it_is_refused_or_not_made() {
    tells(
        "trial pause --lock=safe",
        1,
        "… BROKEN A wrote over B's update, N ms or more after its lease had ended. One is lost.",
    );
    tells(
        "trial pause --lock=watchdog",
        0,
        "… HELD A stopped itself: it wrote nothing after its lock was lost.",
    );
    tells(
        "trial pause --lock=fenced",
        0,
        "… HELD No damage: the resource refused A's late write (fence N; it had seen N).",
    );
}

#[test]
fn a_purchase_without_stock_keeps_its_lock_or_gives_it_back() {
    tells(
        "trial short-stock --ttl 300 --lock=late-expiry",
        3,
        "… STUCK Nobody died, and N ms (N × TTL) after a purchase without stock nobody can buy any more.
proof #N N ms A gets its turn and finds nothing left
#N N ms B still finds the lock taken
#N N ms the lab reads the store: key there, no expiry, owner done with it",
    );
    tells(
        "trial short-stock",
        0,
        "… HELD The purchase that found nothing released its lock: the next one was served.",
    );
}

#[test]
fn quiet_leaves_the_result_and_work_within_the_lease_shows_nothing() {
    let ran = run("crash --ttl-edge --ttl 400 --work 0 -q");
    assert_eq!(ran.code, 2);
    let expected = "\
INCONCLUSIVE Nothing broke, and nothing was tested: A was done before its lease was over.
missing work beyond the lease: --work longer than --ttl.
";
    assert!(shape(&ran.stdout).ends_with(expected), "{}", ran.stdout);
    assert!(!ran.stdout.contains("at ms"), "{}", ran.stdout);
}

#[test]
fn lines_come_while_the_trial_runs() {
    use std::io::{BufRead, BufReader};
    let started = Instant::now();
    let mut child = fencepost("crash --ttl 30000")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let refused = |line: &String| line.contains("tries once: refused");
    let seen = lines.map(Result::unwrap).find(refused);
    assert!(seen.is_some());
    // The lock becomes free no earlier than its TTL.
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
    // Interrupted rather than killed, because it has a temporary folder to remove.
    send(&child, Signal::SIGINT);
    child.wait().unwrap();
}

#[test]
fn a_scenario_with_a_command_of_its_own_also_runs_by_name() {
    for (by_name, command) in [
        ("trial crash", "crash"),
        ("trial deadlock", "deadlock"),
        ("trial deadlock-sorted", "deadlock --sorted"),
        ("trial ttl-edge --work 450", "crash --ttl-edge --work 450"),
    ] {
        let more = "--lock=watchdog --ttl 300 --seed 7 --quiet";
        let (named, own) = (
            run(&format!("{by_name} {more}")),
            run(&format!("{command} {more}")),
        );
        assert_eq!((named.code, named.stderr.as_str()), (own.code, ""));
        assert_eq!(shape(&named.stdout), shape(&own.stdout), "{by_name}");
    }
}

#[test]
fn a_flag_of_another_scenario_is_refused_with_the_command_that_has_it() {
    for (arguments, what, advice) in [
        (
            "trial pause --work 450",
            "--work belongs to trial ttl-edge",
            "fencepost trial ttl-edge --work",
        ),
        (
            "trial crash --runs 2",
            "--runs belongs to trial storm",
            "fencepost trial storm --runs",
        ),
        (
            "trial crash --shrink",
            "--shrink belongs to trial storm",
            "fencepost trial storm --shrink",
        ),
        (
            "trial storm --store sqlite --faults kill,cut",
            "no cuts here: no server: a file is not reached through a connection",
            "fencepost trial storm --faults kill,pause",
        ),
        // Before the store is asked: nobody is there.
        (
            "trial storm --store redis://127.0.0.1:1 --faults server",
            "no server faults here: the lab stops no servers but its own",
            "fencepost trial storm --faults kill,pause",
        ),
        (
            "trial storm --faults earthquake",
            "there is no fault 'earthquake'",
            "--faults kill,pause,cut,delay,server,clock",
        ),
        (
            "trial deadlock --sorted",
            "there is no flag '--sorted'",
            "fencepost deadlock --sorted      or fencepost trial deadlock-sorted",
        ),
        (
            "trial crash --ttl-edge",
            "there is no flag '--ttl-edge'",
            "fencepost crash --ttl-edge      or fencepost trial ttl-edge",
        ),
        (
            "trial oversell",
            "there is no trial 'oversell'",
            "fencepost oversell",
        ),
    ] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (64, ""), "{arguments}");
        let first = format!("error: {what}\n  where     ");
        let last = format!("\n  try       {advice}\n");
        assert!(
            ran.stderr.starts_with(&first) && ran.stderr.ends_with(&last),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn what_makes_no_sense_is_said_before_anything_runs() {
    for (arguments, what) in [
        (
            "crash --lock=none",
            "none has no lock that a process could hold",
        ),
        ("crash --ttl 5", "a TTL of 5 ms is too short"),
        ("crash --work forever", "'forever' is not a duration"),
        ("trial", "a name is missing"),
        ("trial stale", "there is no trial 'stale'"),
        ("deadlock --ttl-edge", "there is no flag '--ttl-edge'"),
        ("check", "a file is missing"),
        (
            "crash --output x --history x",
            "--output and --history name the same file",
        ),
    ] {
        let ran = run(arguments);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (64, ""),
            "{arguments}: {}",
            ran.stderr
        );
        assert!(
            ran.stderr.starts_with(&format!("error: {what}\n")),
            "{arguments}: {}",
            ran.stderr
        );
    }
    assert!(
        run("trial stale")
            .stderr
            .contains("fencepost trial stale-release")
    );
    assert_eq!(run("crash --lock help").code, 0);
}

#[test]
fn a_full_disk_is_told_and_what_is_there_can_be_read() {
    let ran = run("crash --ttl 300 --history /dev/full");
    assert_eq!(ran.code, 74, "{}", ran.stderr);
    let ran = finish(
        fencepost("crash --ttl 300 --output /dev/full")
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 74, "{}", ran.stderr);
}
