//! Tests of invalid requests, which are refused with a reason and change nothing.

use serde_json::{Value, json};

use crate::stage::{Stage, order};

fn with_quantity(quantity: Value) -> Value {
    json!({"cart_id": "c", "user_id": "u", "shop_orders": [
        {"shop_id": "s1", "item_products": [{"product_id": "lamp", "quantity": quantity}]}]})
}

fn changed(body: &Value, pointer: &str, value: Value) -> Value {
    let mut body = body.clone();
    *body.pointer_mut(pointer).unwrap() = value;
    body
}

#[test]
fn an_order_that_makes_no_sense_never_changes_anything() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 5);
    service.put_in("desk", 5);
    let good = order("c", &[("lamp", 1)]);
    let two = |one: &str, other: &str| {
        json!({"cart_id": "c", "user_id": "u", "shop_orders": [
            {"shop_id": "s1", "item_products": [{"product_id": one, "quantity": 1}]},
            {"shop_id": "s1", "item_products": [{"product_id": other, "quantity": 1}]}]})
    };
    let hundred_and_one: Vec<(String, i64)> = (0..101).map(|n| (format!("p{n}"), 1)).collect();
    let hundred_and_one: Vec<(&str, i64)> = hundred_and_one
        .iter()
        .map(|(id, n)| (id.as_str(), *n))
        .collect();
    let cases: Vec<(&str, Value, u16)> = vec![
        ("zero", with_quantity(json!(0)), 422),
        ("negative", with_quantity(json!(-1)), 422),
        (
            "2^63",
            with_quantity(json!(9_223_372_036_854_775_808_u64)),
            422,
        ),
        ("a fraction", with_quantity(json!(1.5)), 422),
        ("a text", with_quantity(json!("1")), 422),
        ("nothing", with_quantity(Value::Null), 422),
        ("too many units", with_quantity(json!(1_001)), 422),
        ("too many items", order("c", &hundred_and_one), 422),
        (
            "no items",
            json!({"cart_id": "c", "user_id": "u", "shop_orders": []}),
            422,
        ),
        ("a product twice", two("lamp", "lamp"), 422),
        ("an unknown product", two("lamp", "nobody-knows"), 404),
        (
            "another shop's",
            changed(&good, "/shop_orders/0/shop_id", json!("s2")),
            409,
        ),
        (
            "an id with a slash",
            changed(&good, "/cart_id", json!("../etc")),
            422,
        ),
        (
            "an id with a zero byte",
            changed(&good, "/user_id", json!("a\u{0}b")),
            422,
        ),
        ("an empty id", changed(&good, "/user_id", json!("")), 422),
        (
            "a long id",
            changed(&good, "/user_id", json!("x".repeat(65))),
            422,
        ),
        (
            "an unknown field",
            {
                let mut body = good.clone();
                body["user_payment"] = json!({"card_number": "4111"});
                body
            },
            422,
        ),
        (
            "a zero byte in a text",
            {
                let mut body = good.clone();
                body["user_address"] = json!({"city": "a\u{0}b"});
                body
            },
            422,
        ),
        ("a list", json!([]), 422),
        (
            "a list of the fields",
            json!(["c", "u", good["shop_orders"]]),
            422,
        ),
        (
            "an item as a list",
            changed(&good, "/shop_orders/0/item_products/0", json!(["lamp", 1])),
            422,
        ),
        (
            "a shop as a list",
            changed(
                &good,
                "/shop_orders/0",
                json!(["s1", [{"product_id": "lamp", "quantity": 1}]]),
            ),
            422,
        ),
        (
            "an address as a list",
            {
                let mut body = good.clone();
                body["user_address"] = json!(["n", "s", "c", "p", "x"]);
                body
            },
            422,
        ),
        (
            "a payment as a list",
            {
                let mut body = good.clone();
                body["user_payment"] = json!(["card", "r"]);
                body
            },
            422,
        ),
    ];
    for (what, body, status) in &cases {
        let answer = service.client.post("/v1/checkout/order", body);
        assert_eq!(answer.status, *status, "{what}: {answer:?}");
        answer.problem();
    }
    let ten_thousand: Vec<(&str, i64)> = vec![("lamp", 1); 10_000];
    let answer = service
        .client
        .post("/v1/checkout/order", &order("c", &ten_thousand));
    assert_eq!(answer.status, 413, "{answer:?}");
    answer.problem();
    for product in ["lamp", "desk"] {
        let product = service.product(product);
        assert_eq!([&product["stock"], &product["reserved"]], [5, 0]);
    }
    assert_eq!(
        service.client.get("/v1/products").json()["products"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    service.adds_up();
    // A valid request is served as before.
    assert_eq!(service.client.post("/v1/checkout/order", &good).status, 201);
    let log = stage.read("stderr");
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
}

#[test]
fn a_body_that_is_no_json_is_never_read_as_one() {
    let stage = Stage::new();
    let service = stage.serve("");
    let send = |headers: &[&str], body: &str| {
        let answer = service
            .client
            .send("POST", "/v1/products", headers, body)
            .unwrap();
        answer.problem();
        answer.status
    };
    let json = "Content-Type: application/json";
    assert_eq!(send(&[json], "{\"product_id\": "), 400);
    assert_eq!(send(&[json], ""), 400);
    assert_eq!(send(&[json], "\u{0}\u{1}"), 400);
    assert_eq!(send(&[json], &"[".repeat(100_000)), 422);
    assert_eq!(send(&["Content-Type: text/plain"], "{}"), 415);
    assert_eq!(send(&[], "{}"), 415);
    assert_eq!(send(&[json], &format!("\"{}\"", "x".repeat(300_000))), 413);
    let wrong = [
        json!({"shop_id": "s", "name": "n", "price_cents": -1, "stock": 1}),
        json!({"shop_id": "s", "name": "n", "price_cents": 1, "stock": 1_000_000_001}),
        json!({"shop_id": "s", "name": "n", "price_cents": 1}),
        json!({"shop_id": "s", "name": "a\nb", "price_cents": 1, "stock": 1}),
        json!(["lamp", "s", "n", 1, 1]),
    ];
    for body in wrong {
        let answer = service.client.post("/v1/products", &body);
        assert_eq!(answer.status, 422, "{body}");
        answer.problem();
    }
    assert_eq!(
        service.client.get("/v1/products").json()["products"],
        json!([])
    );
}

#[test]
fn a_name_that_shows_as_something_else_is_never_taken() {
    let stage = Stage::new();
    let service = stage.serve("");
    let put = |name: &str| {
        let body = json!({"shop_id": "s", "name": name, "price_cents": 1, "stock": 1});
        service.client.post("/v1/products", &body)
    };
    let blank = ["", " ", "\u{a0}\u{2003}"];
    let controls = ["a\u{0}", "a\u{1b}[2J", "a\u{85}b"];
    let turning = [
        "\u{61c}", "\u{200e}", "\u{200f}", "\u{2028}", "\u{2029}", "\u{202a}", "\u{202b}",
        "\u{202c}", "\u{202d}", "\u{202e}", "\u{2066}", "\u{2067}", "\u{2068}", "\u{2069}",
    ]
    .map(|turn| format!("lamp{turn}pmal"));
    let turning = turning.iter().map(String::as_str);
    for name in blank.into_iter().chain(controls).chain(turning) {
        let answer = put(name);
        assert_eq!(answer.status, 422, "{name:?}");
        let detail = answer.problem()["detail"].to_string();
        assert!(
            detail.contains("a name has 1 to 200 characters"),
            "{detail}"
        );
    }
    for name in ["Lamp", "מנורה", "مصباح ٧", "👩\u{200d}🔧"] {
        let made = put(name);
        assert_eq!((made.status, &made.json()["name"]), (201, &json!(name)));
    }
}

#[test]
fn paths_queries_and_keys_that_make_no_sense_are_told_so() {
    let stage = Stage::new();
    let service = stage.serve("");
    let status = |path: &str| {
        let answer = service.client.get(path);
        answer.problem();
        answer.status
    };
    assert_eq!(status("/v1/products/nobody-knows"), 404);
    assert_eq!(status("/v1/products/a%20b"), 400);
    assert_eq!(status("/v1/products/%ff"), 400);
    assert_eq!(status("/v1/orders/'%3B--"), 400);
    assert_eq!(status("/v1/products?limit=0"), 400);
    assert_eq!(status("/v1/products?limit=many"), 400);
    assert_eq!(status("/v1/products?after=%00"), 400);
    assert_eq!(status("/v1/locks?pattern=%00"), 400);
    assert_eq!(status("/nowhere"), 404);
    let wrong = service
        .client
        .send("DELETE", "/v1/products", &[], "")
        .unwrap();
    assert_eq!((wrong.status, wrong.header("allow").is_some()), (405, true));
    service.put_in("lamp", 5);
    let long = format!("Idempotency-Key: {}", "k".repeat(256));
    for key in ["Idempotency-Key: ", "Idempotency-Key: a b", &long] {
        let body = order("c", &[("lamp", 1)]);
        let answer = service
            .client
            .try_post("/v1/checkout/order", &body, &[key])
            .unwrap();
        assert_eq!(answer.status, 400, "{key}");
    }
    let confirm = service
        .client
        .post("/v1/orders/nobody-knows/confirm", &json!(null));
    assert_eq!(confirm.status, 404);
    assert_eq!(service.product("lamp")["stock"], 5);
}
