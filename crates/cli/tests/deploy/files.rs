//! Reads the files in `deploy/` as data.

use std::path::{Path, PathBuf};

use serde_json::Value;

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

pub(crate) fn text(path: &str) -> String {
    let file = folder().join(path);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

pub(crate) fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// An alert, as defined by its rule.
pub(crate) struct Alert {
    pub(crate) name: String,
    pub(crate) expr: String,
    pub(crate) rule: Value,
}

pub(crate) fn alerts() -> Vec<Alert> {
    let rules = yaml("prometheus/alerts.yml");
    let groups = rules["groups"].as_array().unwrap().iter();
    let all = groups.flat_map(|group| group["rules"].as_array().unwrap());
    let alerts: Vec<_> = all
        .map(|rule| Alert {
            name: rule["alert"].as_str().unwrap().to_owned(),
            expr: rule["expr"].as_str().unwrap().to_owned(),
            rule: rule.clone(),
        })
        .collect();
    assert!(alerts.len() >= 10, "{}", alerts.len());
    alerts
}

/// Returns every query of the dashboard with the title of its panel, as Grafana would send it.
pub(crate) fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&text("grafana/dashboards/checkout.json")).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expr = target["expr"].as_str().unwrap();
            let expr = expr
                .replace("$__rate_interval", "1m")
                .replace("$instance", ".*");
            assert!(!expr.contains('$'), "{title}: {expr}");
            queries.push((title.to_owned(), expr));
        }
    }
    assert!(queries.len() >= 20, "{}", queries.len());
    queries
}
