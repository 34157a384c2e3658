//! Many at once.

use std::time::Duration;

use fencepost_checkout::order::OrderStatus;
use fencepost_checkout::storage::{Ending, Guarding, Placed, Settled};

use crate::stage::{Stage, pass, patiently, times};

pub(crate) fn never_below_zero(stage: &Stage) {
    stage.play(async {
        let shop = &stage.shop;
        shop.put_in("a", 10).await;
        // Nobody locks anything here: the conditional update alone keeps the stock.
        let buy = |number: u64| {
            let shop = shop.clone();
            tokio::spawn(async move {
                let guarding = Guarding::Fenced(vec![pass(number + 1)]);
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
                Placed::OutOfStock(_) | Placed::LateFence(_) | Placed::Conflict => {}
                other => panic!("{other:?}"),
            }
        }
        let a = shop.product("a").await;
        assert_eq!((a.stock, a.reserved), (10 - created, created));
        assert!(created <= 10);
        shop.adds_up().await;
    });
}

pub(crate) fn confirm_and_sweep(stage: &Stage) {
    let rounds = times(200);
    let (sold, back) = stage.play(async {
        let shop = &stage.shop;
        shop.put_in("a", i64::try_from(rounds).unwrap()).await;
        let sweeper = pass(5);
        let (mut sold, mut back) = (0, 0);
        for _ in 0..rounds {
            let order = shop.must_place(&[("a", 1)], Duration::ZERO).await;
            let end = |ending| {
                let (shop, order) = (shop.clone(), order.order_id.clone());
                tokio::spawn(async move { shop.0.settle(order, ending).await.unwrap() })
            };
            let (first, second) = match (sold + back) % 2 {
                0 => (end(Ending::Confirm), end(Ending::Expire(sweeper))),
                _ => (end(Ending::Expire(sweeper)), end(Ending::Confirm)),
            };
            let settled = [first.await.unwrap(), second.await.unwrap()];
            let done: Vec<OrderStatus> = settled
                .iter()
                .filter_map(|settled| match settled {
                    Settled::Done(order) => Some(order.order_status),
                    _ => None,
                })
                .collect();
            match done[..] {
                [OrderStatus::Confirmed] => sold += 1,
                [OrderStatus::Expired] => back += 1,
                _ => panic!("one of two ends it: {settled:?}"),
            }
            let order = shop.0.order(&order.order_id).await.unwrap().unwrap();
            assert_eq!(order.order_status, done[0]);
        }
        let a = shop.product("a").await;
        assert_eq!((a.sold, a.stock, a.reserved), (sold, back, 0));
        shop.adds_up().await;
        (sold, back)
    });
    assert!(
        sold > 0 && back > 0,
        "no race: {sold} confirmed, {back} swept"
    );
    println!("{rounds} races: {sold} confirmed, {back} swept");
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
