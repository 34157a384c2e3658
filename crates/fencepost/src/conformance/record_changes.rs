//! Requirements on the hint that a record may have changed.

use std::sync::Arc;
use std::time::Duration;

use super::records::{fresh_key, put, read, records};
use super::{RECORDS, StoreUnderTest, soon, table};
use crate::backend::Backend;
use crate::backend::records::{RecordKey, Snapshot};
use crate::testing::poll_at_most;

table! {
    a_change_by_another_client_is_noticed: RECORDS,
    a_change_of_its_own_is_noticed: RECORDS,
    a_change_before_the_call_is_noticed: RECORDS,
    everybody_who_waits_for_a_change_is_told: RECORDS,
    a_dropped_wait_does_not_hide_later_changes: RECORDS,
    waiting_for_a_change_takes_its_time: RECORDS,
}

/// Waits until the record is no longer the one in `seen`. The hint may come without a change.
async fn next(backend: Arc<dyn Backend>, key: RecordKey, seen: Snapshot) -> Snapshot {
    loop {
        records(&backend).changed(&key, &seen).await;
        let now = read(&backend, &key).await;
        if now.version != seen.version {
            return now;
        }
    }
}

/// Lets the tasks that were spawned start to wait. They are told in either case; this only decides which case is tested.
async fn let_them_wait() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

async fn change_by(waiting: &Arc<dyn Backend>, changing: &Arc<dyn Backend>) {
    let key = fresh_key("changed");
    for value in ["first", "second", "second"] {
        let seen = read(waiting, &key).await;
        let waiter = tokio::spawn(next(waiting.clone(), key.clone(), seen));
        let_them_wait().await;
        put(changing, &key, value.as_bytes()).await;
        let now = soon("the change is noticed", waiter).await;
        let value_now = now.expect("no panic").value;
        assert_eq!(value_now.as_deref(), Some(value.as_bytes()));
    }
}

async fn a_change_by_another_client_is_noticed(store: StoreUnderTest) {
    change_by(&store.one, &store.other).await;
}

async fn a_change_of_its_own_is_noticed(store: StoreUnderTest) {
    change_by(&store.one, &store.one).await;
}

async fn a_change_before_the_call_is_noticed(store: StoreUnderTest) {
    let key = fresh_key("changed-before");
    for changing in [&store.other, &store.one, &store.other] {
        let seen = read(&store.one, &key).await;
        put(changing, &key, b"any").await;
        let changed = next(store.one.clone(), key.clone(), seen);
        soon("the change is noticed", changed).await;
    }
}

async fn everybody_who_waits_for_a_change_is_told(store: StoreUnderTest) {
    let keys = [(); 8].map(|()| fresh_key("crowd"));
    let mut waiters = Vec::new();
    for key in &keys {
        for backend in [&store.one, &store.other, &store.one] {
            let seen = read(backend, key).await;
            waiters.push(tokio::spawn(next(backend.clone(), key.clone(), seen)));
        }
    }
    let_them_wait().await;
    for key in &keys {
        put(&store.other, key, b"any").await;
    }
    for waiter in waiters {
        let told = soon("everybody is told", waiter).await;
        told.expect("no panic");
    }
}

async fn a_dropped_wait_does_not_hide_later_changes(store: StoreUnderTest) {
    let key = fresh_key("wait-dropped");
    for polls in 1..6 {
        let seen = read(&store.one, &key).await;
        let kept = next(store.one.clone(), key.clone(), seen.clone());
        let kept = tokio::spawn(kept);
        let dropped = records(&store.one).changed(&key, &seen);
        let dropped = poll_at_most(polls, dropped);
        // If nothing wakes it as often as that, it is dropped here.
        let _ = tokio::time::timeout(Duration::from_millis(20), dropped).await;
        put(&store.other, &key, b"any").await;
        let told = soon("the other one is told", kept).await;
        told.expect("no panic");
    }
}

/// A store that cannot notify may complete the hint without a change, but a caller that asks again must not keep a processor busy.
async fn waiting_for_a_change_takes_its_time(store: StoreUnderTest) {
    const FOR: Duration = Duration::from_millis(200);
    const AT_MOST: u32 = 200;
    let key = fresh_key("no-change");
    let seen = read(&store.one, &key).await;
    let mut hints = 0;
    let count = async {
        loop {
            records(&store.one).changed(&key, &seen).await;
            hints += 1;
            tokio::task::yield_now().await;
        }
    };
    let _ = tokio::time::timeout(FOR, count).await;
    assert!(
        hints <= AT_MOST,
        "{hints} hints in {FOR:?} without a change"
    );
}
