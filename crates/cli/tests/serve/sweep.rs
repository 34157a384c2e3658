//! Tests of the sweep, which cancels reservations that nobody confirms.

use serde_json::{Value, json};

use crate::stage::{Stage, order, until};

/// Makes the fences of the sweeper too small, as if the locks had been in a store with larger ones before.
const RAISE: &str =
    "INSERT INTO fencepost_gate (resource, fence, owner) VALUES ('checkout:sweep', $1, 'somebody')
    ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence, owner = excluded.owner";

#[test]
fn abandoned_units_come_back_and_confirmed_ones_never_do() {
    let stage = Stage::new();
    // Of two instances, one sweeps.
    let one = stage.serve("--reserve-for 300ms");
    let other = stage.serve("--reserve-for 300ms");
    one.put_in("lamp", 10);
    // On a busy machine a confirmation may come too late; then its order is cancelled like any other.
    let mut kept = String::new();
    until("an order is confirmed in time", || {
        let order = one.order(&[("lamp", 1)]);
        order.header("location").unwrap().clone_into(&mut kept);
        let confirmed = other.client.post(&format!("{kept}/confirm"), &json!(null));
        assert!([200, 409].contains(&confirmed.status), "{confirmed:?}");
        confirmed.status == 200
    });
    let left = other
        .order(&[("lamp", 4)])
        .header("location")
        .unwrap()
        .to_owned();
    let status = |path: &str| -> Value { one.client.get(path).json()["order_status"].clone() };
    until("it is swept", || status(&left) == "expired");
    until("nothing is reserved", || {
        one.product("lamp")["reserved"] == 0
    });
    let lamp = one.product("lamp");
    assert_eq!(
        [&lamp["stock"], &lamp["reserved"], &lamp["sold"]],
        [9, 0, 1]
    );
    assert_eq!(status(&kept), "confirmed");
    let late = one.client.post(&format!("{left}/confirm"), &json!(null));
    assert_eq!(
        late.status, 409,
        "too late: its units may be somebody else's"
    );
    one.adds_up();
}

#[test]
fn the_next_instance_sweeps_when_the_first_is_killed() {
    let stage = Stage::new();
    let mut first = stage.serve("--reserve-for 2s --ttl 500ms");
    first.put_in("lamp", 10);
    let second = stage.serve("--reserve-for 2s --ttl 500ms");
    let left = first
        .order(&[("lamp", 4)])
        .header("location")
        .unwrap()
        .to_owned();
    first.signal(nix::sys::signal::Signal::SIGKILL);
    first.end();
    until("the other sweeps", || {
        second.client.get(&left).json()["order_status"] == "expired"
    });
    assert_eq!(second.product("lamp")["stock"], 10);
    second.adds_up();
}

#[test]
fn an_order_that_cannot_be_read_never_keeps_units_back() {
    let stage = Stage::new();
    // The sweep runs every five seconds.
    let service = stage.serve("--reserve-for 10m");
    service.put_in("lamp", 10);
    let unreadable = service.order(&[("lamp", 1)]).json()["order_id"].clone();
    assert_eq!(service.order(&[("lamp", 2)]).status, 201);
    let database = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    database.busy_timeout(crate::http::LONG).unwrap();
    // Both have expired by now, and the first cannot be read. They change in one statement, so that no sweep comes in between.
    let changed = database.execute(
        "UPDATE checkout_orders SET expires_ms = 0, document = CASE id WHEN $1 THEN 'x' ELSE document END",
        [unreadable.as_str().unwrap()],
    );
    assert_eq!(changed.unwrap(), 2);
    until("all units are back", || {
        service.product("lamp")["stock"] == 10
    });
    let log = stage.read("stderr");
    assert!(log.contains("an order that cannot be read"), "{log}");
    service.adds_up();
}

#[test]
fn one_look_ends_all_that_is_over() {
    let stage = Stage::new();
    // The sweep runs every five seconds.
    let service = stage.serve("--reserve-for 10m");
    service.put_in("lamp", 10);
    assert_eq!(service.order(&[("lamp", 1)]).status, 201);
    let mut database = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    database.busy_timeout(crate::http::LONG).unwrap();
    until("it sweeps", || service.metric("checkout_sweeps_total") > 0);
    let copies = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 700)
        INSERT INTO checkout_orders SELECT 'copy' || n, status, document, created_ms, 0 FROM checkout_orders, number";
    let transaction = database.transaction().unwrap();
    assert_eq!(transaction.execute(copies, []).unwrap(), 700);
    let before = service.metric("checkout_sweeps_total");
    transaction.commit().unwrap();
    let ended = "checkout_reservations_ended_total{ending=\"expired\"}";
    until("all have ended", || service.metric(ended) == 700);
    let looks = service.metric("checkout_sweeps_total") - before;
    assert!(looks <= 2, "{looks} looks");
}

#[test]
fn an_old_key_is_forgotten_when_its_order_has_ended_and_never_before() {
    let stage = Stage::new();
    let service = stage.serve("--keep-keys 200ms --reserve-for 20s");
    service.put_in("lamp", 10);
    let body = order("c", &[("lamp", 1)]);
    let ask = || {
        let key = ["Idempotency-Key: k"];
        let answer = service.client.try_post("/v1/checkout/order", &body, &key);
        answer.unwrap().json()["order_id"].clone()
    };
    let first = ask();
    let looks = || service.metric("checkout_sweeps_total");
    let began = std::time::Instant::now();
    until("its time is over", || began.elapsed().as_millis() > 250);
    let before = looks();
    // The second of these sweeps began after that.
    until("it was swept", || looks() >= before + 2);
    assert_eq!(ask(), first, "still pending");
    let path = format!("/v1/orders/{}", first.as_str().unwrap());
    let cancelled = service.client.post(&format!("{path}/cancel"), &json!(null));
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    until("its key is forgotten", || ask() != first);
    assert_eq!(service.client.get(&path).status, 200, "orders stay");
    service.adds_up();
}

#[test]
fn fences_that_are_too_small_never_make_a_sweeper_run_in_circles() {
    let stage = Stage::new();
    // The sweep runs several times a second.
    let service = stage.serve("--reserve-for 2s");
    let database = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    database.busy_timeout(crate::http::LONG).unwrap();
    until("it sweeps", || service.metric("checkout_sweeps_total") > 0);
    let began = std::time::Instant::now();
    assert_eq!(database.execute(RAISE, [i64::MAX]).unwrap(), 1);
    let refused = || service.metric("checkout_fences_refused_total");
    until("it is refused", || refused() > 0);
    until("it has been for a while", || began.elapsed().as_secs() >= 3);
    let refused = refused();
    assert!(refused <= 2 + began.elapsed().as_secs(), "{refused}");
}

#[test]
fn a_sweeper_that_is_refused_an_overdue_order_says_why() {
    let stage = Stage::new();
    // The sweep runs every five seconds.
    let service = stage.serve("--reserve-for 10m");
    service.put_in("lamp", 10);
    assert_eq!(service.order(&[("lamp", 1)]).status, 201);
    let mut database = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    database.busy_timeout(crate::http::LONG).unwrap();
    until("it sweeps", || service.metric("checkout_sweeps_total") > 0);
    // In one transaction, so that no sweep comes in between.
    let transaction = database.transaction().unwrap();
    assert_eq!(transaction.execute(RAISE, [i64::MAX]).unwrap(), 1);
    let overdue = "UPDATE checkout_orders SET expires_ms = 0";
    assert_eq!(transaction.execute(overdue, []).unwrap(), 1);
    transaction.commit().unwrap();
    let refused = || service.metric("checkout_fences_refused_total");
    until("it is refused", || refused() > 0);
    until("it says why", || {
        let log = stage.read("stderr");
        log.contains("the database has seen a larger fence")
    });
}
