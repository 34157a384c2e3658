//! Tests of orders by one customer at a time.

use serde_json::json;

use crate::stage::{Stage, order};

#[test]
fn an_order_reserves_is_confirmed_and_never_counts_twice() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 5);
    service.put_in("desk", 5);

    let review = service.client.post(
        "/v1/checkout/review",
        &order("c", &[("lamp", 2), ("desk", 1)]),
    );
    assert_eq!(
        (review.status, &review.json()["total_cents"]),
        (200, &json!(750))
    );
    assert_eq!(
        service.product("lamp")["stock"],
        5,
        "a review reserves nothing"
    );

    let made = service.order(&[("lamp", 2), ("desk", 1)]);
    let body = made.json();
    assert_eq!(
        (made.status, &body["order_status"]),
        (201, &json!("pending")),
        "{made:?}"
    );
    assert_eq!(body["order_checkout"]["total_items"], 3);
    let path = made.header("location").unwrap().to_owned();
    assert_eq!(service.client.get(&path).json(), body);

    for _ in 0..2 {
        let confirmed = service
            .client
            .post(&format!("{path}/confirm"), &json!(null));
        assert_eq!(
            confirmed.json()["order_status"],
            "confirmed",
            "{confirmed:?}"
        );
    }
    let cancelled = service.client.post(&format!("{path}/cancel"), &json!(null));
    assert_eq!(cancelled.status, 409);
    assert_eq!(cancelled.problem()["detail"], "the order is confirmed");
    let lamp = service.product("lamp");
    assert_eq!(
        [&lamp["stock"], &lamp["reserved"], &lamp["sold"]],
        [3, 0, 2]
    );

    let back = service.order(&[("desk", 4)]);
    let path = back.header("location").unwrap().to_owned();
    for _ in 0..2 {
        let cancelled = service.client.post(&format!("{path}/cancel"), &json!(null));
        assert_eq!(cancelled.json()["order_status"], "cancelled");
    }
    assert_eq!(service.product("desk")["stock"], 4);
    service.adds_up();
    assert!(service.stop().success());
}

#[test]
fn too_little_stock_never_makes_half_an_order() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 5);
    service.put_in("desk", 1);
    let refused = service.order(&[("lamp", 1), ("desk", 2)]);
    let problem = refused.problem();
    assert_eq!(refused.status, 409);
    assert_eq!(problem["title"], "Product unavailable");
    assert_eq!(
        (&problem["reason"], &problem["products"]),
        (&json!("out_of_stock"), &json!(["desk"]))
    );
    assert_eq!(service.product("lamp")["stock"], 5);
    service.adds_up();
}

#[test]
fn the_same_key_never_makes_two_orders() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 5);
    let body = order("c", &[("lamp", 1)]);
    let ask = |body| {
        let key = "Idempotency-Key: 3f2b-1";
        let answer = service.client.try_post("/v1/checkout/order", body, &[key]);
        answer.unwrap()
    };
    let first = ask(&body);
    assert_eq!(
        (first.status, first.header("idempotency-replayed")),
        (201, None)
    );
    let again = ask(&body);
    assert_eq!(again.status, 201);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.json(), first.json());
    // The original answer is repeated even if the order has ended since.
    let path = format!("{}/cancel", first.header("location").unwrap());
    assert_eq!(service.client.post(&path, &json!(null)).status, 200);
    assert_eq!(ask(&body).json(), first.json());
    let other = ask(&order("c", &[("lamp", 2)]));
    assert_eq!(other.status, 422);
    assert_eq!(
        other.problem()["type"],
        "urn:fencepost:idempotency-key-reused"
    );
    assert_eq!(service.product("lamp")["stock"], 5);
    service.adds_up();
}

#[test]
fn what_was_sold_is_there_after_a_restart() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 5);
    let path = service
        .order(&[("lamp", 2)])
        .header("location")
        .unwrap()
        .to_owned();
    assert!(service.stop().success());
    let service = stage.serve("");
    assert_eq!(service.client.get(&path).json()["order_status"], "pending");
    assert_eq!(service.product("lamp")["stock"], 3);
    service.adds_up();
}
