//! Tests of `gauntlet --list`: which scenarios fit a lock and a store, for people and for programs.

use serde_json::{Value, json};

use crate::run;
use crate::schema::{assert_valid, schema};

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
