//! Tests of an instance that is stopped in the middle of an order, for longer than its lease.

use nix::sys::signal::Signal;

use crate::http::Answer;
use crate::stage::{Service, Stage, until};

const FLAGS: &str = "--ttl 500ms --retries 600 --deadline 60s";

/// Returns whether this instance holds the lock of the order.
fn holds(service: &Service) -> bool {
    let locks = service.client.get("/v1/locks").json();
    let mut locks = locks["locks"].as_array().unwrap().iter();
    locks.any(|lock| !lock["held_ms"].is_null())
}

#[test]
fn an_instance_that_was_paused_never_sells_what_another_has_sold() {
    let stage = Stage::new();
    // Not in a file: an instance that is stopped in a SQLite transaction would block everybody.
    let redis = fencepost_rig::Redis::start().unwrap();
    let flags = format!("{FLAGS} --store redis://{}", redis.address());
    let paused = stage.serve(&flags);
    let other = stage.serve(&flags);
    paused.put_in("last", 1);
    // Another program locks the database, so that the order is between its lock and its transaction.
    let database = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let late: Answer = std::thread::scope(|scope| {
        let order = scope.spawn(|| paused.order(&[("last", 1)]));
        until("it has the lock", || holds(&paused));
        paused.pause();
        database.execute_batch("ROLLBACK").unwrap();
        // Its lease ends, and the next customer buys.
        let sold = other.order(&[("last", 1)]);
        assert_eq!(sold.status, 201, "{sold:?}");
        paused.signal(Signal::SIGCONT);
        order.join().unwrap()
    });
    assert_eq!(late.status, 409, "{late:?}");
    assert_eq!(late.problem()["reason"], "out_of_stock");
    let refused = paused.metric("checkout_fences_refused_total");
    assert_eq!(refused, 1, "the database refused the stale lock");
    let last = other.product("last");
    assert_eq!([&last["stock"], &last["reserved"]], [0, 1]);
    other.adds_up();
}
