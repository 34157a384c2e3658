//! Tests of `gauntlet`: the verdict of each scenario, files that can be judged again, and a clean end when it is interrupted.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use fencepost_rig::PidSpace;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::interrupt::{processes, send, until};
use crate::schema::{assert_valid, schema};
use crate::{Ran, fencepost, finish, run};

const LEASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../subjects/lease");

/// What a plain lease withstands on one machine, and what it does not.
const OF_A_LEASE: [(&str, &str); 19] = [
    ("client-clock", "HELD"),
    ("crash", "HELD"),
    ("deadline", "HELD"),
    ("deadlock", "BROKEN"),
    ("deadlock-sorted", "HELD"),
    ("late-write", "BROKEN"),
    ("lost-wakeup", "HELD"),
    ("names", "HELD"),
    ("oversell", "HELD"),
    ("pause", "BROKEN"),
    ("reentry", "HELD"),
    ("same-pid", "HELD"),
    ("short-stock", "HELD"),
    ("stale-release", "HELD"),
    ("storm", "HELD"),
    ("ttl-edge", "BROKEN"),
    ("turns", "HELD"),
    ("waiters", "HELD"),
    ("write-only-fence", "BROKEN"),
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

pub(crate) fn as_json(ran: &Ran) -> Value {
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
    let mut tried = BTreeMap::from(OF_A_LEASE);
    // Without the right to make a PID namespace, that one is left out.
    tried.retain(|name, _| *name != "same-pid" || PidSpace::lacks().is_none());
    assert_eq!(verdicts(&document), tried);
    let left_out = document["not_tried"].as_array().unwrap();
    let left_out: Vec<&str> = left_out
        .iter()
        .map(|entry| entry["scenario"].as_str().unwrap())
        .filter(|name| *name != "same-pid")
        .collect();
    let expected = [
        "order",
        "cut",
        "cut-replies",
        "cut-requests",
        "slow-replies",
        "lost-reply",
        "lost-release",
        "store-errors",
        "pause-at-step",
        "failed-renewal",
        "many-leases",
        "dead-connection",
        "vanish",
        "failover",
        "restart-empty",
        "restart-behind",
        "server-clock",
        "clock-back",
        "eviction",
        "taken-away",
        "deposed",
        "server-stall",
        "majority-down",
        "leader-deaths",
        "suspend",
    ];
    assert_eq!(left_out, expected);
    for scenario in tried.keys() {
        judged_alike_again(&results.join(scenario));
    }
    let page = std::fs::read_to_string(&page).unwrap();
    let broke = format!("safe broke in 5 of {} scenarios", tried.len());
    assert!(page.contains(&broke));
    assert!(page.contains("limit of its kind: it is the reference lock of its kind"));
    for entry in document["scenarios"].as_array().unwrap() {
        let label = &entry["label"]["name"];
        let is_bad = entry["outcome"] == "BROKEN";
        assert_eq!(label == "limit_of_its_kind", is_bad, "{entry:#}");
    }
    for scenario in tried.keys() {
        assert!(page.contains(&format!("safe.{scenario}\"")), "{scenario}");
    }
}

/// Judges the history again. `stem` is the path of its files without the extension.
pub(crate) fn judged_alike_again(stem: &Path) {
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
fn a_conviction_is_explained_by_a_lock_of_the_same_kind_whose_history_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let mut command = fencepost("gauntlet --json --seed 7041 --scenario pause --output");
    command.arg(&results).arg(format!("--lock={LEASE}"));
    let ran = finish(command.output().unwrap());
    let document = as_json(&ran);
    assert_valid(&schema("report.json"), "gauntlet", &document);
    assert_eq!(document["kind"]["hold"], "lease");
    let label = &document["scenarios"][0]["label"];
    assert_eq!(label["name"], "limit_of_its_kind", "{label:#}");
    assert_eq!(label["reference"]["lock"], "safe", "{label:#}");
    assert_eq!(label["reference"]["convicted"], 1, "{label:#}");
    judged_alike_again(&results.join("reference-pause"));
}

#[test]
fn the_files_of_the_reference_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = fencepost("gauntlet --seed 7041 --scenario pause --output");
    command.arg(folder.path()).arg(format!("--lock={LEASE}"));
    let ran = finish(command.output().unwrap());
    let histories = std::fs::read_dir(folder.path()).unwrap();
    let histories = histories.filter(|file| {
        let name = file.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".jsonl")
    });
    assert_eq!(histories.count(), 2);
    let told = ": 2 × JSON and history";
    assert!(ran.stdout.contains(told), "{}", ran.stdout);
}

#[test]
fn what_a_manifest_admits_is_a_documented_limit() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["lease.py", "subject.toml"] {
        std::fs::copy(Path::new(LEASE).join(file), folder.path().join(file)).unwrap();
    }
    let manifest = folder.path().join("subject.toml");
    let plain = std::fs::read_to_string(&manifest).unwrap();
    let limits = |scenario: &str| {
        let said = "{ quote = \"Do not pause.\", place = \"README\" }";
        let text = format!("{plain}\n[limits.{scenario}]\nwhere = {said}\n");
        std::fs::write(&manifest, text).unwrap();
        let mut command = fencepost("gauntlet --seed 7 --scenario pause");
        let lock = format!("--lock={}", folder.path().display());
        finish(command.arg(lock).output().unwrap())
    };
    let ran = limits("pause");
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let label = "  label     documented limit: \"Do not pause.\" (README)\n";
    assert!(ran.stdout.contains(label), "{}", ran.stdout);
    let wrong = limits("puase");
    assert_eq!(wrong.code, 64, "{}", wrong.stdout);
    let told = "unknown scenario `puase`";
    assert!(wrong.stderr.contains(told), "{}", wrong.stderr);
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

/// A lock whose third process dies at its start. Only some scenarios have a third process.
fn moody(folder: &Path) -> String {
    let script = folder.join("lock.sh");
    let lease = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../subjects/lease-shell/lease.sh"
    );
    let plain = std::fs::read_to_string(lease).unwrap();
    let dying = "init)\n case $ask in *'\"id\":\"C\"'*) echo 'no database' >&2; exit 4;; esac\n";
    let text = plain.replacen("init)\n", dying, 1);
    assert_ne!(text, plain);
    std::fs::write(&script, text).unwrap();
    format!("sh {}", script.display())
}

#[test]
fn a_program_that_does_not_get_ready_ends_its_trial_and_not_the_gauntlet() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let mut command = fencepost(
        "gauntlet --json --seed 7 --scenario crash --scenario deadlock-sorted --scenario stale-release --output",
    );
    command.arg(&results);
    let lock = format!("--lock={}", moody(folder.path()));
    let ran = finish(command.arg(lock).output().unwrap());
    assert_eq!(ran.code, 2, "{}{}", ran.stdout, ran.stderr);
    let document = as_json(&ran);
    let outcomes = verdicts(&document);
    let expected = [
        ("crash", "HELD"),
        ("deadlock-sorted", "HELD"),
        ("stale-release", "INCONCLUSIVE"),
    ];
    assert_eq!(outcomes, BTreeMap::from(expected));
    let scenarios = document["scenarios"].as_array().unwrap();
    let entry = scenarios
        .iter()
        .find(|entry| entry["scenario"] == "stale-release")
        .unwrap();
    let because = entry["worst"]["verdict"]["because"].as_str().unwrap();
    let told = "Nothing was tried: C did not get ready: it ended with 4 before it was ready (no database).";
    assert_eq!(because, told);
    let repeated = document["repeated"].as_array().unwrap();
    let names: Vec<&str> = repeated.iter().filter_map(Value::as_str).collect();
    assert!(
        names.len() == 1 && names[0].starts_with("stale-release "),
        "{names:?}"
    );
    assert_valid(&schema("report.json"), "gauntlet", &document);
    for scenario in outcomes.keys() {
        judged_alike_again(&results.join(scenario));
    }
}

/// Its program removes itself when it is asked for the lock.
#[test]
fn a_process_that_cannot_be_started_again_ends_the_gauntlet_and_leaves_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let (script, results) = (folder.path().join("lock.sh"), folder.path().join("results"));
    let lease = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../subjects/lease-shell/lease.sh"
    );
    let plain = std::fs::read_to_string(lease).unwrap();
    let text = plain.replacen("acquire)\n", "acquire)\n rm -f \"$0\"\n", 1);
    assert_ne!(text, plain);
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = fencepost("gauntlet --scenario turns --output");
    let lock = format!("--lock={}", script.display());
    let ran = finish(command.arg(&results).arg(lock).output().unwrap());
    assert_eq!(ran.code, 70, "{}{}", ran.stdout, ran.stderr);
    let history = results.join("turns.jsonl");
    let events = std::fs::read_to_string(&history).unwrap().lines().count() - 1;
    for words in [
        "error: a process could not be started again\n".to_owned(),
        format!(
            "  effect    a part: {events} events, in {}. No verdict.\n",
            history.display()
        ),
    ] {
        assert!(ran.stderr.contains(&words), "{words}: {}", ran.stderr);
    }
}

#[test]
fn the_table_names_the_verdict_the_promise_the_ground_and_the_command() {
    let ran = run("gauntlet --scenario crash --scenario pause --runs 2 --seed 7 --lock=watchdog");
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    for line in [
        "✓ HELD 2 of 2           crash            the holder is killed\n",
        "✓ HELD 2 of 2           pause            paused between read and write\n",
        "  judged by no update is lost, although it promises nothing beyond its lease\n",
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
    assert_eq!(ran.stdout.lines().count(), 44);
    let line = "  eviction         not tried: a file has no server that could fail\n";
    assert!(ran.stdout.contains(line), "{}", ran.stdout);
    let yours = run("gauntlet --list --store redis://192.0.2.1");
    assert_eq!(yours.code, 0, "no server is asked: {}", yours.stderr);
}

#[test]
fn a_program_can_read_the_list() {
    let text = run("gauntlet --list --store redis --lock=watchdog").stdout;
    let list = run("gauntlet --list --store redis --lock=watchdog --json");
    assert_eq!((list.code, list.stderr.as_str()), (0, ""));
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(list["schema"], "fencepost/scenarios/1");
    assert_valid(&schema("report.json"), "the list", &list);
    assert_eq!(
        (&list["lock"], &list["store"]),
        (&json!("watchdog"), &json!("redis"))
    );
    let rows = |part: &str, words: &str| {
        let rows = list[part].as_array().unwrap().clone();
        let row = |row: &Value| {
            let name = row["scenario"].as_str().unwrap().to_owned();
            (name, row[words].as_str().unwrap().to_owned())
        };
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let (tried, untried) = (rows("scenarios", "fault"), rows("not_tried", "why"));
    assert_eq!(tried.len() + untried.len(), text.lines().count());
    assert!(!tried.is_empty() && !untried.is_empty(), "{list}");
    for (name, words) in tried.iter().chain(&untried) {
        let is_row = |line: &str| line.trim_start().starts_with(name) && line.ends_with(words);
        assert!(text.lines().any(is_row), "{name} {words}: {text}");
    }
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

/// The sale comes first and is short; the pause is longer than anybody waits.
#[test]
fn ctrl_c_shows_the_rows_that_are_done() {
    let folder = tempfile::tempdir().unwrap();
    let (results, page) = (
        folder.path().join("results"),
        folder.path().join("page.html"),
    );
    let mut command = fencepost(
        "gauntlet --lock=naive --ttl 60000 --scenario oversell --scenario pause --output",
    );
    command.arg(&results).arg("--report").arg(&page);
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
    let told = "interrupted: 1 of 2 trials were finished.";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    // However the lines are wrapped.
    let shown = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let undone = "pause (not finished: the gauntlet ended before)";
    for words in ["oversell 50 buyers at once", undone, "1 × JSON"] {
        assert!(shown.contains(words), "{words}: {}", ran.stdout);
    }
    let rows = ran
        .stdout
        .lines()
        .filter(|line| line.contains("  judged by"));
    assert_eq!(rows.count(), 1, "{}", ran.stdout);
    assert!(results.join("oversell.json").exists());
    let drawn = std::fs::read_to_string(&page).unwrap();
    assert!(drawn.contains("oversell"));
}
