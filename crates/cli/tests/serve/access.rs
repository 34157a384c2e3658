//! Tests of the access token, which is required for changes.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::http::LONG;
use crate::stage::{Stage, until};

const TOKEN: &str = "--admin-token s3cret-enough";

#[test]
fn nobody_without_the_token_changes_anything() {
    let stage = Stage::new();
    let service = stage.serve(&format!("--lab {TOKEN}"));
    let new = json!({"product_id": "lamp", "shop_id": "s1", "name": "Lamp", "price_cents": 1, "stock": 1});
    let paths = [
        "/v1/products",
        "/v1/checkout/order",
        "/v1/orders/x/confirm",
        "/v1/orders/x/cancel",
        "/reset",
        "/purchase",
    ];
    for path in paths {
        let refused = service.client.post(path, &new);
        assert_eq!(refused.status, 401, "{path}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        refused.problem();
    }
    let wrong = ["Authorization: Bearer wrong-token"];
    assert_eq!(
        service
            .client
            .try_post("/v1/products", &new, &wrong)
            .unwrap()
            .status,
        401
    );
    assert_eq!(
        service.client.get("/v1/products").json()["products"],
        json!([])
    );
    let right = ["Authorization: Bearer s3cret-enough"];
    assert_eq!(
        service
            .client
            .try_post("/v1/products", &new, &right)
            .unwrap()
            .status,
        201
    );
    // Reading changes nothing, so it needs no token.
    assert_eq!(service.client.get("/v1/products/lamp").status, 200);
    assert!(!stage.read("stderr").contains("s3cret"));
}

#[test]
fn other_machines_are_never_let_in_without_a_token() {
    let stage = Stage::new();
    let (code, stdout, stderr) = stage.run("serve --port 0 --host 0.0.0.0");
    assert_eq!((code, stdout.as_str()), (64, ""));
    assert!(stderr.contains("--admin-token"), "{stderr}");
    assert!(
        !stage.path("shop.db").exists(),
        "refused before anything was made"
    );
    let service = stage.serve(&format!("--lab --host 0.0.0.0 {TOKEN}"));
    let port = service.client.0.port();
    let here = crate::http::Client(([127, 0, 0, 1], port).into());
    assert_eq!(here.get("/healthz").status, 200);
    assert_eq!(here.post("/reset", &json!({"stock": 1})).status, 401);
}

#[test]
fn another_sites_page_never_changes_anything() {
    let stage = Stage::new();
    let service = stage.serve("--lab");
    let body = json!({"stock": 3});
    let send = |headers: &[&str]| {
        service
            .client
            .try_post("/reset", &body, headers)
            .unwrap()
            .status
    };
    assert_eq!(send(&["Origin: https://evil.example"]), 403);
    assert_eq!(
        send(&["Host: evil.example", "Origin: http://evil.example"]),
        403
    );
    let own = format!("Origin: http://{}", service.client.0);
    assert_eq!(send(&[&own]), 200);
}

#[test]
fn whoever_watches_never_learns_a_whole_order_id() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 5);
    let mut stream = TcpStream::connect(service.client.0).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
        .write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut seen = String::new();
    let mut read_until = |what: &str| {
        let mut bytes = [0; 4096];
        while !seen.contains(what) {
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "ended before {what}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        seen.clone()
    };
    read_until("event: hello");
    let made = service.order(&[("lamp", 1)]).json();
    let id = made["order_id"].as_str().unwrap();
    let end = &id[id.len() - 6..];
    let seen = read_until(&format!("\"order\":\"{end}\""));
    assert!(!seen.contains(id), "{seen}");
}

#[test]
fn names_of_others_in_the_store_are_never_shown_without_the_token() {
    let stage = Stage::new();
    let service = stage.serve(TOKEN);
    let holder = stage.hold("session:hunter2");
    let names = |headers: &[&str]| {
        let path = "/v1/locks?pattern=*";
        service.client.send("GET", path, headers, "").unwrap().body
    };
    // Its own locks are listed, including the lock of the sweep.
    until("it sweeps", || names(&[]).contains("checkout:sweep"));
    assert!(!names(&[]).contains("hunter2"));
    assert!(!names(&["Authorization: Bearer wrong-token"]).contains("hunter2"));
    assert!(names(&["Authorization: Bearer s3cret-enough"]).contains("session:hunter2"));
    holder.release();
}
