//! Tests of many customers at once.

use crate::http::Answer;
use crate::stage::{Service, Stage, at_once, order, until};

/// Timeouts that are long enough for a busy machine.
const PATIENT: &str = "--retries 600 --deadline 60s";

fn statuses(answers: &[Answer], status: u16) -> usize {
    answers
        .iter()
        .filter(|answer| answer.status == status)
        .count()
}

fn sell_exactly(flags: &str) {
    let stage = Stage::new();
    let service = stage.serve(&format!("{PATIENT} {flags}"));
    service.put_in("hot", 7);
    let answers = at_once(50, |_| service.order(&[("hot", 1)]));
    let sold = statuses(&answers, 201);
    let refused = statuses(&answers, 409);
    assert_eq!((sold, refused), (7, 43), "{flags}: {answers:?}");
    let hot = service.product("hot");
    assert_eq!([&hot["stock"], &hot["reserved"]], [0, 7], "{flags}");
    service.adds_up();
}

#[test]
fn fifty_buyers_never_get_more_than_there_is() {
    sell_exactly("");
}

#[test]
fn fifty_buyers_who_ask_again_and_again_never_get_more_than_there_is() {
    sell_exactly("--wait-mode poll --retry jitter:5ms:50ms");
}

#[test]
fn fifty_buyers_with_versions_never_get_more_than_there_is() {
    sell_exactly("--order-path optimistic --retry jitter:5ms:50ms");
}

#[test]
fn fifty_buyers_with_row_locks_never_get_more_than_there_is() {
    sell_exactly("--order-path row");
}

/// Two instances with one database and one lock store.
fn crossed_baskets(one: &Service, other: &Service) {
    let names = ["a", "b", "c", "d"];
    for name in names {
        one.put_in(name, 1_000);
    }
    let answers = at_once(16, |number| {
        let service = if number % 2 == 0 { one } else { other };
        let mut created = 0;
        for round in 0..5 {
            let mut lines: Vec<(&str, i64)> = names.iter().map(|name| (*name, 1)).collect();
            lines.rotate_left((number + round) % 4);
            if number % 3 == 0 {
                lines.reverse();
            }
            lines.truncate(3);
            let answer = service.order(&lines);
            assert_eq!(answer.status, 201, "{answer:?}");
            created += 1;
        }
        created
    });
    assert_eq!(answers.iter().sum::<usize>(), 80);
    let reserved: i64 = names
        .iter()
        .map(|name| one.product(name)["reserved"].as_i64().unwrap())
        .sum();
    assert_eq!(reserved, 240);
    one.adds_up();
}

#[test]
fn crossed_baskets_never_deadlock() {
    let stage = Stage::new();
    let one = stage.serve(PATIENT);
    let other = stage.serve(PATIENT);
    crossed_baskets(&one, &other);
}

#[cfg(feature = "postgres")]
#[test]
fn crossed_baskets_never_deadlock_on_postgres_and_redis() {
    let postgres = fencepost_rig::Postgres::start_with(&["fsync=off"]).unwrap();
    let redis = fencepost_rig::Redis::start().unwrap();
    let stage = Stage::new();
    let flags = format!("{PATIENT} --db {} --store {}", postgres.url(), redis.url());
    let (one, other) = (stage.serve(&flags), stage.serve(&flags));
    crossed_baskets(&one, &other);
    // The same race for one product, from both instances.
    one.put_in("hot", 7);
    let answers = at_once(50, |number| match number % 2 {
        0 => one.order(&[("hot", 1)]),
        _ => other.order(&[("hot", 1)]),
    });
    assert_eq!(statuses(&answers, 201), 7, "{answers:?}");
    one.adds_up();
}

#[test]
fn one_key_asked_for_at_once_never_makes_two_orders() {
    let stage = Stage::new();
    let service = stage.serve(PATIENT);
    service.put_in("lamp", 50);
    let body = order("c", &[("lamp", 1)]);
    let answers = at_once(20, |_| {
        let key = "Idempotency-Key: same";
        let answer = service.client.try_post("/v1/checkout/order", &body, &[key]);
        answer.unwrap()
    });
    assert_eq!(statuses(&answers, 201), 20, "{answers:?}");
    let first = answers[0].json();
    assert!(answers.iter().all(|answer| answer.json() == first));
    assert_eq!(service.product("lamp")["stock"], 49);
    service.adds_up();
}

#[test]
fn nobody_in_line_is_ever_overtaken() {
    const BUYERS: usize = 100;
    let stage = Stage::new();
    let service = stage.serve(PATIENT);
    service.put_in("hot", BUYERS as i64);
    // A program holds the lock until all customers are in line.
    let holder = stage.hold("lock:product:hot");
    let waiting = || {
        let locks = service.client.get("/v1/locks").json();
        let hot = locks["locks"].as_array().unwrap().iter();
        let mut hot = hot.filter(|lock| lock["name"] == "lock:product:hot");
        hot.next()
            .and_then(|lock| lock["waiting_here"].as_u64())
            .unwrap_or(0)
    };
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let mut all = Vec::new();
        for number in 0..BUYERS {
            let service = &service;
            all.push(scope.spawn(move || {
                let body = order(&format!("cart-{number:03}"), &[("hot", 1)]);
                service.client.post("/v1/checkout/order", &body)
            }));
            until("it stands in line", || waiting() == number as u64 + 1);
        }
        holder.release();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(statuses(&answers, 201), BUYERS);
    let database = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
    let sql = "SELECT cart FROM checkout_reservations ORDER BY rowid";
    let mut served = database.prepare(sql).unwrap();
    let served: Vec<String> = served
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let in_order: Vec<String> = (0..BUYERS)
        .map(|number| format!("cart-{number:03}"))
        .collect();
    assert_eq!(served, in_order);
    service.adds_up();
}
