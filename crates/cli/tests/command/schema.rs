//! Validates what the program writes against the JSON schemas in the repository.

use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::Value;

use crate::{fencepost, finish};

pub(crate) fn schema(name: &str) -> Validator {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    let text = std::fs::read(root.join(name)).unwrap();
    let schema: Value = serde_json::from_slice(&text).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

pub(crate) fn assert_valid(schema: &Validator, what: &str, document: &Value) {
    let errors: Vec<String> = schema
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{what}: {errors:?}\n{document:#}");
}

/// Runs the command with `--json` and `--history`, and validates both against their schemas; then does the same with `check`. Returns the
/// report of the command.
fn keeps_its_word(arguments: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let history: PathBuf = folder.path().join("run.jsonl");
    let (report, line) = (schema("report.json"), schema("history.json"));
    let mut command = fencepost(arguments);
    command.arg("--json").arg("--history").arg(&history);
    let ran = finish(command.output().unwrap());
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_valid(&report, arguments, &document);
    assert_eq!(document["verdict"]["exit_code"], ran.code);

    let text = std::fs::read_to_string(&history).unwrap();
    for (index, text) in text.lines().enumerate() {
        let place = format!("{arguments}, line {}", index + 1);
        assert_valid(&line, &place, &serde_json::from_str(text).unwrap());
    }

    let again = finish(fencepost("check --json").arg(&history).output().unwrap());
    let check: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_valid(&report, "check", &check);
    assert_eq!(
        (again.code, &check["stands"]),
        (ran.code, &Value::Bool(true))
    );
    for field in [
        "outcome", "because", "evidence", "witness", "measured", "why", "limits", "notes",
        "belief", "damage", "checks",
    ] {
        assert_eq!(
            check["verdict"][field], document["verdict"][field],
            "{arguments}: {field}"
        );
    }
    document
}

#[test]
fn a_sale_and_its_history() {
    keeps_its_word("oversell --lock=none --concurrency=5 --delay 50000");
    keeps_its_word("oversell --lock=safe --concurrency=5 --delay 50000");
    keeps_its_word("oversell --lock=safe --concurrency=1");
}

#[test]
fn a_crash_and_its_history() {
    keeps_its_word("crash --ttl 300");
    keeps_its_word("crash --ttl 300 --lock=naive");
    keeps_its_word("crash --ttl-edge --ttl 300 --work 500");
    keeps_its_word("crash --ttl-edge --ttl 300 --work 500 --lock=fenced");
    keeps_its_word("crash --ttl-edge --ttl 300 --work 10");
}

#[test]
fn a_deadlock_and_its_history() {
    keeps_its_word("deadlock --ttl 400");
    keeps_its_word("deadlock --ttl 400 --sorted");
    keeps_its_word("deadlock --ttl 300 --lock=watchdog");
}

#[test]
fn a_named_trial_and_its_history() {
    keeps_its_word("trial stale-release --ttl 300 --lock=get-then-delete");
    keeps_its_word("trial pause --ttl 300 --lock=safe");
    keeps_its_word("trial names --ttl 300 --lock=safe");
    keeps_its_word("trial turns --ttl 300 --lock=fenced");
    keeps_its_word("trial waiters --ttl 400 --lock=safe");
    keeps_its_word("trial deadline --lock=safe");
    keeps_its_word("trial order --lock=in-line");
    keeps_its_word("trial reentry --lock=safe");
    keeps_its_word("trial same-pid --lock=safe");
    keeps_its_word("trial cut --ttl 300 --lock=safe");
    keeps_its_word("trial cut-replies --ttl 300 --lock=watchdog");
    keeps_its_word("trial cut-requests --ttl 300 --lock=safe");
    keeps_its_word("trial slow-replies --ttl 300 --lock=safe");
    keeps_its_word("trial lost-reply --ttl 300 --lock=safe");
    keeps_its_word("trial lost-release --ttl 300 --lock=safe");
    keeps_its_word("trial failed-renewal --lock=watchdog");
    keeps_its_word("trial store-errors --ttl 300 --lock=safe");
    keeps_its_word("trial pause-at-step --ttl 300 --lock=safe");
    keeps_its_word("trial late-write --ttl 300");
    keeps_its_word("trial write-only-fence --ttl 300 --lock=fenced-writes");
    keeps_its_word("trial many-leases --lock=watchdog");
    keeps_its_word("trial dead-connection --lock=watchdog");
    keeps_its_word("trial vanish --ttl 400 --lock=safe");
    keeps_its_word("trial short-stock --ttl 300 --lock=late-expiry");
    keeps_its_word("trial failover");
    keeps_its_word("trial restart-empty --lock=fenced");
    keeps_its_word("trial restart-behind --lock=fenced");
    keeps_its_word("trial server-clock --lock=fenced");
    keeps_its_word("trial clock-back --ttl 300");
    keeps_its_word("trial eviction");
    keeps_its_word("trial taken-away --lock=watchdog");
    keeps_its_word("trial deposed --lock=watchdog");
    keeps_its_word("trial server-stall --ttl 600");
    keeps_its_word("trial majority-down --ttl 600");
    keeps_its_word("trial client-clock --lock=watchdog --ttl 400");
    keeps_its_word("trial suspend --ttl 300");
}

#[test]
fn a_comparison_and_its_history() {
    keeps_its_word("retry --concurrency=4 --stock=2 --budget 400");
    keeps_its_word("retry --concurrency=3 --stock=2 --budget 400 --lock=naive");
}

#[test]
fn several_runs() {
    let ran = finish(
        fencepost("oversell --all --concurrency=3 --json")
            .output()
            .unwrap(),
    );
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_valid(&schema("report.json"), "--all", &document);
}

#[test]
fn the_schemas_refuse_what_is_not_so() {
    let report = schema("report.json");
    let ran = finish(fencepost("crash --ttl 300 --json").output().unwrap());
    let good: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_valid(&report, "good", &good);
    let mut unwitnessed = good.clone();
    unwitnessed["verdict"]["witness"] = Value::Array(Vec::new());
    let mut unlimited = good.clone();
    unlimited["verdict"]["limits"] = Value::Null;
    let mut wordless = good.clone();
    wordless["verdict"].as_object_mut().unwrap().remove("notes");
    let mut renamed = good.clone();
    renamed["holds"][0]["process"] = "A".into();
    let mut unknown = good;
    unknown["schema"] = "fencepost/trial/3".into();
    for bad in [unwitnessed, unlimited, wordless, renamed, unknown] {
        assert!(!report.is_valid(&bad), "{bad:#}");
    }
    assert!(
        !schema("history.json")
            .is_valid(&serde_json::json!({"n": 1, "at_ns": 0, "event": "nothing"}))
    );
}

#[test]
fn a_stall_of_the_lab_or_a_suspended_machine_belongs_to_no_process() {
    let line = schema("history.json");
    for event in ["stalled", "slept"] {
        let mut noticed = serde_json::json!({"n": 3, "at_ns": 9, "event": event, "for_ms": 812.5});
        assert_valid(&line, event, &noticed);
        noticed["who"] = "A".into();
        assert!(!line.is_valid(&noticed), "{noticed}");
    }
}

#[test]
fn a_storm_with_smaller_plans_and_its_history() {
    // The faults of the network and of servers need a server, so this one has those that a file allows.
    keeps_its_word("trial storm --for 2s --ttl 300 --faults kill,pause");
    // Not every storm convicts the lock.
    let has_plans = (1..=4).any(|seed| {
        let document = keeps_its_word(&format!(
            "trial storm --lock=blind-delete --for 4s --ttl 300 --seed {seed} --shrink 15s"
        ));
        let tried = document["smaller_plans"]["tried"].as_array();
        tried.is_some_and(|tried| !tried.is_empty())
    });
    assert!(has_plans, "no storm had smaller plans");
}
