//! Tests of the shape of the JSON report.

use serde_json::Value;

use crate::{fencepost, finish, run};

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn the_fields_of_old_come_first_and_in_their_order() {
    let ran = run("oversell --lock=none --concurrency=10 --delay=20000 --seed 7041 --json");
    assert_eq!(
        (ran.code, ran.stderr.as_str(), ran.stdout.lines().count()),
        (1, "", 1)
    );
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        keys(&report),
        [
            "scenario",
            "strategy",
            "initial_stock",
            "final_stock",
            "total_attempts",
            "successes",
            "failures",
            "oversold",
            "entries",
            "timestamp",
            "schema",
            "version",
            "store",
            "seed",
            "options",
            "total_duration_ms",
            "failed_stock",
            "failed_lock",
            "failed_error",
            "unknown",
            "expected_stock",
            "contention_rate",
            "oversold_units",
            "undersold_units",
            "lost_updates",
            "verdict",
        ]
    );
    assert_eq!(
        keys(&report["entries"][0]),
        [
            "process_id",
            "lock_acquired",
            "stock_before",
            "stock_after",
            "duration_ms",
            "success",
            "error",
            "outcome",
            "at_ms",
            "waited_ms",
            "event",
        ]
    );
    assert_eq!(
        keys(&report["verdict"]),
        [
            "outcome",
            "exit_code",
            "expected",
            "because",
            "evidence",
            "witness",
            "missing",
            "measured",
            "why",
            "limits",
            "notes",
            "belief",
            "damage",
            "checks",
            "reproduce",
        ]
    );
    assert_eq!(report["oversold"], true);
    assert_eq!(report["entries"].as_array().unwrap().len(), 10);
    assert_eq!(report["verdict"]["outcome"], "BROKEN");
    assert_eq!(
        report["verdict"]["damage"],
        serde_json::json!(["oversold", "lost_update"])
    );
    assert_eq!(report["verdict"]["checks"]["no_oversell"], "violated");
    assert_eq!(report["verdict"]["checks"]["exclusion"], "n/a");
    assert_eq!(
        report["verdict"]["reproduce"],
        "fencepost oversell --lock=none --stock=1 --concurrency=10 --delay=20000 --seed 7041"
    );
    let first = &report["verdict"]["evidence"][0];
    let entry = report["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["event"] == first["event"]);
    assert_eq!(entry.unwrap()["process_id"], first["who"]);
    for text in [&report["verdict"]["because"], &first["sentence"]] {
        assert!(text.as_str().unwrap().is_ascii(), "{text}");
    }
    assert!(report["verdict"]["why"].is_string());
    assert!(report["verdict"]["limits"].is_null());
}

#[test]
fn what_was_refused_says_why_in_the_old_words() {
    let ran = run("oversell --lock=safe --concurrency=10 --delay=50000 --json");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let entries = report["entries"].as_array().unwrap();
    let busy = entries
        .iter()
        .find(|entry| entry["outcome"] == "busy")
        .unwrap();
    assert_eq!(busy["error"], "Failed to acquire lock");
    assert_eq!(
        (&busy["lock_acquired"], &busy["stock_before"]),
        (&false.into(), &(-1).into())
    );
    assert_eq!(report["verdict"]["outcome"], "HELD");
    let limits = report["verdict"]["limits"].as_str().unwrap();
    assert!(limits.starts_with("one run, no fault"), "{limits}");
    assert!(report["contention_rate"].as_f64().unwrap() > 0.0);

    let ran = run("oversell --lock=safe --concurrency=3 --wait 20000 --json");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let refused = report["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["success"] == false)
        .unwrap();
    assert_eq!(refused["error"], "Insufficient stock");
    assert_eq!(
        (&refused["lock_acquired"], &refused["stock_before"]),
        (&true.into(), &0.into())
    );
}

#[test]
fn several_runs_are_one_document_and_the_file_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.json");
    let mut command = fencepost("oversell --all --concurrency=1 --json --output");
    let ran = finish(command.arg(&file).output().unwrap());
    assert_eq!(ran.code, 1);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(keys(&report), ["runs", "repeated", "as_expected", "total"]);
    // Without contention, every strategy but one shows nothing, however often it is tried.
    assert_eq!(report["repeated"].as_array().unwrap().len(), 15);
    assert_eq!(
        (&report["as_expected"], &report["total"]),
        (&1.into(), &16.into())
    );
    assert_eq!(report["runs"][15]["verdict"]["missing"], "contention");
    let written: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(written, report);
}

#[test]
fn a_shorter_report_replaces_a_longer_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    std::fs::write(&file, "x".repeat(100_000)).unwrap();
    finish(
        fencepost("oversell --concurrency=1 -q --output")
            .arg(&file)
            .output()
            .unwrap(),
    );
    let written: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(written["total_attempts"], 1);
}
