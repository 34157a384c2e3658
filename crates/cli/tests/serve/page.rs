//! Tests of the live page without a browser: its headers, how much it streams, and what is left of a trial.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::http::LONG;
use crate::stage::{Service, Stage, at_once, until};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[test]
fn the_page_comes_with_a_strict_policy_and_is_kept_by_browsers() {
    let stage = Stage::new();
    let service = stage.serve("");
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/page/page.js", "text/javascript; charset=utf-8"),
        ("/page/page.css", "text/css; charset=utf-8"),
    ] {
        let answer = service.client.get(path);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some(kind))
        );
        assert_eq!(answer.header("content-security-policy"), Some(POLICY));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        let known = format!("If-None-Match: W/\"x\", {}", answer.header("etag").unwrap());
        let again = service.client.send("GET", path, &[&known], "").unwrap();
        assert_eq!((again.status, &*again.body), (304, ""), "{path}");
    }
    let page = service.client.get("/").body;
    for inline in [
        " style=",
        "<style",
        " onclick",
        "javascript:",
        "http://",
        "https://",
    ] {
        assert!(!page.contains(inline), "{inline}");
    }
}

/// Reads the stream as long as the closure wants more.
fn read_stream(service: &Service, mut more: impl FnMut(&str, &Value) -> bool) {
    let mut stream = TcpStream::connect(service.client.0).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let head = format!(
        "GET /page/live HTTP/1.1\r\nHost: {}\r\n\r\n",
        service.client.0
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut name = String::new();
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        if let Some(event) = line.strip_prefix("event: ") {
            event.clone_into(&mut name);
        } else if let Some(data) = line.strip_prefix("data: ")
            && !more(&name, &serde_json::from_str(data).unwrap())
        {
            return;
        }
    }
    panic!("the stream ended");
}

#[test]
fn however_much_happens_a_page_gets_a_few_messages_a_second() {
    let stage = Stage::new();
    let service = stage.serve("");
    service.put_in("lamp", 100_000);
    const SECONDS: u32 = 4;
    let began = Instant::now();
    let end = began + Duration::from_secs(SECONDS.into());
    let mut messages = 0;
    let mut last = Value::Null;
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            at_once(4, |_| {
                while Instant::now() < end {
                    service.order(&[("lamp", 1)]);
                }
            });
        });
        read_stream(&service, |name, data| {
            messages += 1;
            if name == "activity" {
                last = data.clone();
            }
            Instant::now() < end
        });
        load.join().unwrap();
    });
    let orders = last["minute"]["orders"].as_u64().unwrap();
    assert!(orders > 0, "{last}");
    // Locks are sent four times a second, the rest once, with some tolerance for a busy machine.
    assert!(
        messages <= 8 * SECONDS,
        "{messages} messages in {SECONDS} s"
    );
}

/// Returns the first message about the products.
fn first_activity(service: &Service) -> Value {
    let mut activity = Value::Null;
    read_stream(service, |name, data| {
        if name == "activity" {
            activity = data.clone();
        }
        activity.is_null()
    });
    activity
}

/// Returns the number of sockets that the service has open.
fn sockets(service: &Service) -> usize {
    let files = std::fs::read_dir(format!("/proc/{}/fd", service.pid())).unwrap();
    let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    targets
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}

#[test]
fn the_first_picture_is_never_that_of_an_earlier_visit() {
    let stage = Stage::new();
    let service = stage.serve("");
    let before = sockets(&service);
    assert_eq!(first_activity(&service)["all_products"], 0);
    // From then on nothing updates the data.
    until("the service notices that the first visitor is gone", || {
        sockets(&service) <= before
    });
    for product in ["a", "b", "c", "d", "e", "f"] {
        service.put_in(product, 5);
    }
    let activity = first_activity(&service);
    assert_eq!(activity["all_products"], 6, "{activity}");
    assert_eq!(activity["products"].as_array().unwrap().len(), 6);
}

fn start(service: &Service, lock: &str) -> u16 {
    let answer = service.client.post("/page/trial", &json!({ "lock": lock }));
    answer.status
}

/// Returns the number of trial processes that belong to this service.
fn subjects(service: &Service) -> usize {
    let children = format!("/proc/{0}/task", service.pid());
    let tasks = std::fs::read_dir(children).unwrap();
    let of = |task: std::io::Result<std::fs::DirEntry>| {
        let path = task.unwrap().path().join("children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().count()
    };
    tasks.map(of).sum()
}

#[test]
fn one_trial_at_a_time_and_nothing_is_left_of_it() {
    let stage = Stage::new();
    let service = stage.serve("--lab");
    let before = stage.scratch();
    assert_eq!(start(&service, "redlock; rm -rf"), 400);
    assert_eq!(start(&service, "safe"), 202);
    assert_eq!(start(&service, "none"), 409);
    until("its processes run", || subjects(&service) == 8);
    assert_eq!(
        service.client.post("/page/trial/stop", &json!({})).status,
        204
    );
    let mut shown = Value::Null;
    read_stream(&service, |name, data| {
        if name == "trial" {
            shown = data.clone();
        }
        shown["trial"]["phase"] != "stopped"
    });
    assert_eq!(shown["trial"]["words"], "No verdict: it was stopped.");
    until("its processes are gone", || subjects(&service) == 0);
    assert_eq!(stage.scratch(), before);
    assert_eq!(start(&service, "none"), 202, "the next one may come");
}

#[test]
fn a_trial_ends_with_the_service() {
    let stage = Stage::new();
    let mut service = stage.serve("--lab");
    let before = stage.scratch();
    assert_eq!(start(&service, "safe"), 202);
    until("its processes run", || subjects(&service) == 8);
    assert_ne!(stage.scratch(), before);
    service.signal(Signal::SIGTERM);
    assert!(service.end().success(), "{}", stage.read("stderr"));
    assert_eq!(stage.scratch(), Vec::<String>::new());
}

#[test]
fn a_trial_needs_the_token_where_changes_do() {
    let stage = Stage::new();
    let service = stage.serve("--lab --admin-token s3cret-s3cret");
    assert_eq!(start(&service, "none"), 401);
    let body = json!({"lock": "none"});
    let with = |headers: &[&str]| {
        service
            .client
            .try_post("/page/trial", &body, headers)
            .unwrap()
            .status
    };
    assert_eq!(
        with(&[
            "Authorization: Bearer s3cret-s3cret",
            "Origin: http://evil.example"
        ]),
        403
    );
    assert_eq!(with(&["Authorization: Bearer s3cret-s3cret"]), 202);
}

#[test]
fn without_the_lab_the_page_says_how_to_get_it() {
    let stage = Stage::new();
    let service = stage.serve("");
    let refused = service.client.post("/page/trial", &json!({"lock": "none"}));
    assert_eq!(refused.status, 404);
    let detail = refused.problem()["detail"].clone();
    assert!(detail.as_str().unwrap().contains("serve --lab"), "{detail}");
    read_stream(&service, |name, data| {
        if name == "trial" {
            assert_eq!(data["offers"], json!([]));
        }
        name != "trial"
    });
    assert!(
        service
            .client
            .get("/")
            .body
            .contains("fencepost serve --lab")
    );
}
