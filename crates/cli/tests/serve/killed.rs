//! Tests of a service that is killed in the middle of orders.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::stage::{Service, Stage, order, until};

/// What customers know: the order for each key that was answered.
type Known = BTreeMap<String, Value>;

/// Runs customers that order without pause until the service is gone.
fn order_until_killed(service: &mut Service, round: usize, known: &Mutex<Known>) -> Vec<String> {
    let (made, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let asked = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let service = &*service;
        for customer in 0..8 {
            let (made, stop, asked) = (&made, &stop, &asked);
            scope.spawn(move || {
                for number in 0.. {
                    let key = format!("{round}-{customer}-{number}");
                    asked.lock().unwrap().push(key.clone());
                    let lines = [("a", 1), ("b", 1), ("c", 1)];
                    let first = customer % 3;
                    let body = order(&key, &[lines[first], lines[(first + 1) % 3]]);
                    let header = format!("Idempotency-Key: {key}");
                    let answer = service
                        .client
                        .try_post("/v1/checkout/order", &body, &[&header]);
                    match answer {
                        Ok(answer) if answer.status == 201 => {
                            known.lock().unwrap().insert(key, answer.json());
                            made.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(answer) => assert!([409, 503].contains(&answer.status), "{answer:?}"),
                        Err(_) => {}
                    }
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        until("orders are made", || made.load(Ordering::Relaxed) >= 30);
        service.signal(Signal::SIGKILL);
        stop.store(true, Ordering::Relaxed);
    });
    service.end();
    asked.into_inner().unwrap()
}

fn never_loses_an_order(stage: &Stage, flags: &str) {
    let flags = format!("--ttl 500ms --retries 100 --deadline 20s {flags}");
    let known = Mutex::new(Known::new());
    let mut asked = Vec::new();
    let mut service = stage.serve(&flags);
    for product in ["a", "b", "c"] {
        service.put_in(product, 100_000);
    }
    for round in 0..3 {
        asked.extend(order_until_killed(&mut service, round, &known));
        service = stage.serve(&flags);
        service.adds_up();
    }
    let known = known.into_inner().unwrap();
    for made in known.values() {
        let path = format!("/v1/orders/{}", made["order_id"].as_str().unwrap());
        assert_eq!(
            service.client.get(&path).json(),
            *made,
            "lost after its 201"
        );
    }
    // A request under the same key returns the existing order. Orders that nobody was told about count as well.
    let reserved = |product: &str| service.product(product)["reserved"].as_i64().unwrap();
    let all = ["a", "b", "c"].map(reserved).iter().sum::<i64>();
    let orders = usize::try_from(all / 2).unwrap();
    assert!(
        orders >= known.len(),
        "{orders} orders, {} were answered",
        known.len()
    );
    assert!(orders <= asked.len());
    println!(
        "{} asked for, {} answered, {orders} made",
        asked.len(),
        known.len()
    );
    for (key, made) in known.iter().take(20) {
        let header = format!("Idempotency-Key: {key}");
        let body = body_of(key);
        let again = service
            .client
            .try_post("/v1/checkout/order", &body, &[&header]);
        assert_eq!(again.unwrap().json(), *made, "doubled under its key");
    }
    assert_eq!(["a", "b", "c"].map(reserved).iter().sum::<i64>(), all);
    service.adds_up();
}

/// Returns the order that was requested under this key.
fn body_of(key: &str) -> Value {
    let customer: usize = key.split('-').nth(1).unwrap().parse().unwrap();
    let lines = [("a", 1), ("b", 1), ("c", 1)];
    let first = customer % 3;
    order(key, &[lines[first], lines[(first + 1) % 3]])
}

#[test]
fn a_kill_never_loses_an_order_after_its_201() {
    never_loses_an_order(&Stage::new(), "");
}

#[cfg(feature = "postgres")]
#[test]
fn a_kill_never_loses_an_order_after_its_201_on_postgres_and_redis() {
    let postgres = fencepost_rig::Postgres::start().unwrap();
    let redis = fencepost_rig::Redis::start().unwrap();
    let flags = format!("--db {} --store {}", postgres.url(), redis.url());
    never_loses_an_order(&Stage::new(), &flags);
}
