//! Tests of `--report` and `--trace`: the files agree with the terminal output.

use std::fs;

use serde_json::Value;

use crate::{fencepost, finish};

#[test]
fn a_page_and_a_trace_tell_of_the_same_run() {
    let folder = tempfile::tempdir().unwrap();
    let (page, trace) = (
        folder.path().join("race.html"),
        folder.path().join("race.trace"),
    );
    let mut command =
        fencepost("oversell --lock=safe --concurrency=5 --delay=20000 --seed 7 --json");
    command
        .arg("--report")
        .arg(&page)
        .arg("--trace")
        .arg(&trace);
    let ran = finish(command.output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();

    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains(report["verdict"]["because"].as_str().unwrap()));

    let trace: Value = serde_json::from_slice(&fs::read(trace).unwrap()).unwrap();
    let bought = trace["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| {
            event["name"]
                .as_str()
                .is_some_and(|name| name.starts_with("buys: "))
        });
    let mut spans: Vec<(String, f64)> = bought
        .map(|event| {
            (
                event["args"]["event"].to_string(),
                event["dur"].as_f64().unwrap() / 1e3,
            )
        })
        .collect();
    let entry = |entry: &Value| {
        (
            entry["event"].to_string(),
            entry["duration_ms"].as_f64().unwrap(),
        )
    };
    let mut entries: Vec<(String, f64)> = report["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(entry)
        .collect();
    spans.sort_by(|a, b| a.0.cmp(&b.0));
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(spans.len(), 5);
    for (span, entry) in spans.iter().zip(&entries) {
        assert_eq!(span.0, entry.0);
        assert!((span.1 - entry.1).abs() < 0.002, "{span:?} {entry:?}");
    }
}

#[test]
fn files_are_opened_before_the_run_and_none_twice() {
    let ran = finish(
        fencepost("oversell --concurrency=1 --report nowhere/race.html")
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 73);
    assert!(
        ran.stderr
            .contains("--report nowhere/race.html: no such directory (nowhere)"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("none: checked before the run"),
        "{}",
        ran.stderr
    );

    let ran = finish(
        fencepost("oversell --report a.html --trace a.html")
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 64);
    assert!(
        ran.stderr
            .contains("--report and --trace name the same file"),
        "{}",
        ran.stderr
    );
}

#[test]
fn lock_trials_and_comparisons_are_drawn_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let cases = [
        ("deadlock --sorted --ttl 500", 1),
        ("crash --lock=fenced --ttl 500", 1),
        ("trial short-stock", 1),
        ("trial failover --lock=fenced", 1),
        ("retry --concurrency=5 --stock=5 --budget 8000", 4),
    ];
    for (arguments, runs) in cases {
        let mut command = fencepost(&format!("{arguments} --json"));
        command.arg("--report").arg(at("page.html"));
        command.arg("--trace").arg(at("trace.json"));
        let ran = finish(command.output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments}");
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let page = fs::read_to_string(at("page.html")).unwrap();
        let because = report["verdict"]["because"].as_str().unwrap();
        assert!(page.contains(because), "{arguments}: {because}");
        let trace: Value = serde_json::from_slice(&fs::read(at("trace.json")).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap().iter();
        let names = events.filter(|event| event["name"] == "process_name");
        assert_eq!(names.count(), runs, "{arguments}");
    }
}
