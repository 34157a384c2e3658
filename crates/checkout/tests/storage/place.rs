//! Tests of placing and ending orders, one operation at a time.

use std::time::Duration;

use fencepost_checkout::order::{Order, OrderStatus};
use fencepost_checkout::storage::{
    Ending, Guarding, Placed, Placement, Replay, Settled, StorageError,
};
use serde_json::json;

use crate::stage::{Shop, Stage, basket, credential, id, key};

pub(crate) fn never_in_part(stage: &Stage) {
    stage.play(async {
        let shop = &stage.shop;
        shop.put_in("a", 5).await;
        shop.put_in("b", 1).await;
        let short = shop.place(&[("a", 2), ("b", 2)], Guarding::Rows).await;
        assert_eq!(short, Placed::OutOfStock(vec![id("b")]));
        let unknown = shop.place(&[("a", 2), ("z", 1)], Guarding::Rows).await;
        assert_eq!(unknown, Placed::Unknown(vec![id("z")]));
        let (a, b) = (shop.product("a").await, shop.product("b").await);
        assert_eq!((a.stock, a.reserved, b.stock), (5, 0, 1));
        shop.must_place(&[("a", 2), ("b", 1)], Duration::from_secs(600))
            .await;
        let (a, b) = (shop.product("a").await, shop.product("b").await);
        assert_eq!((a.stock, a.reserved, b.stock), (3, 2, 0));
        shop.adds_up().await;
    });
}

pub(crate) fn never_replaced(stage: &Stage) {
    stage.play(async {
        let shop = &stage.shop;
        shop.put_in("a", 5).await;
        let again = json!({"shop_id": "other", "name": "x", "price_cents": 1, "stock": 9});
        let again = serde_json::from_value(again).unwrap();
        assert_eq!(shop.0.add_product(again, id("a")).await.unwrap(), None);
        assert_eq!(shop.product("a").await.put_in, 5);
        let listed = shop.0.products(None, 10).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert!(shop.0.products(Some(id("a")), 10).await.unwrap().is_empty());
    });
}

pub(crate) fn stale_fence(stage: &Stage) {
    stage.play(async {
        let shop = &stage.shop;
        shop.put_in("a", 5).await;
        let (early, late) = (credential(7), credential(8));
        let fenced = |pass| Guarding::Fenced(vec![pass]);
        // The later holder has only read, because too little was left for it.
        let read = shop.place(&[("a", 9)], fenced(late)).await;
        assert_eq!(read, Placed::OutOfStock(vec![id("a")]));
        let refused = shop.place(&[("a", 1)], fenced(early)).await;
        assert_eq!(
            refused,
            Placed::StaleFence(id("a")),
            "its reading shut the earlier one out"
        );
        let twin = shop.place(&[("a", 1)], fenced(credential(8))).await;
        assert_eq!(
            twin,
            Placed::StaleFence(id("a")),
            "the same fence, another owner"
        );
        assert_eq!(shop.product("a").await.stock, 5);
        let made = shop.place(&[("a", 1)], fenced(late)).await;
        assert!(matches!(made, Placed::Created(_)), "{made:?}");
        // One stale lock among several is enough.
        shop.put_in("b", 5).await;
        let guarding = Guarding::Fenced(vec![early, credential(9)]);
        let refused = shop.place(&[("a", 1), ("b", 1)], guarding).await;
        assert_eq!(refused, Placed::StaleFence(id("a")));
        assert_eq!(shop.product("b").await.stock, 5);
        shop.adds_up().await;
    });
}

pub(crate) fn unguarded_line(stage: &Stage) {
    stage.play(async {
        let shop = &stage.shop;
        shop.put_in("a", 5).await;
        shop.put_in("b", 5).await;
        let incomplete = [
            Guarding::Fenced(vec![credential(7)]),
            Guarding::Versions(vec![0]),
        ];
        for guarding in incomplete {
            let placement = Placement {
                order_id: id("order"),
                key: None,
                basket: basket(&[("a", 1), ("b", 1)]),
                reserve_for: Duration::from_secs(600),
                guarding,
            };
            let placed = shop.0.place(placement).await;
            assert!(matches!(placed, Err(StorageError::Broken(_))), "{placed:?}");
        }
        for product in ["a", "b"] {
            assert_eq!(shop.product(product).await.stock, 5);
        }
        shop.adds_up().await;
    });
}

pub(crate) fn version(stage: &Stage) {
    stage.play(async {
        let shop = &stage.shop;
        shop.put_in("a", 5).await;
        let read = shop.product("a").await.version;
        shop.must_place(&[("a", 1)], Duration::from_secs(600)).await;
        let versions = |version| Guarding::Versions(vec![version]);
        assert_eq!(
            shop.place(&[("a", 1)], versions(read)).await,
            Placed::Conflict
        );
        assert_eq!(shop.product("a").await.stock, 4);
        let made = shop.place(&[("a", 1)], versions(read + 1)).await;
        assert!(matches!(made, Placed::Created(_)), "{made:?}");
        shop.adds_up().await;
    });
}

pub(crate) fn one_key(stage: &Stage) {
    stage.play(async {
        let shop = &stage.shop;
        shop.put_in("a", 50).await;
        let order = || {
            let shop = shop.clone();
            let own = key("k", "body");
            tokio::spawn(async move {
                let long = Duration::from_secs(600);
                shop.place_as(&[("a", 1)], Guarding::Rows, Some(own), long)
                    .await
            })
        };
        let all: Vec<_> = (0..20).map(|_| order()).collect();
        let (mut created, mut ids) = (0, Vec::new());
        for one in all {
            match one.await.unwrap() {
                Placed::Created(order) => {
                    created += 1;
                    ids.push(order);
                }
                Placed::Replayed(order) => ids.push(order),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(created, 1);
        assert!(
            ids.iter().all(|order| *order == ids[0]),
            "the same answer to all"
        );
        assert_eq!(shop.product("a").await.stock, 49);
        let long = Duration::from_secs(600);
        let other = Some(key("k", "another body"));
        let reused = shop
            .place_as(&[("a", 2)], Guarding::Rows, other, long)
            .await;
        assert_eq!(reused, Placed::KeyReused);
        // A refused order leaves its key free.
        let own = || Some(key("later", "body"));
        let short = shop
            .place_as(&[("a", 99)], Guarding::Rows, own(), long)
            .await;
        assert_eq!(short, Placed::OutOfStock(vec![id("a")]));
        let made = shop
            .place_as(&[("a", 1)], Guarding::Rows, own(), long)
            .await;
        assert!(matches!(made, Placed::Created(_)), "{made:?}");
        shop.adds_up().await;
    });
}

pub(crate) fn back_once(stage: &Stage) {
    stage.play(async {
        let shop = &stage.shop;
        shop.put_in("a", 5).await;
        let order = shop.must_place(&[("a", 2)], Duration::ZERO).await;
        let own = || order.order_id.clone();
        for _ in 0..2 {
            let settled = shop.0.settle(own(), Ending::Cancel).await.unwrap();
            let (Settled::Done(order) | Settled::Unchanged(order)) = settled else {
                panic!("{settled:?}")
            };
            assert_eq!(order.order_status, OrderStatus::Cancelled);
        }
        let swept = shop
            .0
            .settle(own(), Ending::Expire(credential(1)))
            .await
            .unwrap();
        assert!(matches!(swept, Settled::Unchanged(_)), "{swept:?}");
        let sold = shop.0.settle(own(), Ending::Confirm).await.unwrap();
        assert!(matches!(sold, Settled::Unchanged(_)), "{sold:?}");
        let a = shop.product("a").await;
        assert_eq!((a.stock, a.reserved, a.sold), (5, 0, 0));
        let unknown = shop.0.settle(id("nobody"), Ending::Cancel).await.unwrap();
        assert_eq!(unknown, Settled::Unknown);
        shop.adds_up().await;
    });
}

pub(crate) fn in_time(stage: &Stage) {
    stage.play(async {
        let shop = &stage.shop;
        shop.put_in("a", 5).await;
        let kept = shop.must_place(&[("a", 1)], Duration::from_secs(600)).await;
        let overdue = shop.must_place(&[("a", 2)], Duration::ZERO).await;
        assert_eq!(
            shop.0.overdue(10).await.unwrap(),
            std::slice::from_ref(&overdue.order_id)
        );
        let (early, late) = (credential(3), credential(4));
        let too_soon = shop
            .0
            .settle(kept.order_id.clone(), Ending::Expire(late))
            .await
            .unwrap();
        assert!(matches!(too_soon, Settled::Unchanged(_)), "{too_soon:?}");
        let other = shop
            .0
            .settle(overdue.order_id.clone(), Ending::Expire(early))
            .await
            .unwrap();
        assert_eq!(other, Settled::StaleFence, "another sweeps now");
        let swept = shop
            .0
            .settle(overdue.order_id.clone(), Ending::Expire(late))
            .await
            .unwrap();
        assert!(matches!(swept, Settled::Done(_)), "{swept:?}");
        assert_eq!(shop.product("a").await.stock, 4);
        assert_eq!(shop.0.counts().await.unwrap(), (1, 1));
        shop.adds_up().await;
    });
}

/// Returns an order under this key that has ended.
async fn ended_under(shop: &Shop, name: &str) -> Order {
    let key = key(name, "f");
    let minute = Duration::from_secs(60);
    let placed = shop.place_as(&[("a", 1)], Guarding::Rows, Some(key), minute);
    let Placed::Created(order) = placed.await else {
        panic!("not created: {name}");
    };
    let id = order.order_id.clone();
    let settled = shop.0.settle(id, Ending::Cancel).await.unwrap();
    assert!(matches!(settled, Settled::Done(_)), "{settled:?}");
    order
}

pub(crate) fn keys_in_time(stage: &Stage) {
    stage.play(async {
        let shop = &stage.shop;
        shop.put_in("a", 5).await;
        let mut orders = Vec::new();
        for name in ["k1", "k2", "k3"] {
            orders.push(ended_under(shop, name).await);
        }
        let (early, late) = (credential(3), credential(4));
        let forget = async |older_than, credential| {
            shop.0.forget_keys(older_than, 2, credential).await.unwrap()
        };
        assert_eq!(forget(Duration::from_secs(60), late).await, Some(0));
        let known = shop.0.replay(&key("k1", "f")).await.unwrap();
        assert!(matches!(known, Replay::Made(_)), "{known:?}");
        assert_eq!(
            forget(Duration::ZERO, late).await,
            Some(2),
            "some at a time"
        );
        assert_eq!(forget(Duration::ZERO, early).await, None, "another sweeps");
        assert_eq!(forget(Duration::ZERO, late).await, Some(1));
        assert_eq!(forget(Duration::ZERO, late).await, Some(0));
        for (name, order) in ["k1", "k2", "k3"].into_iter().zip(orders) {
            let known = shop.0.replay(&key(name, "f")).await.unwrap();
            assert_eq!(known, Replay::New, "{name}");
            let stays = shop.0.order(&order.order_id).await.unwrap();
            assert!(stays.is_some(), "orders stay");
        }
    });
}

pub(crate) fn pending_key(stage: &Stage) {
    stage.play(async {
        let shop = &stage.shop;
        shop.put_in("a", 5).await;
        let (name, minute) = (key("k", "f"), Duration::from_secs(60));
        let placed = shop.place_as(&[("a", 1)], Guarding::Rows, Some(name.clone()), minute);
        let Placed::Created(order) = placed.await else {
            panic!("not created");
        };
        ended_under(shop, "other").await;
        let own = credential(4);
        let forget = async || {
            let forgotten = shop.0.forget_keys(Duration::ZERO, 10, own).await;
            (forgotten.unwrap(), shop.0.replay(&name).await.unwrap())
        };
        assert_eq!(
            forget().await,
            (Some(1), Replay::Made(Box::new(order.clone())))
        );
        let confirmed = shop
            .0
            .settle(order.order_id, Ending::Confirm)
            .await
            .unwrap();
        assert!(matches!(confirmed, Settled::Done(_)), "{confirmed:?}");
        assert_eq!(forget().await, (Some(1), Replay::New));
        shop.adds_up().await;
    });
}
