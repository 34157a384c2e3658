//! Tests of limits on time, headers and connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::http::LONG;
use crate::stage::{Stage, order, until};

#[test]
fn nobody_waits_for_a_lock_beyond_the_deadline() {
    for wait_mode in ["line", "poll"] {
        let stage = Stage::new();
        let flags = format!("--wait-mode {wait_mode} --retries 1000 --deadline 400ms");
        let service = stage.serve(&flags);
        service.put_in("lamp", 5);
        let holder = stage.hold("lock:product:lamp");
        let asked = Instant::now();
        let refused = service.order(&[("lamp", 1)]);
        // The pauses alone would take fifty seconds.
        assert!(asked.elapsed() < Duration::from_secs(20), "{wait_mode}");
        assert_eq!(refused.status, 409, "{wait_mode}: {refused:?}");
        let problem = refused.problem();
        assert_eq!(
            (&problem["title"], &problem["reason"]),
            (&"Product unavailable".into(), &"contended".into())
        );
        assert!(refused.header("retry-after").is_some());
        holder.release();
        until("it can be bought again", || {
            service.order(&[("lamp", 1)]).status == 201
        });
        assert_eq!(service.product("lamp")["reserved"], 1, "{wait_mode}");
    }
}

#[test]
fn customers_who_hang_up_never_make_room_for_more_orders() {
    let stage = Stage::new();
    let service = stage.serve("--max-in-flight 2 --retries 1000 --deadline 60s");
    service.put_in("lamp", 5);
    let holder = stage.hold("lock:product:lamp");
    for count in 1..=2 {
        let body = order("c", &[("lamp", 1)]).to_string();
        let mut customer = TcpStream::connect(service.client.0).unwrap();
        let head = format!(
            "POST /v1/checkout/order HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        customer
            .write_all(format!("{head}{body}").as_bytes())
            .unwrap();
        until("its order waits", || {
            service.metric("checkout_locks_waiting") == count
        });
    }
    // Only the request that reads the metrics is in flight.
    until("both have left", || {
        service.metric("checkout_http_in_flight") == 1
    });
    let waiting = service.metric("checkout_locks_waiting");
    assert_eq!(waiting, 2, "their orders have not");
    let third = service.order(&[("lamp", 1)]);
    assert_eq!(third.status, 503, "{third:?}");
    assert!(third.header("retry-after").is_some());
    holder.release();
    until("there is room again", || {
        service.order(&[("lamp", 1)]).status == 201
    });
    assert_eq!(service.product("lamp")["reserved"], 3);
}

#[test]
fn a_head_without_end_is_never_read_to_its_end() {
    let stage = Stage::new();
    let service = stage.serve("");
    let many: Vec<String> = (0..100).map(|number| format!("X-{number}: x")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let answer = service.client.send("GET", "/healthz", &many, "").unwrap();
    assert_eq!(answer.status, 431);
    let long = format!("X-Long: {}", "x".repeat(100_000));
    let answer = service.client.send("GET", "/healthz", &[&long], "");
    assert!(answer.is_err() || answer.unwrap().status == 431);
    assert_eq!(service.client.get("/healthz").status, 200);
}

#[test]
fn more_connections_than_there_is_room_for_wait_their_turn() {
    let stage = Stage::new();
    let service = stage.serve("--max-connections 2");
    let mut first = TcpStream::connect(service.client.0).unwrap();
    let second = TcpStream::connect(service.client.0).unwrap();
    // Both connections are accepted, and send nothing.
    first
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    first.set_read_timeout(Some(LONG)).unwrap();
    let mut bytes = [0; 16];
    first.read_exact(&mut bytes).unwrap();
    let mut third = TcpStream::connect(service.client.0).unwrap();
    third
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    third
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    assert!(third.read(&mut bytes).is_err(), "there is no room yet");
    drop(second);
    third.set_read_timeout(Some(LONG)).unwrap();
    third.read_exact(&mut bytes).unwrap();
    assert!(bytes.starts_with(b"HTTP/1.1 200"));
}
