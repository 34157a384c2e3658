//! Tests of the circuit breaker, with a lock store that disappears and comes back.

use std::time::{Duration, Instant};

use fencepost_rig::Redis;

use crate::stage::{Stage, until};

#[test]
fn a_dead_lock_store_never_makes_customers_wait_or_sells_without_a_lock() {
    let mut redis = Redis::start().unwrap();
    let stage = Stage::new();
    let service = stage.serve(&format!("--store {}", redis.url()));
    service.put_in("lamp", 1_000);
    assert_eq!(service.order(&[("lamp", 1)]).status, 201);
    assert_eq!(service.client.get("/readyz").status, 200);
    redis.crash();

    let breaker = || service.client.get("/v1/locks/metrics").json()["breaker"].clone();
    until("the breaker opens", || {
        let answer = service.order(&[("lamp", 1)]);
        // At first it looks as if others were just slow.
        assert!(
            [409, 503].contains(&answer.status),
            "never without a lock: {answer:?}"
        );
        answer.problem();
        assert!(answer.header("retry-after").is_some());
        breaker() == "open"
    });
    // While the breaker is open nobody waits: requests take far less than the timeout of half a second. A busy machine gets
    // several tries.
    let quick = (0..20).any(|_| {
        let (open, asked) = (breaker() == "open", Instant::now());
        let answer = service.order(&[("lamp", 1)]);
        assert_eq!(answer.status, 503);
        assert!(
            answer
                .header("retry-after")
                .unwrap()
                .parse::<u64>()
                .unwrap()
                >= 1
        );
        open && asked.elapsed() < Duration::from_millis(100)
    });
    assert!(quick, "an open breaker refuses at once");
    assert_eq!(service.client.get("/readyz").status, 503);
    assert_eq!(service.client.get("/healthz").status, 200);
    assert_eq!(service.client.get("/v1/locks").status, 503);
    assert_eq!(
        service.product("lamp")["reserved"],
        1,
        "nothing was reserved meanwhile"
    );
    assert_ne!(service.metric("checkout_breaker_opened_total"), 0);

    redis.restart().unwrap();
    until("orders are made again", || {
        service.order(&[("lamp", 1)]).status == 201
    });
    assert_eq!(breaker(), "closed");
    let log = stage.read("stderr");
    assert!(log.contains("the lock store answers again"), "{log}");
    until("it is ready again", || {
        service.client.get("/readyz").status == 200
    });
    service.adds_up();
}

/// As alerts see it: they must neither end while the store is down nor continue when it is back, whether or not anybody orders.
#[test]
fn the_gauge_of_the_breaker_follows_the_store_also_when_nobody_orders() {
    let mut redis = Redis::start().unwrap();
    let stage = Stage::new();
    let service = stage.serve(&format!("--store {}", redis.url()));
    service.put_in("lamp", 1_000);
    let gauge = || service.metric("checkout_breaker_open");
    let breaker = || service.client.get("/v1/locks/metrics").json()["breaker"].clone();
    assert_eq!(gauge(), 0);
    redis.crash();
    until("the breaker opens", || {
        service.order(&[("lamp", 1)]);
        breaker() == "open"
    });
    assert_eq!(gauge(), 1);
    until("a probe would be let through", || breaker() == "half_open");
    assert_eq!(gauge(), 1, "the store is still down");
    redis.restart().unwrap();
    until("the gauge says that the store is back", || gauge() == 0);
    assert_eq!(breaker(), "half_open", "no order has come");
}
