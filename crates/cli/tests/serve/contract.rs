//! Tests of what other programs rely on: the API description, the metrics, and the log.

use serde_json::{Value, json};

use crate::stage::Stage;

#[test]
fn the_description_leaves_no_answer_out() {
    let stage = Stage::new();
    let service = stage.serve("--lab");
    let api = service.client.get("/openapi.json").json();
    let paths = api["paths"].as_object().unwrap();
    let expected = [
        "/v1/products",
        "/v1/products/{id}",
        "/v1/checkout/review",
        "/v1/checkout/order",
        "/v1/orders/{id}",
        "/v1/orders/{id}/confirm",
        "/v1/orders/{id}/cancel",
        "/v1/locks",
        "/v1/locks/metrics",
        "/v1/invariant",
        "/v1/events",
        "/reset",
        "/purchase",
        "/stock/{id}",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
    ];
    for path in expected {
        assert!(paths.contains_key(path), "{path} is missing");
    }
    assert_eq!(paths.len(), expected.len());
    let answers = |path: &str, method: &str| api["paths"][path][method]["responses"].clone();
    service.put_in("lamp", 1);
    let asked = [
        (
            "/v1/checkout/order",
            crate::stage::order("c", &[("lamp", 1)]),
            201,
        ),
        (
            "/v1/checkout/order",
            crate::stage::order("c", &[("lamp", 1)]),
            409,
        ),
        (
            "/v1/checkout/order",
            crate::stage::order("c", &[("none", 1)]),
            404,
        ),
        ("/v1/checkout/order", json!({}), 422),
        ("/v1/products", json!({}), 422),
    ];
    for (path, body, status) in asked {
        let answer = service.client.post(path, &body);
        assert_eq!(answer.status, status, "{answer:?}");
        let described = &answers(path, "post")[status.to_string()];
        let kind = answer.header("content-type").unwrap();
        assert!(
            described["content"][kind].is_object(),
            "{path} {status}: {described}"
        );
    }
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let described = operation["responses"].as_object().unwrap();
            assert!(described.contains_key("503"), "{method} {path}");
            let changes = method == "post" && path != "/v1/checkout/review";
            for status in ["401", "403"] {
                assert_eq!(described.contains_key(status), changes, "{method} {path}");
            }
            assert_eq!(operation["security"].is_array(), changes, "{method} {path}");
        }
    }
}

#[test]
fn the_description_says_that_a_key_can_be_used_for_one_order_only() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 5);
    let ask = |units| {
        let body = crate::stage::order("c", &[("lamp", units)]);
        let key = ["Idempotency-Key: k"];
        let answer = service.client.try_post("/v1/checkout/order", &body, &key);
        answer.unwrap()
    };
    assert_eq!(ask(1).status, 201);
    let reused = ask(2);
    assert_eq!(reused.status, 422, "{reused:?}");
    assert_eq!(
        reused.problem()["type"],
        "urn:fencepost:idempotency-key-reused"
    );
    let api = service.client.get("/openapi.json").json();
    let responses = &api["paths"]["/v1/checkout/order"]["post"]["responses"];
    assert_eq!(
        responses["422"]["description"],
        "The body is invalid, or a different order was made with this Idempotency-Key"
    );
}

#[test]
fn the_document_knows_what_an_event_of_the_breaker_says() {
    let stage = Stage::new();
    let api = stage.serve("").client.get("/openapi.json").json();
    let states = |name: &str| api["components"]["schemas"][name]["enum"].clone();
    assert_eq!(states("BreakerChange"), json!(["open", "closed"]));
    assert_eq!(
        states("BreakerState"),
        json!(["closed", "open", "half_open"])
    );
}

#[test]
fn metrics_tell_what_happened() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 3);
    let made = service.order(&[("lamp", 2)]);
    assert_eq!(service.order(&[("lamp", 2)]).status, 409);
    let path = format!("{}/confirm", made.header("location").unwrap());
    assert_eq!(service.client.post(&path, &json!(null)).status, 200);
    let metrics = service.client.get("/metrics");
    assert!(
        metrics
            .header("content-type")
            .unwrap()
            .starts_with("text/plain; version=0.0.4")
    );
    for line in [
        "checkout_orders_total{outcome=\"created\"} 1",
        "checkout_orders_total{outcome=\"out_of_stock\"} 1",
        "checkout_reservations_ended_total{ending=\"confirmed\"} 1",
        "checkout_reservations_open 0",
        "checkout_fences_refused_total 0",
        "checkout_lock_retries_total 0",
        "checkout_breaker_open 0",
        "fencepost_contended_total{store=\"sqlite\"} 0",
        "fencepost_lost_total{store=\"sqlite\",reason=\"expired\"} 0",
    ] {
        assert!(
            metrics.body.lines().any(|own| own == line),
            "{line}\n{}",
            metrics.body
        );
    }
    for histogram in [
        "fencepost_acquire_wait_seconds",
        "fencepost_hold_seconds",
        "checkout_order_seconds",
    ] {
        assert!(
            metrics.body.contains(&format!("{histogram}_bucket{{")),
            "{histogram}"
        );
    }
    let figures = service.client.get("/v1/locks/metrics").json();
    assert_eq!(
        (&figures["attempts"], &figures["failures"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(
        (&figures["active_locks"], &figures["failure_rate"]),
        (&json!(0), &json!(0.0))
    );
}

#[test]
fn every_request_is_logged_under_its_id_and_no_secret_is() {
    let stage = Stage::new();
    let service = stage.serve("--log json --admin-token hunter2-hunter2");
    let headers = [
        "X-Request-Id: from-the-proxy",
        "Authorization: Bearer hunter2-hunter2",
    ];
    let body = json!({"product_id": "lamp", "shop_id": "s1", "name": "Lamp", "price_cents": 1, "stock": 1});
    let answer = service
        .client
        .try_post("/v1/products", &body, &headers)
        .unwrap();
    assert_eq!(answer.header("x-request-id"), Some("from-the-proxy"));
    let made_up = service.client.send(
        "GET",
        "/v1/products/lamp?secret=hunter2-hunter2",
        &["X-Request-Id: a b"],
        "",
    );
    let made_up = made_up.unwrap();
    assert_ne!(made_up.header("x-request-id"), Some("a b"));
    assert!(service.stop().success());
    let log = stage.read("stderr");
    let lines: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let own = lines
        .iter()
        .find(|line| line["span"]["id"] == "from-the-proxy");
    let own = own.unwrap_or_else(|| panic!("{log}"));
    assert_eq!(
        (&own["status"], &own["span"]["route"]),
        (&json!(201), &json!("/v1/products"))
    );
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn too_many_at_once_are_refused_and_those_who_look_after_it_never_are() {
    let stage = Stage::new();
    let service = stage.serve("--max-in-flight 1 --retries 600 --deadline 60s");
    service.put_in("lamp", 5);
    let holder = stage.hold("lock:product:lamp");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| service.order(&[("lamp", 1)]));
        // Monitoring requests are always served: they do not use up the limit on requests.
        crate::stage::until("the order waits", || {
            service.metric("checkout_locks_waiting") == 1
        });
        let refused = service.client.get("/v1/products");
        refused.problem();
        assert_eq!(
            (refused.status, refused.header("retry-after")),
            (503, Some("1"))
        );
        assert_eq!(service.client.get("/healthz").status, 200);
        assert_ne!(service.metric("checkout_http_shed_total"), 0);
        holder.release();
        assert_eq!(waits.join().unwrap().status, 201);
    });
}

#[test]
fn only_a_page_of_products_that_has_a_next_one_names_it() {
    let stage = Stage::new();
    let service = stage.serve("");
    let page = |query: &str| service.client.get(&format!("/v1/products?{query}")).json();
    assert_eq!(page("limit=1"), json!({"products": [], "next_after": null}));
    for product in ["a", "b", "c"] {
        service.put_in(product, 1);
    }
    let ids = |page: &Value| -> Vec<String> {
        let products = page["products"].as_array().unwrap().iter();
        products
            .map(|product| product["product_id"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = page("limit=2");
    assert_eq!(
        (ids(&first), &first["next_after"]),
        (vec!["a".into(), "b".into()], &json!("b"))
    );
    let last = page("limit=1&after=b");
    assert_eq!(
        (ids(&last), &last["next_after"]),
        (vec!["c".into()], &json!(null))
    );
    // The last page is exactly full.
    let all = page("limit=3");
    assert_eq!((ids(&all).len(), &all["next_after"]), (3, &json!(null)));
    assert_eq!(ids(&page("limit=500")).len(), 3);
}
