//! Tests that Grafana can be provisioned with the dashboard.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::files::{text, yaml};

pub(crate) fn can_be_provisioned() {
    let dashboard: Value = serde_json::from_str(&text("grafana/dashboards/checkout.json")).unwrap();
    let source = yaml("grafana/provisioning/datasources/prometheus.yml");
    let source = &source["datasources"][0]["uid"];
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let place = |part: &str| panel["gridPos"][part].as_u64().unwrap();
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(
                    x < 24 && taken.insert((x, y)),
                    "overlaps: {}",
                    panel["title"]
                );
            }
        }
        if panel["type"] != "row" {
            assert!(panel["description"].as_str().unwrap().len() > 5, "{panel}");
            assert_eq!(panel["datasource"]["uid"], *source, "{panel}");
        }
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(target["datasource"]["uid"], *source, "{target}");
        }
    }
    // The compose file mounts it where Grafana is configured to look.
    let provider = yaml("grafana/provisioning/dashboards/checkout.yml");
    let path = provider["providers"][0]["options"]["path"]
        .as_str()
        .unwrap()
        .to_owned();
    let compose = yaml("compose.yml");
    let mounts = compose["services"]["grafana"]["volumes"]
        .as_array()
        .unwrap();
    let wanted = format!("./grafana/dashboards:{path}:ro");
    assert!(mounts.iter().any(|mount| *mount == wanted), "{mounts:?}");
}
