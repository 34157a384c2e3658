//! Tests with a database file that is moved or replaced under the running service.

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::http::Answer;
use crate::stage::{Service, Stage};

const REASON: &str = "the database file was removed or replaced";

/// Customers learn what happened; what to do about it concerns operators.
fn is_refused(answer: &Answer) -> bool {
    let problem = answer.problem();
    answer.status == 503
        && problem["type"] == "urn:fencepost:database-gone"
        && problem["detail"] == format!("{REASON}. Nothing was changed")
}

/// Checks that the service is not ready, says why, and writes nothing any more.
fn refuses_to_write(service: &Service) {
    let ready = service.client.get("/readyz");
    assert_eq!(ready.status, 503, "{ready:?}");
    let detail = ready.problem()["detail"].to_string();
    assert!(detail.contains(REASON), "{detail}");
    assert!(detail.contains("Put the original file back"), "{detail}");
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
    // The same file, back in its place.
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
    // Without a readiness check before.
    let answer = service.order(&[("lamp", 1)]);
    assert!(is_refused(&answer), "{answer:?}");
}

/// Creates a database like a backup: one file without a log.
fn backup(path: &Path) {
    let file = rusqlite::Connection::open(path).unwrap();
    let rows = "CREATE TABLE goods (id INTEGER PRIMARY KEY, name TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
        INSERT INTO goods SELECT i, 'something' FROM n";
    file.execute_batch(rows).unwrap();
}

/// Returns the number of products that the next program to open the file finds.
fn goods(path: &Path) -> i64 {
    let file = rusqlite::Connection::open(path).unwrap();
    let sql = "SELECT count(*) FROM goods";
    file.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_restored_file_is_left_as_it_is_by_the_stop_that_is_advised() {
    for file in ["shop.db", "locks.db"] {
        let stage = Stage::new();
        let mut service = stage.serve("");
        service.put_in("lamp", 10);
        assert_eq!(service.order(&[("lamp", 1)]).status, 201);
        backup(&stage.path("backup.db"));
        // The log of the old file stays beside it.
        fs::rename(stage.path("backup.db"), stage.path(file)).unwrap();
        service.signal(Signal::SIGTERM);
        assert!(service.end().success());
        assert_eq!(goods(&stage.path(file)), 300, "{file}");
    }
}

/// A file that was moved elsewhere is complete there.
#[test]
fn a_file_that_was_moved_away_is_complete_after_a_stop() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 10);
    assert_eq!(service.order(&[("lamp", 1)]).status, 201);
    let elsewhere = stage.path("elsewhere.db");
    fs::rename(stage.path("shop.db"), &elsewhere).unwrap();
    assert!(service.stop().success());
    assert!(!stage.path("shop.db").exists());
    let file = rusqlite::Connection::open(elsewhere).unwrap();
    let orders = "SELECT count(*) FROM checkout_orders";
    let orders: i64 = file.query_row(orders, [], |row| row.get(0)).unwrap();
    assert_eq!(orders, 1);
}
