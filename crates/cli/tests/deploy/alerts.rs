//! Tests of the alert rules with Prometheus' own tool.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::files::{self, Alert, alerts, yaml};

fn promtool(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new("promtool");
    let output = command.args(arguments).current_dir(folder).output();
    let output = output.expect("promtool, of the package prometheus");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

pub(crate) fn promtool_accepts() {
    let folder = files::folder().join("prometheus");
    for arguments in [
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "alerts.yml"],
    ] {
        let (is_good, said) = promtool(&folder, &arguments);
        assert!(is_good, "{said}");
    }
}

pub(crate) fn fire_and_keep_quiet() {
    let tests = yaml("prometheus/alerts_test.yml");
    let names = tests["tests"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|test| test["name"].as_str().unwrap()).collect();
    for Alert { name, .. } in alerts() {
        for way in ["fires", "keeps quiet"] {
            let wanted = format!("{name} {way}");
            assert!(names.contains(&&*wanted), "no test '{wanted}'");
        }
    }
    let folder = files::folder().join("prometheus");
    let (is_good, said) = promtool(&folder, &["test", "rules", "alerts_test.yml"]);
    assert!(is_good, "{said}");
}

/// For each alert, a rule that never fires and one that always fires both fail its tests.
pub(crate) fn tests_notice_a_wrong_rule() {
    let tests = yaml("prometheus/alerts_test.yml");
    for Alert { name, rule, .. } in alerts() {
        let all = tests["tests"].as_array().unwrap().iter();
        let own = all.filter(|test| {
            test["name"]
                .as_str()
                .unwrap()
                .starts_with(&format!("{name} "))
        });
        let own: Vec<&Value> = own.collect();
        assert!(!own.is_empty(), "{name}");
        for (wrong, is_right) in [
            (None, true),
            (Some("vector(0) > 1"), false),
            (Some("vector(1)"), false),
        ] {
            let mut rule = rule.clone();
            if let Some(expr) = wrong {
                rule["expr"] = expr.into();
            }
            let folder = tempfile::tempdir().unwrap();
            // JSON is valid YAML.
            let write = |file, content: Value| {
                std::fs::write(folder.path().join(file), content.to_string()).unwrap();
            };
            write(
                "alerts.yml",
                json!({"groups": [{"name": "one", "rules": [rule]}]}),
            );
            let interval = &tests["evaluation_interval"];
            write(
                "test.yml",
                json!({"rule_files": ["alerts.yml"], "evaluation_interval": interval, "tests": own}),
            );
            let (is_good, said) = promtool(folder.path(), &["test", "rules", "test.yml"]);
            assert_eq!(is_good, is_right, "{name}, {wrong:?}: {said}");
        }
    }
}

pub(crate) fn say_what_to_do() {
    for Alert { name, rule, .. } in alerts() {
        let severity = rule["labels"]["severity"].as_str();
        assert!(
            matches!(severity, Some("page" | "ticket")),
            "{name}: {severity:?}"
        );
        for part in ["summary", "description", "action"] {
            let text = rule["annotations"][part].as_str().unwrap_or_default();
            assert!(text.len() > 10, "{name} has no {part}");
        }
    }
}

pub(crate) fn are_documented() {
    let page = files::text("README.md");
    for Alert { name, .. } in alerts() {
        assert!(
            page.contains(&format!("`{name}`")),
            "deploy/README.md does not tell of {name}"
        );
    }
}
