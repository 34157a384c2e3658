//! Tests of external locks on etcd, ZooKeeper and Redlock: real clients in other languages, through one proxy for each server.

#![cfg(all(feature = "etcd", feature = "zookeeper", feature = "redlock"))]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::external_locks::has_python;
use crate::{Ran, fencepost, finish};

fn subject(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../subjects")
        .join(name)
}

/// Runs these scenarios of a gauntlet with the lock in this folder, which says itself where it works.
fn gauntlet(lock: &str, scenarios: &[&str]) -> Ran {
    let mut command = fencepost("gauntlet --json --seed 7");
    for scenario in scenarios {
        command.args(["--scenario", scenario]);
    }
    // The folder that `cargo xtask prepare` fills.
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/clients/python");
    command.env("PYTHONPATH", clients);
    let lock = format!("--lock={}", subject(lock).display());
    finish(command.arg(lock).output().unwrap())
}

/// The verdict and the label of each scenario.
fn rows(ran: &Ran) -> BTreeMap<String, (String, String)> {
    let document: Value = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr));
    let scenarios = document["scenarios"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    scenarios
        .iter()
        .map(|entry| {
            let row = (text(&entry["outcome"]), text(&entry["label"]["name"]));
            (text(&entry["scenario"]), row)
        })
        .collect()
}

fn expected(rows: &[(&str, &str, &str)]) -> BTreeMap<String, (String, String)> {
    let row = |(scenario, outcome, label): &(&str, &str, &str)| {
        let row = ((*outcome).to_owned(), (*label).to_owned());
        ((*scenario).to_owned(), row)
    };
    rows.iter().map(row).collect()
}

#[test]
fn a_lock_on_three_redis_servers_is_tried_like_ours() {
    if !has_python() {
        return;
    }
    let ran = gauntlet(
        "redlock",
        &["crash", "deadlock-sorted", "pause", "cut", "lost-reply"],
    );
    let of_its_kind = "limit_of_its_kind";
    assert_eq!(
        rows(&ran),
        expected(&[
            ("crash", "HELD", ""),
            ("deadlock-sorted", "HELD", ""),
            ("pause", "BROKEN", of_its_kind),
            ("cut", "BROKEN", of_its_kind),
            ("lost-reply", "HELD", ""),
        ]),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_lock_of_etcdctl_is_tried_like_ours() {
    if !has_python() {
        return;
    }
    let ran = gauntlet("etcdctl", &["crash", "deadlock-sorted", "ttl-edge"]);
    assert_eq!(
        rows(&ran),
        expected(&[
            ("crash", "HELD", ""),
            ("deadlock-sorted", "HELD", ""),
            ("ttl-edge", "HELD", ""),
        ]),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_lock_of_kazoo_is_tried_like_ours() {
    let kazoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/clients/python/kazoo");
    if !has_python() || !kazoo.exists() {
        println!("skipped: kazoo is not installed; see cargo xtask prepare");
        return;
    }
    let ran = gauntlet("kazoo", &["crash", "deadlock-sorted", "ttl-edge"]);
    assert_eq!(
        rows(&ran),
        expected(&[
            ("crash", "HELD", ""),
            ("deadlock-sorted", "HELD", ""),
            ("ttl-edge", "HELD", ""),
        ]),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_lock_that_goes_around_the_store_is_not_acquitted() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let flock = std::fs::read_to_string(subject("flock").join("flock.py")).unwrap();
    // It keeps its locks beside the file with the stock, which is the last endpoint.
    let around = flock.replace(r#"["endpoints"][0]"#, r#"["endpoints"][-1]"#);
    assert_ne!(around, flock);
    let script = folder.path().join("around.py");
    std::fs::write(&script, around).unwrap();
    let mut command = fencepost("deadlock --sorted --store redlock --ttl 5000");
    let lock = format!("--lock=python3 {}", script.display());
    let ran = finish(command.arg(lock).output().unwrap());
    assert_eq!(ran.code, 2, "{}{}", ran.stdout, ran.stderr);
    let told = "INCONCLUSIVE   A was granted the lock without the store: ";
    assert!(ran.stdout.contains(told), "{}", ran.stdout);
}

#[test]
fn each_server_has_an_endpoint_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("lock.sh");
    let text = r#"read -r init; list=${init#*'"endpoints":['}; list=${list%%]*}
        echo "{\"type\":\"error\",\"definite\":true,\"message\":\"$(echo "$list" | tr -d '"')\"}""#;
    std::fs::write(&script, text).unwrap();
    for (store, scheme, servers) in [
        ("redlock", "redis://", 3),
        ("etcd", "etcd://", 3),
        ("zk", "zk://", 1),
    ] {
        let mut command = fencepost(&format!("crash --store {store}"));
        let lock = format!("--lock=sh {}", script.display());
        let ran = finish(command.arg(lock).output().unwrap());
        assert_eq!(ran.code, 76, "{}", ran.stderr);
        let told = ran
            .stderr
            .lines()
            .find(|line| line.contains("where"))
            .unwrap();
        let endpoints = told.matches(&format!("{scheme}127.0.0.1:")).count();
        assert_eq!(endpoints, servers, "{told}");
        assert_eq!(told.matches("sqlite:/").count(), 1, "{told}");
        assert_eq!(told.matches("#fencepost-lab-").count(), servers, "{told}");
    }
}
