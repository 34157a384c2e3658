//! Tests of the orderly shutdown of the service.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigHandler, Signal, signal};

use crate::http::LONG;
use crate::stage::{Stage, until};

#[test]
fn an_order_under_way_is_never_dropped_by_a_stop() {
    let stage = Stage::new();
    let mut service = stage.serve("--retries 600 --deadline 60s");
    service.put_in("lamp", 5);
    // Another program holds the lock, so that an order waits while the service is stopped.
    let holder = stage.hold("lock:product:lamp");
    let client = service.client;
    let order = std::thread::spawn(move || {
        let body = crate::stage::order("c", &[("lamp", 1)]);
        client.post("/v1/checkout/order", &body)
    });
    until("it waits", || {
        client.get("/v1/locks/metrics").json()["waiting_orders"] == 1
    });
    service.signal(Signal::SIGTERM);
    until("nobody new is let in", || {
        TcpStream::connect(client.0).is_err()
    });
    holder.release();
    let answer = order.join().unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    assert!(service.end().success());
    let said = stage.read("stderr");
    assert!(
        said.ends_with("stopped: 1 request in flight finished, 0 undone, 0 locks released\n"),
        "{said}"
    );
    let service = stage.serve("");
    assert_eq!(service.product("lamp")["reserved"], 1);
    service.adds_up();
}

#[test]
fn an_order_that_waits_for_longer_than_a_stop_is_told_so() {
    let stage = Stage::new();
    let mut service = stage.serve("--retries 600 --deadline 60s");
    service.put_in("lamp", 5);
    let holder = stage.hold("lock:product:lamp");
    let client = service.client;
    let order = std::thread::spawn(move || {
        let body = crate::stage::order("c", &[("lamp", 1)]);
        client.try_post("/v1/checkout/order", &body, &[])
    });
    until("it waits", || {
        client.get("/v1/locks/metrics").json()["waiting_orders"] == 1
    });
    service.signal(Signal::SIGTERM);
    assert!(service.end().success());
    let answer = order.join().unwrap().expect("an answer");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.problem()["type"], "urn:fencepost:closing");
    assert!(answer.header("retry-after").is_some());
    let said = stage.read("stderr");
    assert!(
        said.ends_with("stopped: 0 requests in flight finished, 1 undone, 0 locks released\n"),
        "{said}"
    );
    holder.release();
    let service = stage.serve("");
    assert_eq!(service.product("lamp")["reserved"], 0);
    service.adds_up();
}

/// Ten seconds for pending requests, five for a last transaction, two for the lock store, and a margin for a busy machine. This
/// is less than deploy/compose.yml allows before the kill.
#[cfg(feature = "postgres")]
const LONGEST_STOP: Duration = Duration::from_secs(20);

#[cfg(feature = "postgres")]
#[test]
fn a_database_that_hangs_never_holds_up_a_stop_and_no_order_is_called_finished() {
    let postgres = fencepost_rig::Postgres::start().unwrap();
    let proxy = fencepost_rig::Proxy::start(postgres.address()).unwrap();
    let real = postgres.address().to_string();
    let address = postgres.url().replace(&real, &proxy.address().to_string());
    let stage = Stage::new();
    let mut service = stage.serve(&format!("--db {address}"));
    service.put_in("lamp", 5);
    proxy.swallow(fencepost_rig::Direction::ToClient);
    let client = service.client;
    let order = std::thread::spawn(move || {
        let body = crate::stage::order("c", &[("lamp", 1)]);
        client.post("/v1/checkout/order", &body)
    });
    until("it has its lock", || {
        let (_, listed, _) = stage.run("locks list lock:*");
        listed.contains("lock:product:lamp")
    });
    let asked = Instant::now();
    service.signal(Signal::SIGTERM);
    let answer = order.join().unwrap();
    assert!([503, 504].contains(&answer.status), "{answer:?}");
    assert!(service.end().success());
    let took = asked.elapsed();
    assert!(took < LONGEST_STOP, "{took:?}");
    println!("stopped after {took:?}");
    let said = stage.read("stderr");
    assert!(
        said.contains("stopped: 0 requests in flight finished, 1 not"),
        "{said}"
    );
}

#[test]
fn those_who_watch_never_hold_up_a_stop() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 5);
    let mut stream = TcpStream::connect(service.client.0).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let ask = format!(
        "GET /v1/events HTTP/1.1\r\nHost: {}\r\n\r\n",
        service.client.0
    );
    stream.write_all(ask.as_bytes()).unwrap();
    let mut seen = String::new();
    let mut read_until = |what: &str| {
        let mut bytes = [0; 4096];
        while !seen.contains(what) {
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "ended before {what}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    };
    read_until("event: hello");
    assert_eq!(service.order(&[("lamp", 2)]).status, 201);
    for event in [
        "lock_wanted",
        "lock_granted",
        "lock_released",
        "order_changed",
        "stock",
    ] {
        read_until(&format!("event: {event}"));
    }
    read_until("\"stock\":3,\"reserved\":2");
    let asked = Instant::now();
    assert!(service.stop().success());
    // Connections that do not end by themselves have ten seconds.
    assert!(asked.elapsed() < Duration::from_secs(9));
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
}

#[test]
fn nothing_is_left_locked_after_a_stop() {
    let stage = Stage::new();
    let service = stage.serve("");
    until("it sweeps", || {
        stage
            .run("locks list checkout:*")
            .1
            .contains("checkout:sweep")
    });
    service.signal(Signal::SIGINT);
    let mut service = service;
    assert!(service.end().success());
    let (_, listed, _) = stage.run("locks list --json");
    assert!(!listed.contains("checkout:sweep"), "{listed}");
}

/// A backup that copies one file must not miss what is still in the log beside it.
#[test]
fn after_a_stop_each_file_is_complete_without_its_log() {
    for number in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let stage = Stage::new();
        let mut service = stage.serve("");
        service.put_in("lamp", 5);
        let made = service.order(&[("lamp", 2)]);
        assert_eq!(made.status, 201, "{made:?}");
        service.signal(number);
        assert!(service.end().success());
        let alone = |file: &str| {
            let copy = stage.path(&format!("copy-of-{file}"));
            std::fs::copy(stage.path(file), &copy).unwrap();
            rusqlite::Connection::open(copy).unwrap()
        };
        let count = |file: &rusqlite::Connection, sql: &str| -> i64 {
            file.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        let shop = alone("shop.db");
        assert_eq!(count(&shop, "SELECT count(*) FROM checkout_orders"), 1);
        let reserved = "SELECT reserved FROM checkout_products WHERE id = 'lamp'";
        assert_eq!(count(&shop, reserved), 2);
        let locks = alone("locks.db");
        let tables = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'fencepost_%'";
        assert!(count(&locks, tables) > 0);
        assert_eq!(stage.read("stderr").matches("WARN").count(), 0);
    }
}

#[test]
fn a_file_that_cannot_be_made_complete_is_named() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 5);
    // A reader needs the log for as long as it reads.
    let reader = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let products = "SELECT count(*) FROM checkout_products";
    let before: i64 = reader.query_row(products, [], |row| row.get(0)).unwrap();
    assert_eq!(service.order(&[("lamp", 2)]).status, 201);
    assert!(service.stop().success());
    assert_eq!(before, 1);
    assert!(stage.path("shop.db-wal").metadata().unwrap().len() > 0);
    let said = stage.read("stderr");
    let warning = said.lines().find(|line| line.contains("WARN"));
    let warning = warning.unwrap_or_else(|| panic!("{said}"));
    assert!(
        warning.contains("part of the data is still in the -wal beside the file"),
        "{warning}"
    );
    assert!(warning.contains("file=\"database\""), "{warning}");
}

/// The exit codes, as the help explains them.
#[test]
fn one_signal_stops_in_order_and_a_second_one_at_once() {
    let (_, help, _) = Stage::new().run("serve --help");
    let explained =
        "0 stopped by Ctrl-C, SIGTERM or SIGHUP   128 + N stopped at once by a second signal N";
    assert!(help.contains(explained), "{help}");
    for number in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let stage = Stage::new();
        let mut service = stage.serve("");
        service.put_in("lamp", 5);
        service.signal(number);
        assert_eq!(service.end().code(), Some(0));
        let mut service = stage.serve("--retries 600 --deadline 60s");
        let client = service.client;
        let holder = stage.hold("lock:product:lamp");
        let order = std::thread::spawn(move || {
            let body = crate::stage::order("c", &[("lamp", 1)]);
            client.try_post("/v1/checkout/order", &body, &[])
        });
        until("it waits", || {
            client.get("/v1/locks/metrics").json()["waiting_orders"] == 1
        });
        service.signal(number);
        until("nobody new is let in", || {
            TcpStream::connect(client.0).is_err()
        });
        service.signal(number);
        assert_eq!(service.end().code(), Some(128 + number as i32));
        assert!(order.join().unwrap().is_err(), "nobody answered it");
        holder.release();
    }
}

/// SIGHUP is ignored, as after `nohup`.
#[test]
fn a_closed_terminal_does_not_end_a_service_that_was_told_to_ignore_it() {
    let stage = Stage::new();
    let mut command = stage.fencepost("serve --port 0");
    // SAFETY: between fork and exec only `sigaction` is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            signal(Signal::SIGHUP, SigHandler::SigIgn)?;
            Ok(())
        });
    }
    let mut service = stage.start(command);
    service.signal(Signal::SIGHUP);
    service.put_in("lamp", 5);
    service.signal(Signal::SIGTERM);
    assert!(service.end().success());
}
