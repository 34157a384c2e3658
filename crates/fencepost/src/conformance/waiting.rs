//! Requirements on waiting at the store: a release or an expiry wakes the next waiter, in order, and dead waiters block nobody for long.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{
    ACROSS, ALWAYS, FIFO, LEASES, LONG, SHORT, StoreUnderTest, claim, eventually, freed,
    fresh_name, granted, not_held, refused, soon, table,
};
use crate::backend::{Backend, Release, Wait};
use crate::claim::{Claim, Grant};

table! {
    a_free_lock_is_granted_without_waiting: ALWAYS,
    a_release_wakes_a_waiter: ALWAYS,
    a_release_wakes_a_waiter_on_another_connection: ACROSS,
    an_expiry_wakes_a_waiter: LEASES,
    a_waiter_is_told_that_it_waits: ALWAYS,
    waiters_are_served_in_order: FIFO,
    a_try_does_not_overtake_those_who_wait: FIFO,
    a_dropped_waiter_can_leave: ALWAYS,
    a_dropped_waiter_can_come_back: ALWAYS,
    a_dropped_waiter_that_comes_back_has_its_place: FIFO,
    a_dead_waiter_does_not_block_the_line: FIFO,
    dead_waiters_do_not_block_a_try_for_ever: FIFO,
    inspect_shows_who_waits: FIFO,
}

/// Waits for the lock in a separate task, with a claim that outlives it.
fn waiting(backend: &Arc<dyn Backend>, claim: &Claim) -> JoinHandle<Grant> {
    let (backend, claim) = (backend.clone(), claim.clone());
    tokio::spawn(async move {
        let grant = backend.acquire(&claim, &Wait::default()).await;
        grant.expect("a waiter is granted the lock")
    })
}

/// Waits until this many clients stand in line.
async fn until_waiting(store: &StoreUnderTest, claim: &Claim, count: usize) {
    eventually("they stand in line", || async {
        let record = store.one.inspect(&claim.name).await.expect("an answer");
        record.is_some_and(|record| record.waiting.len() == count)
    })
    .await;
}

async fn a_free_lock_is_granted_without_waiting(store: StoreUnderTest) {
    let claim = claim(&fresh_name("free"), LONG);
    let wait = Wait::default();
    let grant = soon("a grant", store.one.acquire(&claim, &wait)).await;
    assert!(grant.expect("an answer").epoch > 0);
    assert!(!wait.was_busy(), "nobody was before it");
    freed(&store.one, &claim).await;
}

async fn wakes(store: &StoreUnderTest, waiter_at: &Arc<dyn Backend>) {
    let name = fresh_name("woken");
    let (holder, waiter) = (claim(&name, LONG), claim(&name, LONG));
    let first = granted(&store.one, &holder).await;
    let waiting = waiting(waiter_at, &waiter);
    if store.one.capabilities().fifo {
        until_waiting(store, &holder, 1).await;
    }
    assert!(!waiting.is_finished());
    store.one.release(&holder).await.expect("an answer");
    let grant = soon("the waiter is granted the lock", waiting)
        .await
        .expect("no panic");
    assert!(grant.epoch > first.epoch);
    refused(&store.one, &holder).await;
    assert_eq!(
        waiter_at.release(&waiter).await.expect("an answer"),
        Release::Freed
    );
}

async fn a_release_wakes_a_waiter(store: StoreUnderTest) {
    wakes(&store, &store.one).await;
}

async fn a_release_wakes_a_waiter_on_another_connection(store: StoreUnderTest) {
    wakes(&store, &store.other).await;
}

async fn an_expiry_wakes_a_waiter(store: StoreUnderTest) {
    let name = fresh_name("expiry");
    let (holder, waiter) = (claim(&name, SHORT), claim(&name, LONG));
    let first = granted(&store.one, &holder).await;
    let waiting = waiting(&store.other, &waiter);
    let grant = soon("the waiter is granted the lock", waiting)
        .await
        .expect("no panic");
    let now = store.one.clock().now();
    assert!(
        now >= first.asked_at + first.lease,
        "not before the lease was over"
    );
    assert!(grant.epoch > first.epoch);
    store.other.release(&waiter).await.expect("an answer");
}

async fn a_waiter_is_told_that_it_waits(store: StoreUnderTest) {
    let name = fresh_name("heard");
    let (holder, waiter) = (claim(&name, LONG), claim(&name, LONG));
    granted(&store.one, &holder).await;
    let wait = Arc::new(Wait::default());
    let waiting = {
        let (backend, wait) = (store.other.clone(), wait.clone());
        let waiter = waiter.clone();
        tokio::spawn(async move { backend.acquire(&waiter, &wait).await })
    };
    eventually("the store is heard", || async { wait.was_busy() }).await;
    store.one.release(&holder).await.expect("an answer");
    let grant = soon("a grant", waiting).await.expect("no panic");
    grant.expect("an answer");
    store.other.release(&waiter).await.expect("an answer");
}

async fn waiters_are_served_in_order(store: StoreUnderTest) {
    // Stores pass over a waiter that does not answer for a while, because it may be dead. On a slow machine that may be any waiter.
    for _ in 0..10 {
        let served = serve_eight(&store).await;
        let gaps = served.windows(2).map(|pair| pair[1].at - pair[0].at);
        let was_slow = gaps.max() > Some(Duration::from_millis(200));
        let order: Vec<usize> = served.iter().map(|one| one.number).collect();
        if was_slow && !order.is_sorted() {
            continue;
        }
        let arrival: Vec<usize> = (0..served.len()).collect();
        assert_eq!(order, arrival, "first come, first served");
        assert!(
            served.is_sorted_by(|a, b| a.epoch < b.epoch),
            "epochs in hold order: {served:?}"
        );
        return;
    }
    panic!("out of order ten times, each time with a turn of more than 200 ms");
}

#[derive(Debug)]
struct Served {
    number: usize,
    epoch: u64,
    at: std::time::Instant,
}

/// Lets eight waiters queue one after the other, and returns them in the order in which they were served.
async fn serve_eight(store: &StoreUnderTest) -> Vec<Served> {
    let name = fresh_name("order");
    let holder = claim(&name, LONG);
    granted(&store.one, &holder).await;
    let (sender, mut served) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for number in 0..8 {
        let backend = if number % 2 == 0 {
            store.one.clone()
        } else {
            store.other.clone()
        };
        let (claim, sender) = (claim(&name, LONG), sender.clone());
        tasks.push(tokio::spawn(async move {
            let grant = backend.acquire(&claim, &Wait::default()).await;
            let epoch = grant.expect("an answer").epoch;
            let at = std::time::Instant::now();
            sender
                .send(Served { number, epoch, at })
                .expect("somebody listens");
            backend.release(&claim).await.expect("an answer");
        }));
        until_waiting(store, &holder, number + 1).await;
    }
    store.one.release(&holder).await.expect("an answer");
    for task in tasks {
        soon("everybody is served", task).await.expect("no panic");
    }
    std::iter::from_fn(|| served.try_recv().ok()).collect()
}

/// Puts `claim` in line, and drops its future there without a release.
async fn abandon(store: &StoreUnderTest, backend: &Arc<dyn Backend>, claim: &Claim, line: usize) {
    let task = waiting(backend, claim);
    until_waiting(store, claim, line).await;
    task.abort();
    assert!(task.await.is_err_and(|error| error.is_cancelled()));
}

async fn a_try_does_not_overtake_those_who_wait(store: StoreUnderTest) {
    // The waiter's future is dropped, so that the lock stays free and wanted for a while. It does not stay so for ever, and on a slow
    // machine an attempt may come too late to count.
    for _ in 0..10 {
        let name = fresh_name("overtake");
        let (holder, waiter, hasty) = (claim(&name, LONG), claim(&name, LONG), claim(&name, LONG));
        granted(&store.one, &holder).await;
        abandon(&store, &store.other, &waiter, 1).await;
        let freed = std::time::Instant::now();
        store.one.release(&holder).await.expect("an answer");
        let hasty_grant = store.one.try_acquire(&hasty).await.expect("an answer");
        let in_time = freed.elapsed() < Duration::from_millis(50);
        store.other.release(&waiter).await.expect("an answer");
        store.one.release(&hasty).await.expect("an answer");
        if in_time {
            assert!(hasty_grant.is_none(), "a try overtook a waiter");
            return;
        }
    }
    panic!("the store took longer than 50 ms for a release and a try, ten times in a row");
}

async fn a_dropped_waiter_can_leave(store: StoreUnderTest) {
    let name = fresh_name("leave");
    let (holder, waiter, next) = (claim(&name, LONG), claim(&name, LONG), claim(&name, LONG));
    granted(&store.one, &holder).await;
    let task = waiting(&store.other, &waiter);
    if store.one.capabilities().fifo {
        until_waiting(&store, &holder, 1).await;
    }
    task.abort();
    assert!(task.await.is_err());
    not_held(&store.other, &waiter).await;
    let record = store
        .one
        .inspect(&name)
        .await
        .expect("an answer")
        .expect("a held lock");
    assert!(record.waiting.is_empty());
    store.one.release(&holder).await.expect("an answer");
    let grant = store.one.try_acquire(&next).await.expect("an answer");
    assert!(grant.is_some(), "nobody stands in line");
    store.one.release(&next).await.expect("an answer");
    assert_eq!(store.one.inspect(&name).await.expect("an answer"), None);
}

async fn a_dropped_waiter_can_come_back(store: StoreUnderTest) {
    let name = fresh_name("come-back");
    let (holder, waiter) = (claim(&name, LONG), claim(&name, LONG));
    granted(&store.one, &holder).await;
    let task = waiting(&store.other, &waiter);
    if store.one.capabilities().fifo {
        until_waiting(&store, &holder, 1).await;
    }
    task.abort();
    assert!(task.await.is_err());
    let again = waiting(&store.other, &waiter);
    store.one.release(&holder).await.expect("an answer");
    soon("it is granted the lock", again)
        .await
        .expect("no panic");
    freed(&store.other, &waiter).await;
    assert_eq!(store.one.inspect(&name).await.expect("an answer"), None);
}

async fn a_dropped_waiter_that_comes_back_has_its_place(store: StoreUnderTest) {
    let name = fresh_name("place");
    let (holder, early, late) = (claim(&name, LONG), claim(&name, LONG), claim(&name, LONG));
    granted(&store.one, &holder).await;
    abandon(&store, &store.other, &early, 1).await;
    let late_task = waiting(&store.one, &late);
    until_waiting(&store, &holder, 2).await;
    let early_task = waiting(&store.other, &early);
    store.one.release(&holder).await.expect("an answer");
    let early_grant = soon("the first is granted the lock", early_task)
        .await
        .expect("no panic");
    assert!(!late_task.is_finished(), "the place was given away");
    store.other.release(&early).await.expect("an answer");
    let late_grant = soon("then the second", late_task).await.expect("no panic");
    assert!(late_grant.epoch > early_grant.epoch);
    store.one.release(&late).await.expect("an answer");
}

async fn a_dead_waiter_does_not_block_the_line(store: StoreUnderTest) {
    let name = fresh_name("dead");
    let (holder, dead, live) = (claim(&name, LONG), claim(&name, LONG), claim(&name, LONG));
    granted(&store.one, &holder).await;
    abandon(&store, &store.other, &dead, 1).await;
    let task = waiting(&store.one, &live);
    until_waiting(&store, &holder, 2).await;
    store.one.release(&holder).await.expect("an answer");
    soon("the living one is granted the lock", task)
        .await
        .expect("no panic");
    store.one.release(&live).await.expect("an answer");
    store.other.release(&dead).await.expect("an answer");
}

async fn dead_waiters_do_not_block_a_try_for_ever(store: StoreUnderTest) {
    let name = fresh_name("dead-try");
    let holder = claim(&name, LONG);
    granted(&store.one, &holder).await;
    for line in 1..=3 {
        abandon(&store, &store.other, &claim(&name, LONG), line).await;
    }
    store.one.release(&holder).await.expect("an answer");
    let next = claim(&name, LONG);
    eventually("a try gets past the dead", || async {
        store
            .one
            .try_acquire(&next)
            .await
            .expect("an answer")
            .is_some()
    })
    .await;
    store.one.release(&next).await.expect("an answer");
    assert_eq!(store.one.inspect(&name).await.expect("an answer"), None);
}

async fn inspect_shows_who_waits(store: StoreUnderTest) {
    let name = fresh_name("who-waits");
    let holder = claim(&name, LONG);
    granted(&store.one, &holder).await;
    let labels = ["ci-7:2210", "ci-9:871"];
    let claims = labels.map(|label| Claim {
        label: label.into(),
        ..claim(&name, LONG)
    });
    let mut tasks = Vec::new();
    for (at, claim) in claims.iter().enumerate() {
        tasks.push(waiting(&store.other, claim));
        until_waiting(&store, &holder, at + 1).await;
    }
    let record = store
        .one
        .inspect(&name)
        .await
        .expect("an answer")
        .expect("a held lock");
    let shown: Vec<&str> = record.waiting.iter().map(|waiter| &*waiter.label).collect();
    assert_eq!(shown, labels, "those who wait, in order of arrival");
    let waited = record.waiting.iter().map(|waiter| waiter.waited);
    assert!(waited.is_sorted_by(|a, b| a >= b), "{:?}", record.waiting);
    for (claim, task) in claims.iter().zip(tasks) {
        task.abort();
        assert!(task.await.is_err());
        store.other.release(claim).await.expect("an answer");
    }
    store.one.release(&holder).await.expect("an answer");
}
