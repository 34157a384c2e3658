//! Tests of `gauntlet`: the verdict of each scenario, files that can be judged again, and a clean end when it is interrupted.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::interrupt::{processes, send, until};
use crate::schema::{assert_valid, schema};
use crate::{Ran, fencepost, finish, run};

const LEASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../subjects/lease");

/// What a plain lease withstands on one machine, and what it does not.
const OF_A_LEASE: [(&str, &str); 10] = [
    ("crash", "HELD"),
    ("deadlock", "BROKEN"),
    ("deadlock-sorted", "HELD"),
    ("lost-wakeup", "HELD"),
    ("oversell", "HELD"),
    ("pause", "BROKEN"),
    ("short-stock", "HELD"),
    ("stale-release", "HELD"),
    ("storm", "HELD"),
    ("ttl-edge", "BROKEN"),
];

fn verdicts(document: &Value) -> BTreeMap<&str, &str> {
    let scenarios = document["scenarios"].as_array().unwrap();
    scenarios
        .iter()
        .map(|entry| {
            (
                entry["scenario"].as_str().unwrap(),
                entry["outcome"].as_str().unwrap(),
            )
        })
        .collect()
}

fn as_json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr))
}

#[test]
fn a_plain_lease_breaks_where_its_lease_ends_and_every_history_is_judged_alike_again() {
    let folder = tempfile::tempdir().unwrap();
    let (results, page) = (
        folder.path().join("results"),
        folder.path().join("page.html"),
    );
    let mut command = fencepost("gauntlet --lock=safe --seed 7041 --json --output");
    command.arg(&results).arg("--report").arg(&page);
    let ran = finish(command.output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""), "{}", ran.stdout);
    let document = as_json(&ran);
    assert_valid(&schema("report.json"), "gauntlet", &document);
    assert_eq!(verdicts(&document), BTreeMap::from(OF_A_LEASE));
    let left_out = document["not_tried"].as_array().unwrap();
    let left_out: Vec<&str> = left_out
        .iter()
        .map(|entry| entry["scenario"].as_str().unwrap())
        .collect();
    let expected = [
        "cut",
        "slow-replies",
        "lost-reply",
        "failover",
        "restart-empty",
    ];
    assert_eq!(left_out, expected);
    for (scenario, _) in OF_A_LEASE {
        judged_alike_again(&results.join(scenario));
    }
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("safe broke in 3 of 10 scenarios."));
    for (scenario, _) in OF_A_LEASE {
        assert!(page.contains(&format!("safe.{scenario}\"")), "{scenario}");
    }
}

/// Judges the history again. `stem` is the path of its files without the extension.
fn judged_alike_again(stem: &Path) {
    let report = std::fs::read(stem.with_extension("json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    let history = stem.with_extension("jsonl");
    let again = finish(fencepost("check --json").arg(&history).output().unwrap());
    let name = stem.display();
    assert_eq!(again.code, report["verdict"]["exit_code"], "{name}");
    assert_eq!(as_json(&again)["stands"], Value::Bool(true), "{name}");
}

#[test]
fn a_fenced_lock_holds_in_every_scenario() {
    let ran = run("gauntlet --lock=fenced --json");
    let document = as_json(&ran);
    let broken: Vec<_> = verdicts(&document)
        .into_iter()
        .filter(|(_, outcome)| *outcome != "HELD")
        .collect();
    assert_eq!(broken, [], "{}", ran.stdout);
    assert_eq!(ran.code, 0);
}

#[test]
fn an_external_lock_is_tried_like_ours() {
    let mut command = fencepost("gauntlet --json --seed 7041");
    let lock = format!("--lock={LEASE}");
    let ran = finish(command.arg(&lock).output().unwrap());
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let document = as_json(&ran);
    assert_eq!(verdicts(&document), BTreeMap::from(OF_A_LEASE));
    assert_eq!(
        document["reproduce"],
        format!("fencepost gauntlet {lock} --seed 7041")
    );
}

#[test]
fn a_lock_that_cannot_buy_is_tried_in_everything_else() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../subjects/lease-shell");
    let mut command = fencepost("gauntlet --json --scenario oversell --scenario crash");
    let ran = finish(command.arg(format!("--lock={folder}")).output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let document = as_json(&ran);
    assert_eq!(verdicts(&document), BTreeMap::from([("crash", "HELD")]));
    let untried = &document["not_tried"].as_array().unwrap()[0];
    assert_eq!(untried["scenario"], "oversell");
    let why = untried["why"].as_str().unwrap();
    assert!(why.starts_with("the lock says: "), "{why}");
}

#[test]
fn the_table_names_the_verdict_the_promise_the_ground_and_the_command() {
    let ran = run("gauntlet --scenario crash --scenario pause --runs 2 --seed 7 --lock=watchdog");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    for line in [
        "✓ HELD 2 of 2           crash            the holder is killed\n",
        "✓ HELD 2 of 2           pause            paused between read and write\n",
        "  judged by no update is lost, which it does not claim beyond its lease\n",
        "  witness   A was stopped for ",
        "  again     fencepost trial pause --lock=watchdog --seed ",
        "\nHELD   watchdog held in all of 2 scenarios. It took ",
        "  held      crash (the holder is killed), pause (paused between read and write)\n",
        "  not tried oversell, deadlock, deadlock-sorted, ttl-edge, ",
    ] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 100));
    assert_eq!(ran.stderr.lines().count(), 4, "{}", ran.stderr);
}

#[test]
fn the_list_says_what_is_not_tried_and_starts_nothing() {
    let ran = run("gauntlet --list");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert_eq!(ran.stdout.lines().count(), 15);
    let last = "  restart-empty    not tried: a file has no server that could fail\n";
    assert!(ran.stdout.ends_with(last), "{}", ran.stdout);
    let yours = run("gauntlet --list --store redis://192.0.2.1");
    assert_eq!(yours.code, 0, "no server is asked: {}", yours.stderr);
}

#[test]
fn a_misspelt_scenario_gets_a_suggestion() {
    let ran = run("gauntlet --scenario puase");
    assert_eq!(ran.code, 64);
    for words in ["there is no scenario 'puase'", "--scenario pause "] {
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (temporary, results) = (folder.path().join("tmp"), folder.path().join("results"));
    std::fs::create_dir(&temporary).unwrap();
    let mut command = fencepost("gauntlet --ttl 60000 --scenario pause --output");
    command.arg(&results).env("TMPDIR", &temporary);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let history = results.join("pause.jsonl");
    until("the holder is stopped", || {
        let text = std::fs::read_to_string(&history).unwrap_or_default();
        text.contains(r#""fault":"stopped""#)
    });
    send(&child, Signal::SIGINT);
    let ran = finish(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    let told = "interrupted: 0 of 1 trials were finished.";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    assert_eq!(processes(&temporary), [] as [i32; 0]);
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    assert!(!history.exists());
}

#[test]
fn a_ladder_shows_which_lock_is_the_first_to_withstand_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let (results, page) = (
        folder.path().join("results"),
        folder.path().join("page.html"),
    );
    let mut command = fencepost(
        "gauntlet --lock=blind-delete --ladder --scenario crash --scenario ttl-edge --seed 7 --output",
    );
    command.arg(&results).arg("--report").arg(&page);
    let ran = finish(command.output().unwrap());
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let verdicts = |scenario: &str| -> Vec<String> {
        let row = ran
            .stdout
            .lines()
            .find(|line| line.trim_start().starts_with(scenario));
        let words = row
            .unwrap_or_else(|| panic!("{}", ran.stdout))
            .split_whitespace();
        words.skip(2).step_by(2).map(str::to_owned).collect()
    };
    assert_eq!(verdicts("crash"), ["STUCK", "HELD", "HELD", "HELD", "HELD"]);
    let over = verdicts("ttl-edge");
    assert_eq!(over[1..], ["BROKEN", "HELD", "HELD", "BROKEN"]);
    let helps = "crash: safe; ttl-edge:";
    assert!(ran.stdout.contains(helps), "{}", ran.stdout);
    judged_alike_again(&results.join("safe-ttl-edge"));
    judged_alike_again(&results.join("on-trial-ttl-edge"));
    let page = std::fs::read_to_string(&page).unwrap();
    for run in ["naive.crash\"", "fenced.ttl-edge\"", "blind-delete.crash\""] {
        assert!(page.contains(run), "{run}");
    }
}

#[test]
fn a_ladder_in_json_has_the_gauntlet_of_every_lock() {
    let ran = run("gauntlet --lock=safe --ladder --scenario crash --seed 7 --json");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let document = as_json(&ran);
    assert_valid(&schema("report.json"), "ladder", &document);
    let rungs = document["rungs"].as_array().unwrap();
    let locks: Vec<&str> = rungs
        .iter()
        .map(|rung| rung["lock"].as_str().unwrap())
        .collect();
    assert_eq!(locks, ["naive", "watchdog", "fenced", "safe"]);
}
