//! A long random test: two instances on Postgres and Redis, a hundred busy customers, and everything that can happen to a
//! process.
//!
//! It runs for ten seconds; with `FENCEPOST_SOAK=1`, three times for a minute.

#![cfg(feature = "postgres")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use fencepost_rig::{Postgres, Proxy, Redis};
use serde_json::{Value, json};

mod storm;

use storm::Stormy;

use crate::http::{Answer, Client, LONG};
use crate::stage::{Service, Stage, at_once, order, until};

const CUSTOMERS: u64 = 100;
const PRODUCTS: u64 = 20;
/// The last product, which the paused instance sells late.
const LATE: u64 = PRODUCTS - 1;
/// The TTL that a pause must exceed.
const TTL: Duration = Duration::from_millis(500);

/// Every fourth product is sold out before the end; the others never are.
fn stock(product: u64) -> i64 {
    if product.is_multiple_of(4) {
        4
    } else {
        100_000
    }
}

fn name(product: u64) -> String {
    format!("p{product}")
}

type Lines = Vec<(u64, i64)>;

/// What customers remember.
#[derive(Default)]
struct Memory {
    /// The order for each key that was answered with 201.
    made: BTreeMap<String, Value>,
    /// Orders whose confirmation was answered with 200, and their contents.
    confirmed: Vec<(Value, Lines)>,
}

/// How often customers encountered something that only a fault, or only the end of a stock, can cause.
#[derive(Debug, Default)]
struct Met {
    /// Seen by customers: the connection broke.
    killed: AtomicU64,
    /// Seen by customers: no lock was available.
    store_down: AtomicU64,
    /// Seen by customers: too little stock is left.
    out_of_stock: AtomicU64,
    /// Seen by customers: a request with the same key returned the same order.
    replayed: AtomicU64,
    /// Seen by the stopped instance: a lock ended while it was held.
    locks_lost: AtomicU64,
    /// Seen by the stopped instance: the database refused a write with such a lock. Nothing else shows that it checks fences,
    /// because the conditional update alone keeps the stock correct.
    fences_refused: AtomicU64,
}

impl Met {
    fn everything(&self) -> bool {
        let counts = [
            &self.killed,
            &self.store_down,
            &self.out_of_stock,
            &self.replayed,
            &self.locks_lost,
            &self.fences_refused,
        ];
        counts
            .into_iter()
            .all(|count| count.load(Ordering::Relaxed) > 0)
    }
}

/// Counts one more, and returns the previous count.
fn note(count: &AtomicU64) -> u64 {
    count.fetch_add(1, Ordering::Relaxed)
}

struct Town {
    /// The current addresses of the instances.
    doors: RwLock<[Client; 2]>,
    memory: Mutex<Memory>,
    is_closed: AtomicBool,
    statuses: Mutex<BTreeMap<u16, u64>>,
    /// How often a customer wanted the late product.
    visits: AtomicU64,
    met: Met,
}

/// Small pseudo-random numbers, reproducible by seed.
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

    /// Returns one to four products, with one to three units of each.
    fn basket(&self) -> Lines {
        let (first, count) = (self.below(LATE), 1 + self.below(4));
        let steps = [0, 5, 7, 18].into_iter().take(count as usize);
        steps
            .map(|step| ((first + step) % LATE, 1 + self.below(3) as i64))
            .collect()
    }
}

/// A customer, and the instances it uses.
struct Customer {
    dice: Dice,
    /// The instance it always uses; `None` for either.
    door: Option<usize>,
}

impl Customer {
    fn door(&self) -> usize {
        self.door.unwrap_or_else(|| self.dice.below(2) as usize)
    }
}

/// Stops all customers when dropped. Otherwise a failed test would wait for them.
struct Closing<'a>(&'a AtomicBool);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Town {
    fn new(doors: [Client; 2]) -> Self {
        Self {
            doors: RwLock::new(doors),
            memory: Mutex::default(),
            is_closed: AtomicBool::new(false),
            statuses: Mutex::default(),
            visits: AtomicU64::default(),
            met: Met::default(),
        }
    }

    /// Sends a request to one of the instances. Returns `None` if there was no answer.
    fn ask(&self, who: &Customer, path: &str, body: &Value, headers: &[&str]) -> Option<Answer> {
        let client = self.doors.read().unwrap()[who.door()];
        let answer = client.try_post(path, body, headers).ok();
        let status = answer.as_ref().map_or(0, |answer| answer.status);
        *self.statuses.lock().unwrap().entry(status).or_default() += 1;
        match &answer {
            None => drop(note(&self.met.killed)),
            Some(answer) if answer.status == 503 => {
                if answer.problem()["type"]
                    .to_string()
                    .contains("lock-store-down")
                {
                    note(&self.met.store_down);
                }
            }
            Some(_) => {}
        }
        answer
    }

    fn shop_until_closed(&self, customer: u64, seed: u64) {
        let who = Customer {
            dice: Dice(AtomicU64::new(seed ^ (customer << 32))),
            door: None,
        };
        for number in 0.. {
            if self.is_closed.load(Ordering::Relaxed) {
                return;
            }
            self.buy(&who, &format!("{customer}-{number}"), who.dice.basket());
        }
    }

    /// Buys one unit of the late product from this instance.
    fn visit(&self, door: usize) -> bool {
        let visit = note(&self.visits);
        let who = Customer {
            dice: Dice(AtomicU64::new(visit)),
            door: Some(door),
        };
        self.buy(&who, &format!("visit-{visit}"), vec![(LATE, 1)])
    }

    /// Repeats the request under the same key until there is an answer, or until the time is up. Returns whether there is an
    /// order.
    fn buy(&self, who: &Customer, key: &str, lines: Lines) -> bool {
        let names: Vec<(String, i64)> = lines.iter().map(|(p, n)| (name(*p), *n)).collect();
        let named: Vec<(&str, i64)> = names.iter().map(|(p, n)| (p.as_str(), *n)).collect();
        let (body, header) = (order(key, &named), format!("Idempotency-Key: {key}"));
        let ask = || self.ask(who, "/v1/checkout/order", &body, &[&header]);
        for _ in 0..6 {
            match ask() {
                Some(made) if made.status == 201 => {
                    let made = made.json();
                    if who.dice.below(4) == 0 {
                        self.is_the_same(&made, ask());
                    }
                    self.decide(who, key, made, lines);
                    return true;
                }
                Some(other) => {
                    assert!([409, 503, 504].contains(&other.status), "{other:?}");
                    if other.status == 409 && other.problem()["reason"] == "out_of_stock" {
                        note(&self.met.out_of_stock);
                        return false;
                    }
                }
                None => {}
            }
            // A refused customer waits a moment.
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    }

    fn is_the_same(&self, made: &Value, again: Option<Answer>) {
        let Some(again) = again.filter(|again| again.status != 503 && again.status != 504) else {
            return;
        };
        assert_eq!(again.status, 201, "{made}: {again:?}");
        assert_eq!(again.json()["order_id"], made["order_id"], "doubled");
        note(&self.met.replayed);
    }

    /// Confirms, cancels, or forgets the order.
    fn decide(&self, who: &Customer, key: &str, made: Value, lines: Lines) {
        let id = made["order_id"].clone();
        let path = format!("/v1/orders/{}", id.as_str().unwrap());
        let before = self.memory.lock().unwrap().made.insert(key.into(), made);
        assert!(before.is_none(), "{key}");
        match who.dice.below(3) {
            0 => {
                let confirmed = self.ask(who, &format!("{path}/confirm"), &json!(null), &[]);
                if confirmed.is_some_and(|answer| answer.status == 200) {
                    self.memory.lock().unwrap().confirmed.push((id, lines));
                }
            }
            1 => drop(self.ask(who, &format!("{path}/cancel"), &json!(null), &[])),
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
    let (runs, time) = if fencepost_rig::is_soak() {
        (3, 60)
    } else {
        (1, 10)
    };
    for run in 0..runs {
        let seed = u64::from(std::process::id()) + run;
        println!("seed {seed}");
        storm(Duration::from_secs(time), seed);
    }
}

fn storm(time: Duration, seed: u64) {
    let postgres = Postgres::start().unwrap();
    let redis = Redis::builder()
        .arguments(["--appendonly", "yes"])
        .start()
        .unwrap();
    let stage = Stage::new();
    let line = Proxy::start(postgres.address()).unwrap();
    let own = postgres.address().to_string();
    let by_line = postgres.url().replace(&own, &line.address().to_string());
    let flags = [postgres.url(), by_line].map(|database| {
        let (locks, ttl) = (redis.url(), TTL.as_millis());
        format!("--db {database} --store {locks} --ttl {ttl}ms --reserve-for 3s")
    });
    let instances: [Service; 2] = std::array::from_fn(|one| stage.serve(&flags[one]));
    for product in 0..PRODUCTS {
        instances[0].put_in(&name(product), stock(product));
    }
    let town = Town::new([instances[0].client, instances[1].client]);
    let mut stormy = Stormy {
        stage: &stage,
        flags,
        redis,
        line,
        instances,
    };
    std::thread::scope(|scope| {
        let town = &town;
        let _closing = Closing(&town.is_closed);
        let customers: Vec<_> = (0..CUSTOMERS)
            .map(|customer| scope.spawn(move || town.shop_until_closed(customer, seed)))
            .collect();
        let began = Instant::now();
        // On a busy machine it takes longer until everything has occurred. A customer that stops early has found an error.
        let is_over = |stormy: &Stormy<'_>| {
            let is_tried = town.met.everything() && sold_out(&stormy.instances[0]) > 0;
            began.elapsed() >= time && (is_tried || began.elapsed() >= time + LONG)
                || customers.iter().any(|customer| customer.is_finished())
        };
        while !is_over(&stormy) {
            stormy.round(town, Duration::from_millis(400));
        }
    });
    let one = &stormy.instances[0];
    one.adds_up();
    until("every abandoned unit is back", || {
        let reserved = |product| one.product(&name(product))["reserved"].as_i64().unwrap();
        (0..PRODUCTS).map(reserved).sum::<i64>() == 0
    });
    one.adds_up();
    let statuses = town.statuses.into_inner().unwrap();
    println!("statuses {statuses:?}; {:?}", town.met);
    // Otherwise the remaining checks would describe a calm day.
    assert!(town.met.everything(), "{:?}", town.met);
    let gone = sold_out(one);
    println!("{gone} of {PRODUCTS} products sold out");
    assert!(gone > 0, "nothing ran out");
    let memory = town.memory.into_inner().unwrap();
    no_more_was_sold_than_there_was(one, &memory);
    no_order_is_lost(one, &memory);
    no_order_is_doubled(&postgres, &memory);
}

/// Returns how many products are sold out for good.
fn sold_out(one: &Service) -> usize {
    let is_gone = |product: &u64| one.product(&name(*product))["sold"] == stock(*product);
    (0..PRODUCTS).filter(is_gone).count()
}

/// Checks the sales against the customers' own records.
fn no_more_was_sold_than_there_was(one: &Service, memory: &Memory) {
    let mut bought = [0; PRODUCTS as usize];
    for (product, units) in memory.confirmed.iter().flat_map(|(_, lines)| lines) {
        bought[*product as usize] += units;
    }
    for (product, bought) in (0..PRODUCTS).zip(bought) {
        let now = one.product(&name(product));
        let [left, sold] = ["stock", "sold"].map(|part| now[part].as_i64().unwrap());
        assert_eq!(left + sold, stock(product), "{now}");
        assert!(bought <= sold && left >= 0, "{bought} bought: {now}");
    }
}

fn no_order_is_lost(one: &Service, memory: &Memory) {
    let status = |made: &Value| {
        let path = format!("/v1/orders/{}", made["order_id"].as_str().unwrap());
        let now = one.client.get(&path);
        assert_eq!(now.status, 200, "lost after its 201: {made}");
        let now = now.json();
        assert_eq!(now["order_checkout"], made["order_checkout"]);
        now["order_status"].clone()
    };
    let made: Vec<&Value> = memory.made.values().collect();
    let confirmed: Vec<&Value> = memory.confirmed.iter().map(|(id, _)| id).collect();
    // In parallel, because there are thousands.
    at_once(8, |hand| {
        for made in made.iter().skip(hand).step_by(8) {
            let (status, id) = (status(made), &made["order_id"]);
            assert_ne!(status, "pending", "{made}");
            assert!(status == "confirmed" || !confirmed.contains(&id), "{made}");
        }
    });
}

fn no_order_is_doubled(postgres: &Postgres, memory: &Memory) {
    let orders = count(postgres, "checkout_orders");
    let keys = count(postgres, "checkout_keys");
    assert_eq!(orders, keys, "an order was doubled under its key");
    let (answered, confirmed) = (memory.made.len(), memory.confirmed.len());
    println!("{orders} orders, {answered} answered, {confirmed} confirmed");
    let is_plausible = orders >= answered as u64 && answered > 20;
    assert!(is_plausible, "{answered} answered of {orders}");
}
