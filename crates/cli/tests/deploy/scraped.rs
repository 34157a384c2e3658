//! Tests that every metric in alerts and dashboard exists, and that every query has a result.

use std::collections::BTreeSet;

use crate::files::{alerts, queries};
use crate::prometheus::Prometheus;
use crate::stage::{Service, Stage, at_once, until};

/// A healthy service has no such answers, and so no series for them. Any answer is used instead.
const FAULTS: &str = r#"status=~"5..""#;
const ANSWERS: &str = r#"status=~"...""#;

/// Causes some of everything: contention, refusals, each end of a reservation, and each kind of answer.
fn traffic(service: &Service) {
    if service.client.get("/v1/products/hot").status == 404 {
        service.put_in("hot", 1_000_000);
        service.put_in("rare", 1);
    }
    let made = at_once(8, |_| service.order(&[("hot", 1)]));
    let ids = made.iter().filter(|answer| answer.status == 201);
    let ids: Vec<String> = ids
        .map(|made| made.json()["order_id"].as_str().unwrap().to_owned())
        .collect();
    for (id, ending) in ids.iter().zip(["confirm", "cancel"]) {
        let answer = service
            .client
            .send("POST", &format!("/v1/orders/{id}/{ending}"), &[], "");
        assert_eq!(answer.unwrap().status, 200);
    }
    service.order(&[("rare", 2)]);
    service.client.get("/no-such-page");
}

/// Returns the `checkout_…` and `fencepost_…` metrics in an expression, as they appear in /metrics.
fn metrics_of(expr: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = expr.split(|c| !is_part(c));
    let ours = words.filter(|word| word.starts_with("checkout_") || word.starts_with("fencepost_"));
    let of_histogram = |word: &str| {
        let ends = ["_bucket", "_count", "_sum"];
        let stem = ends.iter().find_map(|end| word.strip_suffix(end));
        stem.unwrap_or(word).to_owned()
    };
    ours.map(of_histogram).collect()
}

pub(crate) fn every_metric_exists() {
    let stage = Stage::new();
    let service = stage.serve("--quiet");
    traffic(&service);
    let mut wanted = BTreeSet::new();
    queries()
        .iter()
        .for_each(|(_, expr)| wanted.extend(metrics_of(expr)));
    alerts()
        .iter()
        .for_each(|alert| wanted.extend(metrics_of(&alert.expr)));
    assert!(wanted.len() >= 15, "{wanted:?}");
    let mut missing = Vec::new();
    // The lock of the sweep is renewed after a while; then all metrics exist.
    until("every metric that is used is there", || {
        let text = service.client.get("/metrics").body;
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let there: BTreeSet<&str> = types.filter_map(|line| line.split(' ').next()).collect();
        let absent = wanted.iter().filter(|name| !there.contains(&***name));
        let before = std::mem::replace(&mut missing, absent.cloned().collect());
        if before != missing {
            println!("not there yet: {missing:?}");
        }
        missing.is_empty()
    });
}

pub(crate) fn every_query_answers() {
    let stage = Stage::new();
    let service = stage.serve("--quiet");
    let prometheus = Prometheus::reads(service.client.0);
    let mut questions: Vec<(String, String)> = queries();
    for alert in alerts() {
        // In a healthy service no alert fires: the whole expression is valid, and its result is empty.
        let fires = prometheus.query(&alert.expr);
        assert!(fires.is_ok(), "{}: {fires:?}", alert.name);
        // The metrics it compares must have data, or it could never fire.
        let compared = measured(&alert.expr)
            .into_iter()
            .map(|part| part.replace(FAULTS, ANSWERS));
        questions.extend(compared.map(|part| (alert.name.clone(), part)));
    }
    let mut unanswered = questions;
    until("every query has an answer", || {
        traffic(&service);
        let before = unanswered.len();
        unanswered.retain(|(title, expr)| match prometheus.query(expr) {
            Ok(found) => found.is_empty(),
            Err(error) => panic!("{title}: {expr}: {error}"),
        });
        if unanswered.len() < before {
            println!("without an answer yet: {unanswered:?}");
        }
        unanswered.is_empty()
    });
    no_alert_fires(&prometheus);
}

/// Returns the sides of an alert's expression that are compared with a number.
fn measured(expr: &str) -> Vec<String> {
    let parts = expr.split(" and ");
    let parts = parts.flat_map(|part| part.split("\nand "));
    let parts = parts.flat_map(|part| part.split("\nor "));
    let sides = parts.map(|part| {
        let end = [" > ", " == "]
            .iter()
            .filter_map(|sign| part.rfind(sign))
            .max();
        part[..end.unwrap_or_else(|| panic!("compares nothing: {part}"))]
            .trim()
            .to_owned()
    });
    sides.collect()
}

/// Checks that Prometheus has loaded the rules, and that none fires for a healthy service.
fn no_alert_fires(prometheus: &Prometheus) {
    let mut rules = prometheus.get("/api/v1/rules");
    until("every rule was evaluated", || {
        rules = prometheus.get("/api/v1/rules");
        !rules.to_string().contains(r#""health":"unknown""#)
    });
    let groups = rules["data"]["groups"].as_array().unwrap().iter();
    let all: Vec<_> = groups
        .flat_map(|group| group["rules"].as_array().unwrap())
        .collect();
    assert_eq!(all.len(), alerts().len());
    for rule in all {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert_ne!(rule["state"], "firing", "{rule}");
    }
}
