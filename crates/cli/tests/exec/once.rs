//! Tests of `fencepost once`: one machine runs the job, for a limited time, and a slot is not run twice, however a run ends.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::lost::{FAMILY, family, in_time, is_in_time};
use crate::stage::{Play, Ran, Stage, is_running, shape, until};

/// Returns the words of a command line that runs a shell script once.
fn words<'a>(flags: &'a str, script: &'a str) -> Vec<&'a str> {
    let mut words = vec!["once", "--name", "nightly"];
    words.extend(flags.split_whitespace());
    words.extend(["--", "sh", "-c", script]);
    words
}

fn start(stage: &Stage, flags: &str, script: &str) -> Play {
    stage.start(&words(flags, script))
}

fn run(stage: &Stage, flags: &str, script: &str) -> Ran {
    start(stage, flags, script).end()
}

/// Runs a job with `--json`, and returns its document.
fn document(stage: &Stage, flags: &str, script: &str) -> Value {
    let ran = run(stage, &format!("--json {flags}"), script);
    let last = ran.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr))
}

/// Returns why a job is skipped.
fn why(stage: &Stage, flags: &str) -> String {
    let document = document(stage, flags, "touch started");
    assert_eq!(document["state"], "skipped", "{document}");
    assert!(!stage.path("started").exists());
    document["why"].as_str().unwrap().to_owned()
}

const HOLD: &str = "echo > held; while [ ! -e go ]; do sleep 0.01; done";

#[test]
fn one_machine_runs_it_and_the_others_say_nothing() {
    let stage = Stage::new();
    let first = start(&stage, "--at-most 60s", HOLD);
    stage.until_lines("held", 1);
    let skipped = run(&stage, "--at-most 60s", "touch started");
    let said = (skipped.code(), &*skipped.stdout, &*skipped.stderr);
    assert_eq!(said, (0, "", ""), "cron would send a mail");
    assert_eq!(
        run(&stage, "--at-most 60s --skip-code 99", "false").code(),
        99
    );
    let seen = document(&stage, "--at-most 60s --skip-code 3", "touch started");
    assert_eq!(seen["schema"], "fencepost/once/1");
    assert_eq!(
        (&seen["state"], &seen["why"]),
        (&"skipped".into(), &"running".into())
    );
    assert_eq!(seen["exit_code"], 3);
    let by = seen["by"].as_str().unwrap();
    assert!(by.ends_with(&format!(":{}", first.pid())), "{by}");
    assert!(!stage.path("started").exists());
    std::fs::write(stage.path("go"), "").unwrap();
    let first = first.end();
    assert_eq!((first.code(), first.stderr.as_str()), (0, ""));
    let next = run(
        &stage,
        "--at-most 60s",
        "echo $FENCEPOST_NAME $FENCEPOST_FENCE",
    );
    assert_eq!(next.code(), 0, "{}", next.stderr);
    assert!(next.stdout.starts_with("nightly 1"), "{}", next.stdout);
    stage.until_empty();
}

#[test]
fn a_slot_is_run_once_by_all_machines_together() {
    let stage = Stage::new();
    let script = "echo $FENCEPOST_SLOT >> ran";
    let flags = "--at-most 60s --slot 2026-11-19";
    let all: Vec<_> = (0..6).map(|_| start(&stage, flags, script)).collect();
    for play in all {
        let ran = play.end();
        assert_eq!((ran.code(), ran.stderr.as_str()), (0, ""));
    }
    assert_eq!(stage.read("ran"), "2026-11-19\n");
    assert_eq!(why(&stage, flags), "completed");
    let next = document(&stage, "--at-most 60s --slot 2026-11-20", script);
    assert_eq!(next["state"], "completed");
    assert_eq!(next["slots_may_be_forgotten"], false);
    assert_eq!(stage.read("ran"), "2026-11-19\n2026-11-20\n");
}

#[test]
fn a_slot_is_run_again_after_a_failure_but_not_after_a_crash() {
    let stage = Stage::new();
    let flags = "--at-most 60s --slot a";
    let failed = run(&stage, flags, "exit 7");
    assert_eq!((failed.code(), failed.stderr.as_str()), (7, ""));
    let missing = [
        "once",
        "--name",
        "nightly",
        "--at-most",
        "60s",
        "--slot",
        "a",
        "--",
        "./none",
    ];
    assert_eq!(stage.run(&missing).code(), 127);
    let crashed = run(&stage, flags, "kill -KILL $$");
    assert_eq!(crashed.code(), 137, "{}", crashed.stderr);
    assert_eq!(why(&stage, flags), "crash_unknown");
    let again = document(&stage, &format!("{flags} --after-crash rerun"), "true");
    assert_eq!(again["state"], "completed", "{again}");
    assert_eq!(
        why(&stage, &format!("{flags} --after-crash rerun")),
        "completed"
    );
}

#[test]
fn a_machine_that_dies_blocks_the_others_for_its_ttl_and_its_slot_is_unknown() {
    let stage = Stage::new();
    let flags = "--at-most 10m --ttl 2s --slot a";
    let first = start(&stage, flags, FAMILY);
    let all = family(&stage);
    first.send(Signal::SIGKILL);
    until("the whole family is gone", || {
        !all.iter().any(|pid| is_running(*pid))
    });
    let mut last = String::new();
    until("the lease is over", || {
        last = why(&stage, flags);
        last != "running"
    });
    assert_eq!(last, "crash_unknown");
    stage.until_empty();
}

#[test]
fn a_job_and_all_it_started_is_stopped_when_its_time_is_over() {
    in_time(|| {
        let stage = Stage::new();
        let begun = Instant::now();
        let play = start(&stage, "--at-most 5s --grace 200ms --slot a", FAMILY);
        let all = family(&stage);
        let ran = play.end();
        assert!(!all.iter().any(|pid| is_running(*pid)));
        assert_eq!(ran.code(), 124, "{}", ran.stderr);
        let took = begun.elapsed();
        let said = shape(&ran.stderr, &stage.path(""));
        let said: Vec<&str> = said.lines().collect();
        assert_eq!(
            said[0],
            "fencepost: OUT OF TIME nightly at N:N:N UTC: it may run for at most N s"
        );
        if !is_in_time(said[1]) {
            return false;
        }
        assert!(took < Duration::from_secs(5), "{took:?}");
        let stays = "what the command did before is not undone (fence N). This slot is not run again (--after-crash skip).";
        assert!(said[2].contains(stays), "{said:?}");
        assert_eq!(why(&stage, "--at-most 5s --slot a"), "crash_unknown");
        let next = run(&stage, "--at-most 5s --slot b", "true");
        assert_eq!(next.code(), 0, "it is given back: {}", next.stderr);
        stage.until_empty();
        true
    });
}

#[test]
fn a_job_is_stopped_in_time_though_nobody_watches_it() {
    let stage = Stage::new();
    let play = start(
        &stage,
        "--at-most 4s --grace 200ms",
        "echo > held; exec sleep 1000",
    );
    stage.until_lines("held", 1);
    play.stop();
    let rival = || run(&stage, "--at-most 4s --skip-code 9", "echo > next").code();
    until("its lock is free", || rival() == 0);
    assert_eq!(
        stage.processes().len(),
        2,
        "only the stopped one and its warden are left"
    );
    play.send(Signal::SIGCONT);
    let ran = play.end();
    assert!(matches!(ran.code(), 124 | 125), "{}", ran.stderr);
    stage.until_empty();
}

#[test]
fn others_stay_away_after_a_quick_run() {
    let stage = Stage::new();
    let flags = "--at-most 60s --at-least 4s --ttl 1s";
    let begun = Instant::now();
    let quick = run(&stage, flags, "true");
    assert_eq!((quick.code(), quick.stderr.as_str()), (0, ""));
    let seen = document(&stage, flags, "touch started");
    assert_eq!(
        (&seen["state"], &seen["why"]),
        (&"skipped".into(), &"recently_ran".into())
    );
    assert!(
        seen["until"].is_string() && seen["by"].is_string(),
        "{seen}"
    );
    until("somebody else may run it", || {
        run(&stage, "--at-most 60s --skip-code 9", "true").code() == 0
    });
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_secs(4), "{waited:?}");
}

#[test]
fn a_job_whose_lock_is_taken_away_is_stopped() {
    let stage = Stage::new();
    let play = start(
        &stage,
        "--at-most 60s --ttl 2s",
        "echo > held; exec sleep 1000",
    );
    stage.until_lines("held", 1);
    let released = stage.run(&["locks", "release", "nightly", "--yes"]);
    assert_eq!(released.code(), 0, "{}", released.stderr);
    let ran = play.end();
    assert_eq!(ran.code(), 125, "{}", ran.stderr);
    let gone = "we no longer hold it: released by force, or forgotten";
    assert!(ran.stderr.contains(gone), "{}", ran.stderr);
    stage.until_empty();
}

#[test]
fn sigterm_is_for_the_command_which_decides() {
    let stage = Stage::new();
    let script = "trap 'echo stopped; exit 0' TERM; echo > held; while :; do sleep 0.02; done";
    let play = start(&stage, "--at-most 60s --slot a --json", script);
    stage.until_lines("held", 1);
    play.send(Signal::SIGTERM);
    let ran = play.end();
    assert_eq!(ran.code(), 0, "{}", ran.stderr);
    let (said, document) = ran.stdout.split_once('\n').unwrap();
    assert_eq!(said, "stopped");
    let document: Value = serde_json::from_str(document).unwrap();
    assert_eq!(document["state"], "completed");
}

#[test]
fn old_slots_are_forgotten_and_refused() {
    let stage = Stage::new();
    assert_eq!(
        run(&stage, "--at-most 60s --slot 2026-11-18", "true").code(),
        0
    );
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(
        run(
            &stage,
            "--at-most 60s --slot 2026-11-19 --keep 10ms",
            "true"
        )
        .code(),
        0
    );
    for slot in ["2026-11-18", "2026-11-01"] {
        assert_eq!(
            why(&stage, &format!("--at-most 60s --slot {slot}")),
            "below_floor"
        );
    }
}

#[test]
fn what_cannot_be_is_an_error_of_usage() {
    let stage = Stage::new();
    for (flags, what) in [
        ("", "the longest time that the job may take is missing"),
        ("--at-most 10ms", "too short to stop a command in time"),
        ("--at-most 1m --at-least 2m", "is more than at_most"),
        (
            "--at-most 1m --after-crash maybe",
            "'maybe' is neither skip nor rerun",
        ),
        ("--at-most 1m --skip-code 256", "--skip-code"),
        ("--at-most 1m --slot \u{1b}", "control characters"),
        ("--at-most 1m --ttl 1ms", "a TTL of 1ms is too short"),
        ("--at-most 1s --grace 1s", "a grace of 1s is too long"),
    ] {
        let ran = run(&stage, flags, "touch started");
        assert_eq!(ran.code(), 64, "{flags}: {}", ran.stderr);
        assert!(ran.stderr.contains(what), "{}", ran.stderr);
        assert!(!stage.path("started").exists());
    }
    let nowhere = Stage::with_store("redis://127.0.0.1:1".to_owned());
    let ran = run(&nowhere, "--at-most 1m", "true");
    assert_eq!(ran.code(), 69, "{}", ran.stderr);
}
