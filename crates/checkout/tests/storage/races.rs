//! Tests of concurrent orders and of confirmations that race with the sweep.

use std::time::Duration;

use fencepost_checkout::order::OrderStatus;
use fencepost_checkout::storage::{Ending, Guarding, Placed, Settled};

use crate::stage::{Shop, Stage, credential, patiently, times};

pub(crate) fn never_below_zero(stage: &Stage) {
    stage.play(async {
        let shop = &stage.shop;
        shop.put_in("a", 10).await;
        // There are no locks here: the conditional update alone protects the stock.
        let buy = |number: u64| {
            let shop = shop.clone();
            tokio::spawn(async move {
                let guarding = Guarding::Fenced(vec![credential(number + 1)]);
                match number % 2 {
                    0 => shop.place(&[("a", 1)], Guarding::Rows).await,
                    _ => shop.place(&[("a", 1)], guarding).await,
                }
            })
        };
        let all: Vec<_> = (0..50).map(buy).collect();
        let mut created = 0;
        for one in all {
            match one.await.unwrap() {
                Placed::Created(_) => created += 1,
                Placed::OutOfStock(_) | Placed::StaleFence(_) | Placed::Conflict => {}
                other => panic!("{other:?}"),
            }
        }
        let a = shop.product("a").await;
        assert_eq!((a.stock, a.reserved), (10 - created, created));
        assert!(created > 0 && created <= 10);
        if stage.is_sqlite() {
            // One thread writes, so no order meets another in the middle: whoever comes in time is served.
            assert_eq!(created, 10);
        }
        shop.adds_up().await;
    });
}

/// How a confirmation and a sweep coincide.
#[derive(Clone, Copy)]
enum Meeting {
    /// At once; the first of them is requested first.
    Race([Ending; 2]),
    /// The second comes when the first is done, and must change nothing.
    InTurn([Ending; 2]),
}

pub(crate) fn confirm_and_sweep(stage: &Stage) {
    let rounds = times(50);
    let (confirm, sweep) = (Ending::Confirm, Ending::Expire(credential(5)));
    let meetings = [
        Meeting::Race([confirm, sweep]),
        Meeting::Race([sweep, confirm]),
        Meeting::InTurn([confirm, sweep]),
        Meeting::InTurn([sweep, confirm]),
    ];
    let (mut sold, mut back) = (0, 0);
    stage.play(async {
        let shop = &stage.shop;
        let orders = rounds * meetings.len();
        shop.put_in("a", i64::try_from(orders).unwrap()).await;
        for _ in 0..rounds {
            for meeting in meetings {
                match meet(shop, meeting).await {
                    OrderStatus::Confirmed => sold += 1,
                    _ => back += 1,
                }
            }
        }
        let a = shop.product("a").await;
        assert_eq!((a.sold, a.stock, a.reserved), (sold, back, 0));
        shop.adds_up().await;
    });
    // The winner of a race is random; each side wins at least the rounds in which it came first.
    let least = i64::try_from(rounds).unwrap();
    assert!(sold >= least && back >= least, "{sold}, {back}");
    println!("{rounds} rounds of four: {sold} confirmed, {back} swept");
}

/// Ends an order twice, and returns its status.
async fn meet(shop: &Shop, meeting: Meeting) -> OrderStatus {
    let order = shop.must_place(&[("a", 1)], Duration::ZERO).await;
    let end = |ending| {
        let (shop, order) = (shop.clone(), order.order_id.clone());
        tokio::spawn(async move { shop.0.settle(order, ending).await.unwrap() })
    };
    let settled = match meeting {
        Meeting::Race([first, second]) => {
            let (first, second) = (end(first), end(second));
            [first.await.unwrap(), second.await.unwrap()]
        }
        Meeting::InTurn([first, second]) => {
            let first = end(first).await.unwrap();
            assert!(matches!(first, Settled::Done(_)), "{first:?}");
            [first, end(second).await.unwrap()]
        }
    };
    let mut done = settled.iter().filter_map(|settled| match settled {
        Settled::Done(order) => Some(order.order_status),
        _ => None,
    });
    let (Some(status), None) = (done.next(), done.next()) else {
        panic!("one of two ends it: {settled:?}");
    };
    assert!(matches!(
        status,
        OrderStatus::Confirmed | OrderStatus::Expired
    ));
    let order = shop.0.order(&order.order_id).await.unwrap().unwrap();
    assert_eq!(order.order_status, status);
    status
}

pub(crate) fn crossed(stage: &Stage) {
    let rounds = times(20);
    stage.play(async {
        let shop = &stage.shop;
        for product in ["a", "B", "c", "D"] {
            shop.put_in(product, 1_000).await;
        }
        let baskets = [
            [("a", 1), ("B", 1), ("c", 1)],
            [("c", 1), ("B", 1), ("a", 1)],
            [("D", 1), ("a", 1), ("c", 1)],
            [("B", 2), ("D", 1), ("a", 1)],
        ];
        let all: Vec<_> = (0..16)
            .map(|number| {
                let (shop, basket) = (shop.clone(), baskets[number % 4]);
                tokio::spawn(async move {
                    for round in 0..rounds {
                        let guarding = match (number + round) % 3 {
                            0 => Guarding::Versions(vec![0; 3]),
                            _ => Guarding::Rows,
                        };
                        if let Placed::Created(order) = shop.place(&basket, guarding).await {
                            let ending = [Ending::Cancel, Ending::Confirm][round % 2];
                            let own = || shop.0.settle(order.order_id.clone(), ending);
                            let settled = patiently(own).await;
                            assert!(matches!(settled, Settled::Done(_)), "{settled:?}");
                        }
                    }
                })
            })
            .collect();
        for one in all {
            one.await.unwrap();
        }
        shop.adds_up().await;
        let a = shop.product("a").await;
        assert!(a.sold > 0 && a.reserved == 0);
    });
}
