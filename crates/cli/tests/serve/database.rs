//! Tests with a database server that disappears and comes back, is busy, or has tables of an earlier version.

#![cfg(feature = "postgres")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use fencepost_rig::{Direction, Postgres, Proxy};
use serde_json::json;

use crate::stage::{Service, Stage, order, until};

#[test]
fn a_database_that_restarts_never_loses_an_order_or_needs_a_restart_of_ours() {
    let mut postgres = Postgres::start().unwrap();
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
    // A review makes no order and has no key.
    let body = order("c", &[("lamp", 1)]);
    let review = service.client.post("/v1/checkout/review", &body);
    assert_eq!(review.status, 503, "{review:?}");
    assert_eq!(review.problem()["detail"], "the database is unavailable");
    // Of a change, nobody knows whether it was committed.
    let confirm = format!("{}/confirm", made.header("location").unwrap());
    let cancel = confirm.replace("/confirm", "/cancel");
    let nameless = json!({"shop_id": "s", "name": "Rug", "price_cents": 1, "stock": 1});
    let mut named = nameless.clone();
    named["product_id"] = "rug".into();
    for (path, body, how_to_know) in [
        (&*confirm, json!({}), "Repeat the request"),
        (&*cancel, json!({}), "Repeat the request"),
        ("/v1/products", named, "product-exists"),
        ("/v1/products", nameless, "GET /v1/products"),
    ] {
        let lost = service.client.post(path, &body);
        assert_eq!(lost.status, 503, "{path}: {lost:?}");
        let detail = lost.problem()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("may have taken effect"), "{path}: {detail}");
        assert!(detail.contains(how_to_know), "{path}: {detail}");
    }
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

#[test]
fn a_database_that_falls_silent_never_keeps_a_lock_alive() {
    let postgres = Postgres::start().unwrap();
    let proxy = Proxy::start(postgres.address()).unwrap();
    let stage = Stage::new();
    let through = postgres.url().replace(
        &postgres.address().to_string(),
        &proxy.address().to_string(),
    );
    let cut_off = stage.serve(&format!("--deadline 300ms --db {through}"));
    let healthy = stage.serve(&format!("--db {}", postgres.url()));
    healthy.put_in("lamp", 5);
    proxy.delay(Direction::ToServer, Proxy::FOREVER);
    let late = cut_off.order(&[("lamp", 1)]);
    assert_eq!(late.status, 504, "{late:?}");
    // The first order for this lock, by the instance that can make it. No TTL, restart or database has to end anything.
    until("another instance sells it", || {
        healthy.order(&[("lamp", 1)]).status == 201
    });
    let log = stage.read("stderr");
    assert!(log.contains("no answer in time"), "{log}");
    // A request that was sent during the silence arrives too late: its fence is refused.
    proxy.heal();
    until("it sells again", || {
        cut_off.order(&[("lamp", 1)]).status == 201
    });
    assert_eq!(healthy.product("lamp")["reserved"], 2);
    healthy.adds_up();
}

fn say(postgres: &Postgres, sql: &str) {
    let mut psql = postgres.psql();
    let done = psql.args(["-c", sql]).stdout(Stdio::null()).status();
    assert!(done.unwrap().success(), "{sql}");
}

/// A transaction that has changed orders, and stays open until it is dropped.
struct Open(Child);

impl Open {
    fn on(postgres: &Postgres) -> Self {
        let mut psql = postgres.psql();
        psql.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut psql = psql.spawn().unwrap();
        let change = b"BEGIN; UPDATE checkout_orders SET status = status; SELECT 'changed';\n";
        psql.stdin.as_mut().unwrap().write_all(change).unwrap();
        let said = BufReader::new(psql.stdout.as_mut().unwrap());
        let mut lines = said.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("changed")));
        Self(psql)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_transaction_under_way_never_keeps_a_further_instance_from_starting() {
    let postgres = Postgres::start().unwrap();
    let stage = Stage::new();
    let flags = format!("--db {}", postgres.url());
    let first = stage.serve(&flags);
    first.put_in("lamp", 10);
    assert_eq!(first.order(&[("lamp", 1)]).status, 201);
    let _open = Open::on(&postgres);
    let further = stage.serve(&flags);
    assert_eq!(further.order(&[("lamp", 1)]).status, 201);
    assert_eq!(further.product("lamp")["reserved"], 2);
}

#[test]
fn tables_of_an_earlier_version_keep_their_keys() {
    let postgres = Postgres::start().unwrap();
    let stage = Stage::new();
    let flags = format!("--db {}", postgres.url());
    let body = order("c", &[("lamp", 1)]);
    let ask = |service: &Service| {
        let key = ["Idempotency-Key: k"];
        let answer = service.client.try_post("/v1/checkout/order", &body, &key);
        answer.unwrap().json()["order_id"].clone()
    };
    let service = stage.serve(&flags);
    service.put_in("lamp", 10);
    let made = ask(&service);
    service.stop();
    say(&postgres, "ALTER TABLE checkout_keys DROP COLUMN made_ms");
    let service = stage.serve(&flags);
    assert_eq!(ask(&service), made);
    service.stop();
    // The same in a SQLite file.
    let service = stage.serve("");
    service.put_in("lamp", 10);
    let made = ask(&service);
    service.stop();
    let file = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    let as_before =
        "DROP INDEX checkout_keys_by_time; ALTER TABLE checkout_keys DROP COLUMN made_ms";
    file.execute_batch(as_before).unwrap();
    drop(file);
    let service = stage.serve("");
    assert_eq!(ask(&service), made);
}

#[test]
fn a_database_that_takes_no_writes_never_counts_as_ready() {
    let postgres = Postgres::start().unwrap();
    let stage = Stage::new();
    let service = stage.serve(&format!("--db {}", postgres.url()));
    let say = |sql: &str| say(&postgres, sql);
    for (setting, status) in [("on", 503), ("off", 200)] {
        say(&format!(
            "ALTER SYSTEM SET default_transaction_read_only = {setting}"
        ));
        say("SELECT pg_reload_conf()");
        until("it is noticed", || {
            service.client.get("/readyz").status == status
        });
        if setting == "on" {
            let (code, _, said) = stage.run(&format!("serve --port 0 --db {}", postgres.url()));
            assert_eq!(code, 69, "{said}");
            assert!(said.contains("read-only"), "{said}");
        }
    }
}

/// The shop's tables are always created; those of the locks only if the address says so.
#[test]
fn a_table_of_locks_is_made_when_the_address_says_so() {
    let postgres = fencepost_rig::Postgres::start().unwrap();
    let stage = Stage::new();
    let flags = |create: &str| {
        let url = postgres.url();
        format!("--db {url} --store {url}?table=shedlock{create}")
    };
    let (code, _, said) = stage.run(&format!("serve --port 0 {}", flags("")));
    assert_eq!(code, 69, "{said}");
    assert!(said.contains("say create=true in the address"), "{said}");
    let service = stage.serve(&flags("&create=true"));
    service.put_in("lamp", 3);
    assert_eq!(service.order(&[("lamp", 1)]).status, 201);
    service.adds_up();
}
