//! Two instances on Postgres and Redis, customers who never rest, and everything that can happen to a process.
//!
//! Ten seconds; `FENCEPOST_SOAK=1` makes it a minute.

#![cfg(feature = "postgres")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use fencepost_rig::{Postgres, Redis};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::http::{Answer, Client};
use crate::stage::{Service, Stage, order, until};

const CUSTOMERS: u64 = 16;
const PRODUCTS: u64 = 12;
const STOCK: i64 = 100_000;

/// What customers remember.
#[derive(Default)]
struct Memory {
    /// The order under each key that was answered with 201.
    made: BTreeMap<String, Value>,
    /// Orders whose confirmation was answered with 200.
    confirmed: Vec<Value>,
}

struct Town {
    /// Where the instances are now.
    doors: RwLock<[Client; 2]>,
    memory: Mutex<Memory>,
    is_closed: AtomicBool,
    statuses: Mutex<BTreeMap<u16, u64>>,
}

/// Small numbers by chance, the same for the same seed.
struct Dice(AtomicU64);

impl Dice {
    fn below(&self, bound: u64) -> u64 {
        let step = |state: u64| {
            state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1)
        };
        let state = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
                Some(step(state))
            });
        (step(state.unwrap()) >> 33) % bound
    }
}

impl Town {
    /// Asks one of the instances; `None` when there was no answer.
    fn ask(&self, dice: &Dice, path: &str, body: &Value, headers: &[&str]) -> Option<Answer> {
        let door = usize::try_from(dice.below(2)).unwrap();
        let client = self.doors.read().unwrap()[door];
        let answer = client.try_post(path, body, headers).ok();
        let status = answer.as_ref().map_or(0, |answer| answer.status);
        *self.statuses.lock().unwrap().entry(status).or_default() += 1;
        answer
    }

    fn shop_until_closed(&self, customer: u64, seed: u64) {
        let dice = Dice(AtomicU64::new(seed ^ (customer << 32)));
        for number in 0.. {
            if self.is_closed.load(Ordering::Relaxed) {
                return;
            }
            let first = dice.below(PRODUCTS);
            let ids: Vec<String> = [0, 5, 7]
                .iter()
                .map(|step| format!("p{}", (first + step) % PRODUCTS))
                .collect();
            let lines: Vec<(&str, i64)> = ids.iter().map(|id| (id.as_str(), 1)).collect();
            self.buy(&dice, &format!("{customer}-{number}"), &lines);
        }
    }

    /// Asks again under the same key until there is an answer, or patience ends.
    fn buy(&self, dice: &Dice, key: &str, lines: &[(&str, i64)]) {
        let (body, header) = (order(key, lines), format!("Idempotency-Key: {key}"));
        for _ in 0..6 {
            match self.ask(dice, "/v1/checkout/order", &body, &[&header]) {
                Some(made) if made.status == 201 => return self.decide(dice, key, made.json()),
                Some(other) => assert!([409, 503, 504].contains(&other.status), "{other:?}"),
                None => {}
            }
            // Somebody who was refused takes a breath.
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Confirms, cancels, or forgets.
    fn decide(&self, dice: &Dice, key: &str, made: Value) {
        let id = made["order_id"].clone();
        self.memory
            .lock()
            .unwrap()
            .made
            .insert(key.to_owned(), made);
        let path = format!("/v1/orders/{}", id.as_str().unwrap());
        match dice.below(3) {
            0 => {
                let confirmed = self.ask(dice, &format!("{path}/confirm"), &json!(null), &[]);
                if confirmed.is_some_and(|answer| answer.status == 200) {
                    self.memory.lock().unwrap().confirmed.push(id);
                }
            }
            1 => drop(self.ask(dice, &format!("{path}/cancel"), &json!(null), &[])),
            _ => {}
        }
    }
}

fn count(postgres: &Postgres, what: &str) -> u64 {
    let output = postgres
        .psql()
        .args(["-c", &format!("SELECT count(*) FROM {what}")])
        .output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    text.trim().parse().unwrap()
}

#[test]
fn whatever_happens_nothing_is_ever_oversold_lost_or_doubled() {
    let is_soak = std::env::var_os("FENCEPOST_SOAK").is_some_and(|value| value == "1");
    let time = Duration::from_secs(if is_soak { 60 } else { 10 });
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let postgres = Postgres::start().unwrap();
    let mut redis = Redis::builder()
        .arguments(["--appendonly", "yes"])
        .start()
        .unwrap();
    let stage = Stage::new();
    let flags = format!(
        "--db {} --store {} --ttl 500ms --reserve-for 3s",
        postgres.url(),
        redis.url()
    );
    let mut instances: [Service; 2] = std::array::from_fn(|_| stage.serve(&flags));
    for product in 0..PRODUCTS {
        instances[0].put_in(&format!("p{product}"), STOCK);
    }
    let town = Town {
        doors: RwLock::new([instances[0].client, instances[1].client]),
        memory: Mutex::default(),
        is_closed: AtomicBool::new(false),
        statuses: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let town = &town;
        let customers: Vec<_> = (0..CUSTOMERS)
            .map(|customer| scope.spawn(move || town.shop_until_closed(customer, seed)))
            .collect();
        let began = Instant::now();
        for round in 0.. {
            if began.elapsed() > time || customers.iter().any(|customer| customer.is_finished()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(400));
            match round % 4 {
                0 | 2 => {
                    let one = round / 2 % 2;
                    instances[one].signal(Signal::SIGKILL);
                    instances[one].end();
                    instances[one] = stage.serve(&flags);
                    town.doors.write().unwrap()[one] = instances[one].client;
                }
                1 => {
                    redis.crash();
                    std::thread::sleep(Duration::from_millis(300));
                    redis.restart().unwrap();
                }
                _ => {
                    instances[1].signal(Signal::SIGSTOP);
                    std::thread::sleep(Duration::from_millis(1_200));
                    instances[1].signal(Signal::SIGCONT);
                }
            }
        }
        town.is_closed.store(true, Ordering::Relaxed);
    });
    let one = &instances[0];
    one.adds_up();
    let reserved = |product: u64| {
        one.product(&format!("p{product}"))["reserved"]
            .as_i64()
            .unwrap()
    };
    until("every abandoned unit is back", || {
        (0..PRODUCTS).map(reserved).sum::<i64>() == 0
    });
    one.adds_up();
    let memory = town.memory.into_inner().unwrap();
    for made in memory.made.values() {
        let path = format!("/v1/orders/{}", made["order_id"].as_str().unwrap());
        let now = one.client.get(&path);
        assert_eq!(now.status, 200, "lost after its 201: {made}");
        assert_eq!(now.json()["order_checkout"], made["order_checkout"]);
    }
    for id in &memory.confirmed {
        let path = format!("/v1/orders/{}", id.as_str().unwrap());
        assert_eq!(one.client.get(&path).json()["order_status"], "confirmed");
    }
    let (orders, keys) = (
        count(&postgres, "checkout_orders"),
        count(&postgres, "checkout_keys"),
    );
    assert_eq!(orders, keys, "an order was doubled under its key");
    let answered = memory.made.len();
    assert!(
        orders >= answered as u64 && answered > 20,
        "{answered} answered of {orders}"
    );
    println!(
        "{orders} orders, {answered} answered, {} confirmed; statuses {:?}",
        memory.confirmed.len(),
        town.statuses.into_inner().unwrap()
    );
}
