//! A database file that is taken away under the running service.

use std::fs;

use serde_json::{Value, json};

use crate::http::Answer;
use crate::stage::{Service, Stage};

const REASON: &str = "the database's file was removed or replaced";

fn is_refused(answer: &Answer) -> bool {
    answer.status == 503 && answer.problem()["type"] == "urn:fencepost:database-gone"
}

/// It is not ready and says why; nothing is written any more.
fn refuses_to_write(service: &Service) {
    let ready = service.client.get("/readyz");
    assert_eq!(ready.status, 503, "{ready:?}");
    let detail = ready.problem()["detail"].to_string();
    assert!(detail.contains(REASON), "{detail}");
    for path in ["/v1/checkout/order", "/v1/products"] {
        let body: Value = match path {
            "/v1/products" => {
                json!({"shop_id": "s1", "name": "Desk", "price_cents": 1, "stock": 1})
            }
            _ => crate::stage::order("c", &[("lamp", 1)]),
        };
        let answer = service.client.post(path, &body);
        assert!(is_refused(&answer), "{answer:?}");
    }
}

#[test]
fn nothing_is_ever_sold_into_a_file_that_was_removed_or_replaced() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 10);
    assert_eq!(service.order(&[("lamp", 1)]).status, 201);
    let (place, aside) = (stage.path("shop.db"), stage.path("aside.db"));
    fs::rename(&place, &aside).unwrap();
    refuses_to_write(&service);
    fs::write(&place, "").unwrap();
    refuses_to_write(&service);
    fs::copy(&aside, &place).unwrap();
    refuses_to_write(&service);
    // The same file, back at its place.
    fs::rename(&aside, &place).unwrap();
    assert_eq!(service.client.get("/readyz").status, 200);
    assert_eq!(service.order(&[("lamp", 1)]).status, 201);
    let lamp = service.product("lamp");
    assert_eq!([&lamp["stock"], &lamp["reserved"]], [8, 2]);
    service.adds_up();
}

#[test]
fn orders_notice_by_themselves_that_the_file_is_gone() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 100_000);
    assert_eq!(service.order(&[("lamp", 1)]).status, 201);
    fs::remove_file(stage.path("shop.db")).unwrap();
    // Nobody asks whether it is ready.
    let answer = service.order(&[("lamp", 1)]);
    assert!(is_refused(&answer), "{answer:?}");
}
