//! A database server that goes away and comes back.

#![cfg(feature = "postgres")]

use std::process::Stdio;

use fencepost_rig::{Direction, Proxy};

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

#[test]
fn a_database_that_falls_silent_never_keeps_a_lock_alive() {
    let postgres = fencepost_rig::Postgres::start().unwrap();
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
    // The first order of this lock, by the one that can make it: no TTL, no restart, no database has to end anything.
    until("another instance sells it", || {
        healthy.order(&[("lamp", 1)]).status == 201
    });
    let log = stage.read("stderr");
    assert!(log.contains("no answer in time"), "{log}");
    // What was asked for while nothing was heard comes too late: its fence is refused.
    proxy.heal();
    until("it sells again", || {
        cut_off.order(&[("lamp", 1)]).status == 201
    });
    assert_eq!(healthy.product("lamp")["reserved"], 2);
    healthy.adds_up();
}

#[test]
fn a_database_that_takes_no_writes_never_counts_as_ready() {
    let postgres = fencepost_rig::Postgres::start().unwrap();
    let stage = Stage::new();
    let service = stage.serve(&format!("--db {}", postgres.url()));
    let say = |sql: &str| {
        let mut psql = postgres.psql();
        let done = psql.args(["-c", sql]).stdout(Stdio::null()).status();
        assert!(done.unwrap().success(), "{sql}");
    };
    for (setting, status) in [("on", 503), ("off", 200)] {
        say(&format!(
            "ALTER SYSTEM SET default_transaction_read_only = {setting}"
        ));
        say("SELECT pg_reload_conf()");
        until("it is noticed", || {
            service.client.get("/readyz").status == status
        });
    }
}

/// The shop's tables are made without asking; those of the locks when the address says so.
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
