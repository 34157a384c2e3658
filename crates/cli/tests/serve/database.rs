//! A database server that goes away and comes back.

#![cfg(feature = "postgres")]

use crate::stage::{Stage, until};

#[test]
fn a_database_that_restarts_never_loses_an_order_or_needs_a_restart_of_ours() {
    let mut postgres = fencepost_rig::Postgres::start().unwrap();
    let stage = Stage::new();
    let service = stage.serve(&format!("--db {}", postgres.url()));
    service.put_in("lamp", 1_000);
    let made = service.order(&[("lamp", 1)]);
    assert_eq!(made.status, 201, "{made:?}");
    postgres.crash();
    let down = service.order(&[("lamp", 1)]);
    assert_eq!(down.status, 503, "{down:?}");
    assert!(down.header("retry-after").is_some());
    let text = down.problem().to_string();
    assert!(
        !text.contains("5432") && !text.contains("checkout_"),
        "{text}"
    );
    assert_eq!(service.client.get("/readyz").status, 503);
    assert_eq!(service.client.get("/metrics").status, 200);
    postgres.restart().unwrap();
    until("orders are made again", || {
        service.order(&[("lamp", 1)]).status == 201
    });
    let path = made.header("location").unwrap();
    assert_eq!(service.client.get(path).json(), made.json());
    assert_eq!(service.product("lamp")["reserved"], 2);
    service.adds_up();
}
