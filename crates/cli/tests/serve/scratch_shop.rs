//! Tests of the scratch shop for load tests.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::stage::{Stage, at_once, until};

const STRATEGIES: [&str; 5] = ["none", "naive", "safe", "watchdog", "fenced"];

fn sell(lock: &str, wait_ms: u64) -> (usize, Value, Vec<Value>) {
    let stage = Stage::new();
    let service = stage.serve("--lab --deadline 30s");
    let reset = service
        .client
        .post("/reset", &json!({"product_id": "product_A", "stock": 1}));
    let expected = json!({"status": "ok", "product_id": "product_A", "stock": 1});
    assert_eq!((reset.status, reset.json()), (200, expected));
    let body = json!({"product_id": "product_A", "quantity": 1, "lock_strategy": lock, "wait_ms": wait_ms});
    let answers = at_once(50, |_| service.client.post("/purchase", &body));
    assert!(
        answers.iter().all(|answer| answer.status == 200),
        "also when refused"
    );
    let entries: Vec<Value> = answers.iter().map(|answer| answer.json()).collect();
    let sold = entries
        .iter()
        .filter(|entry| entry["success"] == true)
        .count();
    let left = service.client.get("/stock/product_A").json();
    (sold, left, entries)
}

#[test]
fn a_safe_purchase_is_never_made_twice() {
    let (sold, left, entries) = sell("safe", 0);
    assert_eq!(sold, 1);
    assert_eq!(left, json!({"product_id": "product_A", "stock": 0}));
    let names: BTreeSet<&str> = entries
        .iter()
        .map(|entry| entry["process_id"].as_str().unwrap())
        .collect();
    assert_eq!(
        names.len(),
        entries.len(),
        "each purchase has a name of its own"
    );
    for entry in &entries {
        let fields: Vec<&String> = entry.as_object().unwrap().keys().collect();
        let expected = [
            "process_id",
            "lock_acquired",
            "stock_before",
            "stock_after",
            "duration_ms",
            "success",
            "error",
        ];
        assert_eq!(fields, expected);
        match entry["error"].as_str() {
            None => assert_eq!(
                (&entry["stock_before"], &entry["stock_after"]),
                (&json!(1), &json!(0))
            ),
            Some("Failed to acquire lock") => {
                assert_eq!(entry["lock_acquired"], false);
                assert_eq!(
                    (&entry["stock_before"], &entry["stock_after"]),
                    (&json!(-1), &json!(-1))
                );
            }
            Some("Insufficient stock") => {
                assert_eq!(entry["lock_acquired"], true);
                assert_eq!(entry["stock_before"], 0);
            }
            Some(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_fenced_purchase_that_waits_is_never_made_twice() {
    assert_eq!(sell("fenced", 4_000).0, 1);
}

#[test]
fn without_a_lock_too_much_is_sold() {
    // The control for the other locks. The race window is wide, but overselling is still not certain.
    let oversold = (0..10).any(|_| sell("none", 0).0 > 1);
    assert!(
        oversold,
        "no lock, and never too much sold in ten races of fifty"
    );
}

#[test]
fn a_purchase_has_defaults_and_nonsense_is_refused() {
    let stage = Stage::new();
    let service = stage.serve("--lab");
    let bought = service.client.post("/purchase", &json!({})).json();
    assert_eq!(
        (&bought["success"], &bought["error"]),
        (&json!(false), &json!("Insufficient stock"))
    );
    service.client.post("/reset", &json!({"stock": 2}));
    let bought = service
        .client
        .post("/purchase", &json!({"lock_strategy": "watchdog"}))
        .json();
    assert_eq!(
        (&bought["success"], &bought["stock_after"]),
        (&json!(true), &json!(1))
    );
    assert_eq!(service.client.get("/stock/default").json()["stock"], 1);
    for (path, body, status) in [
        ("/purchase", json!({"quantity": 0}), 422),
        ("/purchase", json!({"quantity": -1}), 422),
        ("/purchase", json!({"lock_strategy": "hope"}), 422),
        ("/purchase", json!({"product_id": "never-set"}), 404),
        ("/purchase", json!({"wait_ms": 1_000_000}), 422),
        ("/reset", json!({"stock": -1}), 422),
        ("/reset", json!({}), 422),
    ] {
        let answer = service.client.post(path, &body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        answer.problem();
    }
    assert_eq!(service.client.get("/stock/never-set").status, 404);
    assert_eq!(service.client.get("/stock/default").json()["stock"], 1);
}

#[test]
fn a_misspelt_field_never_means_the_default() {
    let stage = Stage::new();
    let service = stage.serve("--lab");
    let set = json!({"product_id": "p", "stock": 2});
    assert_eq!(service.client.post("/reset", &set).status, 200);
    let detail = |path: &str, body: Value| {
        let answer = service.client.post(path, &body);
        assert_eq!(answer.status, 422, "{body}: {answer:?}");
        answer.problem()["detail"].as_str().unwrap().to_owned()
    };
    let said = detail(
        "/purchase",
        json!({"product_id": "p", "lock_strategi": "none"}),
    );
    let known = "`product_id`, `quantity`, `lock_strategy`, `wait_ms`";
    assert!(
        said.contains("unknown field `lock_strategi`") && said.contains(known),
        "{said}"
    );
    let said = detail("/reset", json!({"stock": 7, "product": "p"}));
    assert!(
        said.contains("unknown field `product`")
            && said.contains("expected `product_id` or `stock`"),
        "{said}"
    );
    for wait in [
        json!(-1),
        json!(4_001),
        json!(0.5),
        json!(1_000_000_000_000_i64),
    ] {
        let said = detail("/purchase", json!({"product_id": "p", "wait_ms": wait}));
        let limit = "wait_ms is a whole number from 0 to 4000";
        assert!(said.contains(limit), "{said}");
    }
    // Nothing was sold or set meanwhile, and every known field is accepted.
    assert_eq!(service.client.get("/stock/p").json()["stock"], 2);
    let all =
        json!({"product_id": "p", "quantity": 2, "lock_strategy": "fenced", "wait_ms": 4_000});
    assert_eq!(
        service.client.post("/purchase", &all).json()["success"],
        true
    );
}

#[test]
fn customers_who_hang_up_never_make_room_for_more_purchases() {
    let stage = Stage::new();
    let service = stage.serve("--lab --max-in-flight 2 --deadline 60s");
    let set = service.client.post("/reset", &json!({"stock": 10}));
    assert_eq!(set.status, 200);
    // Whoever buys now waits for this file.
    let scratch = stage.scratch().into_iter();
    let folders = scratch.flat_map(|folder| {
        let folder = std::fs::read_dir(stage.path("scratch").join(folder));
        folder.into_iter().flatten().flatten()
    });
    let mut files = folders.map(|folder| folder.path().join("run.db"));
    let file = files.find(|file| file.exists()).unwrap();
    let blocker = rusqlite::Connection::open(file).unwrap();
    blocker.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let body = json!({"lock_strategy": "none"});
    let buyers = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", service.pid())).unwrap();
        let names = tasks.flatten().map(|task| task.path().join("comm"));
        let names = names.filter_map(|name| std::fs::read_to_string(name).ok());
        names.filter(|name| name == "checkout-buyer\n").count()
    };
    for count in 1..=2 {
        let mut customer = TcpStream::connect(service.client.0).unwrap();
        let (body, head) = (
            body.to_string(),
            "POST /purchase HTTP/1.1\r\nHost: localhost",
        );
        let length = body.len();
        let request = format!(
            "{head}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        customer.write_all(request.as_bytes()).unwrap();
        until("somebody buys for the customer", || buyers() == count);
    }
    // Only the request that reads the metrics is in flight.
    until("both have left", || {
        service.metric("checkout_http_in_flight") == 1
    });
    let third = service.client.post("/purchase", &body);
    assert_eq!(third.status, 503, "{third:?}");
    assert_eq!(third.problem()["type"], "urn:fencepost:overloaded");
    assert_eq!(buyers(), 2);
    blocker.execute_batch("COMMIT").unwrap();
    until("there is room again", || {
        service.client.post("/purchase", &body).status == 200
    });
    assert_eq!(
        buyers(),
        2,
        "those of the customers who left buy for others"
    );
}

#[test]
fn without_the_lab_nothing_is_sold_for_scratch_and_nothing_is_left() {
    let stage = Stage::new();
    let service = stage.serve("");
    let refused = [
        service.client.post("/reset", &json!({"stock": 1})),
        service.client.post("/purchase", &json!({})),
        service.client.get("/stock/default"),
    ];
    for answer in refused {
        assert_eq!(answer.status, 404, "{answer:?}");
        let detail = answer.problem()["detail"].clone();
        assert!(detail.as_str().unwrap().contains("serve --lab"), "{detail}");
    }
    let api = service.client.get("/openapi.json").json();
    assert!(!api["paths"].as_object().unwrap().contains_key("/purchase"));
    assert_eq!(stage.scratch(), Vec::<String>::new());
    until("it says that the lab is off", || {
        stage.read("stderr").contains("  lab       off. --lab: ")
    });
}

#[test]
fn without_the_lab_the_store_holds_nothing_but_the_services_own_locks() {
    let server = fencepost_rig::Redis::start().unwrap();
    let mut redis = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    let stage = Stage::new();
    let service = stage.serve(&format!("--store {}", server.url()));
    assert_eq!(service.client.get("/readyz").status, 200);
    // The lock of the sweep, and its fence.
    let is_own = |(key, _): &(String, i64)| key.contains("checkout:sweep");
    let keys = keys(&mut redis);
    assert!(keys.iter().all(is_own), "{keys:?}");
}

#[test]
fn the_old_name_comes_with_the_lab() {
    let stage = Stage::new();
    let service = stage.start(stage.fencepost("http-server --port 0"));
    let set = service.client.post("/reset", &json!({"stock": 1}));
    assert_eq!(set.status, 200);
    until("it says where the shop is", || {
        stage.read("stderr").contains("  lab       a scratch shop")
    });
}

/// Returns the keys of the server with their remaining lifetime; negative means forever.
fn keys(redis: &mut redis::Connection) -> Vec<(String, i64)> {
    let all: Vec<String> = redis::cmd("KEYS").arg("*").query(redis).unwrap();
    let lasts = |key: String| {
        let left: i64 = redis::cmd("PTTL").arg(&key).query(redis).unwrap();
        (key, left)
    };
    // A key that expired between the two requests is gone.
    all.into_iter()
        .map(lasts)
        .filter(|(_, left)| *left != -2)
        .collect()
}

#[test]
fn a_kill_never_leaves_a_key_that_stays() {
    let server = fencepost_rig::Redis::start().unwrap();
    let mut redis = redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap();
    let stage = Stage::new();
    let mut service = stage.serve(&format!("--lab --store {}", server.url()));
    let reset = json!({"product_id": "p", "stock": 1_000_000});
    assert_eq!(service.client.post("/reset", &reset).status, 200);
    let (client, bought) = (service.client, Arc::new(AtomicU64::new(0)));
    let buyers = STRATEGIES.iter().chain(&STRATEGIES).map(|lock| {
        let bought = Arc::clone(&bought);
        let body = json!({"product_id": "p", "lock_strategy": lock, "wait_ms": 100});
        // Until the service is killed.
        std::thread::spawn(move || {
            while client.try_post("/purchase", &body, &[]).is_ok() {
                bought.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let buyers: Vec<_> = buyers.collect();
    until("they buy, the fenced ones too", || {
        let has_gate = keys(&mut redis)
            .iter()
            .any(|(key, _)| key.contains(":gate"));
        has_gate && bought.load(Ordering::Relaxed) > 50
    });
    service.signal(Signal::SIGKILL);
    buyers.into_iter().for_each(|buyer| buyer.join().unwrap());
    service.end();
    let left = keys(&mut redis);
    for own in [":stock:p", ":gate"] {
        assert!(left.iter().any(|(key, _)| key.contains(own)), "{left:?}");
    }
    for (key, lasts_ms) in &left {
        // Locks and their fences belong to the library, which keeps the last fence of a lock for 24 hours.
        let longest_ms = if key.starts_with("fp:") {
            24 * 3_600_000
        } else {
            300_000
        };
        assert!((0..=longest_ms).contains(lasts_ms), "{key}: {lasts_ms} ms");
    }
}
