//! Orders per second of each order path against a bare `UPDATE … WHERE stock >= 1`, in one run: `cargo xtask bench --filter orders`.
//!
//! Sixteen buyers order one unit each, as fast as they can: all of one product, or of fifty. The baseline is the bare conditional update, in
//! a transaction of its own and as durable as an order. The order paths take turns in short rounds; the result is the median of the ratios
//! of all rounds.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fencepost::Locker;
use fencepost_checkout::breaker::BreakerSettings;
use fencepost_checkout::checkout::{Checkout, OrderPath, Refusal};
use fencepost_checkout::events::Events;
use fencepost_checkout::id::Id;
use fencepost_checkout::locks::{Locks, WaitPolicy};
use fencepost_checkout::order::Basket;
use fencepost_checkout::storage::Storage;
use serde_json::json;
use tokio::task::JoinSet;

mod stage;

use stage::Stage;

const BUYERS: u64 = 16;
const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(700);
const PATHS: [OrderPath; 3] = [OrderPath::Lock, OrderPath::Optimistic, OrderPath::Row];

/// Orders per second of one order path in one round: made, and refused.
#[derive(Clone, Copy)]
struct Score {
    made: f64,
    refused: f64,
}

fn main() {
    // Run by `cargo test --benches`: nothing is tested here.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!(
        "{BUYERS} buyers, one unit an order; 1 is a bare UPDATE … WHERE stock >= 1 in a transaction of its own"
    );
    println!(
        "median of {ROUNDS} rounds (smallest … largest), then orders per second, made and refused (medians)\n"
    );
    for stage in Stage::all(&runtime) {
        for products in [1, 50] {
            runtime.block_on(compare(&stage, products));
        }
    }
}

async fn compare(stage: &Stage, products: u64) {
    let ids: Vec<String> = (0..products)
        .map(|at| format!("p{products}-{at}"))
        .collect();
    for id in &ids {
        put_in(&*stage.storage, id).await;
    }
    let checkouts = PATHS.map(|path| checkout(stage, path));
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let bare = stage.bare(&ids, BUYERS, ROUND).await;
        let mut scores = Vec::new();
        for checkout in &checkouts {
            scores.push(orders(checkout, &ids).await);
        }
        rounds.push((bare, scores));
    }
    let what = match products {
        1 => "one hot product".to_owned(),
        many => format!("{many} products"),
    };
    println!(
        "{}: {what}; bare UPDATE {:.0}/s",
        stage.name,
        spread(rounds.iter().map(|round| round.0)).1
    );
    for (at, path) in PATHS.iter().enumerate() {
        let ratios = rounds.iter().map(|(bare, scores)| scores[at].made / bare);
        let (least, middle, most) = spread(ratios);
        let made = spread(rounds.iter().map(|(_, scores)| scores[at].made)).1;
        let refused = spread(rounds.iter().map(|(_, scores)| scores[at].refused)).1;
        println!(
            "  {:<11} {middle:.2} ({least:.2} … {most:.2})   {made:>6.0}/s   refused {refused:.0}/s",
            path.as_str()
        );
    }
    println!();
    for balance in stage.storage.balances().await.unwrap() {
        assert!(balance.holds(), "{balance:?}");
    }
}

/// Returns the smallest, the middle and the largest.
fn spread(figures: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    (
        figures[0],
        figures[figures.len() / 2],
        figures[figures.len() - 1],
    )
}

async fn put_in(storage: &dyn Storage, id: &str) {
    let new = json!({"shop_id": "shop", "name": id, "price_cents": 100, "stock": 1_000_000_000});
    let new = serde_json::from_value(new).unwrap();
    let added = storage.add_product(new, Id::new(id).unwrap()).await;
    assert!(added.unwrap().is_some());
}

fn checkout(stage: &Stage, path: OrderPath) -> Checkout {
    let locker = Locker::builder(stage.locks.clone()).ttl(Duration::from_secs(3));
    let events = Events::default();
    let locks = Locks::new(
        locker.build().unwrap(),
        BreakerSettings::default(),
        WaitPolicy::default(),
        events.clone(),
    );
    let reserve_for = Duration::from_secs(600);
    Checkout::new(stage.storage.clone(), locks, events, path, reserve_for)
}

/// Everybody orders until the round is over.
async fn orders(checkout: &Checkout, ids: &[String]) -> Score {
    let [made, refused] = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    let began = Instant::now();
    let mut buyers = JoinSet::new();
    for buyer in 0..BUYERS {
        let (checkout, made, refused) = (checkout.clone(), made.clone(), refused.clone());
        let baskets: Vec<Basket> = ids.iter().map(|id| basket(id)).collect();
        buyers.spawn(async move {
            let mut turn = usize::try_from(buyer).unwrap_or_default();
            while began.elapsed() < ROUND {
                // A stride that is prime to the number of products: everybody meets everybody.
                turn += 7;
                let basket = baskets[turn % baskets.len()].clone();
                let until = Instant::now() + Duration::from_secs(5);
                match checkout.order(basket, None, until, ()).await {
                    Ok(_) => made.fetch_add(1, Ordering::Relaxed),
                    Err(Refusal::Contended(..)) => refused.fetch_add(1, Ordering::Relaxed),
                    Err(other) => panic!("{other:?}"),
                };
            }
        });
    }
    while let Some(ended) = buyers.join_next().await {
        ended.unwrap();
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / seconds;
    Score {
        made: rate(&made),
        refused: rate(&refused),
    }
}

fn basket(id: &str) -> Basket {
    let request = json!({"cart_id": "cart", "user_id": "user",
        "shop_orders": [{"shop_id": "shop", "item_products": [{"product_id": id, "quantity": 1}]}]});
    Basket::new(serde_json::from_value(request).unwrap()).unwrap()
}
