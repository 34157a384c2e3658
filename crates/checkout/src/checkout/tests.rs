use std::time::Duration;

use fencepost::Locker;
use fencepost::retry::Schedule;
use fencepost::stores::memory::Memory;
use serde_json::json;

use super::*;
use crate::breaker::BreakerSettings;
use crate::locks::WaitPolicy;
use crate::storage::sqlite::SqliteStorage;

const LONG: Duration = Duration::from_secs(60);

fn basket() -> Basket {
    let request = json!({"cart_id": "c", "user_id": "u",
        "shop_orders": [{"shop_id": "s", "item_products": [{"product_id": "lamp", "quantity": 1}]}]});
    Basket::new(serde_json::from_value(request).unwrap()).unwrap()
}

#[tokio::test]
async fn an_order_that_still_waits_when_the_grace_is_over_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    let storage = SqliteStorage::open(&folder.path().join("shop.db")).unwrap();
    let locker = Locker::builder(Arc::new(Memory::new()))
        .ttl(LONG)
        .build()
        .unwrap();
    let held = locker.try_acquire("lock:product:lamp").await.unwrap();
    let patience = WaitPolicy {
        schedule: Schedule::fixed(LONG),
        ..WaitPolicy::default()
    };
    let events = Events::default();
    let locks = Locks::new(locker, BreakerSettings::default(), patience, events.clone());
    let checkout = Checkout::new(Arc::new(storage), locks, events, OrderPath::Lock, LONG);
    let order = checkout.order(basket(), None, Instant::now() + LONG, ());
    let stop = async {
        while checkout.locks().lock_use().counts().waiting == 0 {
            tokio::task::yield_now().await;
        }
        checkout.close();
        checkout.finish(Duration::from_millis(50)).await;
    };
    let (refused, ()) = tokio::join!(order, stop);
    assert!(matches!(refused, Err(Refusal::Closing)), "{refused:?}");
    assert_eq!(checkout.undone(), 1);
    drop(held);
}
