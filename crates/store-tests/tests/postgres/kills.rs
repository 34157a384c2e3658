//! Real processes that hold or wait, and are stopped or killed there.

use std::time::Duration;

use fencepost_rig::{Child, Ears, Signal, feed};

use crate::actor::{Part, Report, Task, hear, kill, write};
use crate::support::{GRACE, LONG, NAME, Server, locker, now, run, soon};

/// What the server gives one that was granted the lock to say so.
const CLAIM_WINDOW: Duration = Duration::from_millis(1500);

fn child(server: &Server, id: usize, ears: &Ears, task: Task, ttl: Duration) -> Child {
    let part = Part {
        url: server.0.url(),
        ttl,
        task,
    };
    part.start(id, ears)
}

/// Its connection ends with it: the lock is free at once, and not after its TTL of a minute.
pub(crate) fn a_holder_is_killed() {
    run(async {
        let server = Server::start();
        let next = locker(&server.store().await, LONG);
        let eyes = server.eyes().await;
        let (feed, ears) = feed();
        let mut holder = child(&server, 0, &ears, Task::Hold, LONG);
        assert_eq!(hear(&feed).1, Report::Ready);
        let Report::Held { fence } = hear(&feed).1 else {
            panic!("it holds");
        };
        let waiting = tokio::spawn(async move {
            let guard = next.acquire(NAME).await.unwrap();
            (guard, now())
        });
        eyes.wait_for_line(1).await;
        let killed_at = now();
        kill(&mut holder);
        let (guard, granted_at) = soon("the lock", waiting).await.unwrap();
        println!(
            "holder killed: free after {:?}",
            granted_at.since(killed_at)
        );
        assert!(granted_at.since(killed_at) < GRACE);
        assert!(guard.fence().as_i64() > fence);
        assert!(guard.release().await.is_released());
        eyes.is_clean().await;
    });
}

/// Its connection stays, but it is silent: the server ends the session when the TTL has passed. When it wakes it writes at once: the
/// resource refuses, and the holder is told.
pub(crate) fn a_holder_stopped_beyond_its_ttl() {
    run(async {
        let server = Server::start();
        let ttl = Duration::from_secs(2);
        let next = locker(&server.store().await, LONG);
        let eyes = server.eyes().await;
        eyes.text("create table fenced as select 0::bigint as fence, '' as text")
            .await;
        let (feed, ears) = feed();
        let mut stopped = child(&server, 0, &ears, Task::Hold, ttl);
        assert_eq!(hear(&feed).1, Report::Ready);
        assert!(matches!(hear(&feed).1, Report::Held { .. }));
        stopped.signal(Signal::SIGSTOP).unwrap();
        assert!(stopped.wait_stopped(LONG));
        let stopped_at = now();
        let guard = soon("the lock", next.acquire(NAME)).await.unwrap();
        let cost = now().since(stopped_at);
        println!("holder stopped: free after {cost:?}, TTL {ttl:?}");
        assert!(cost < ttl + GRACE, "{cost:?}");
        assert!(write(&eyes, guard.fence().as_i64(), "in time").await);
        stopped.send(&"write").unwrap();
        stopped.signal(Signal::SIGCONT).unwrap();
        for expected in [Report::Refused, Report::Lost, Report::Done] {
            assert_eq!(hear(&feed).1, expected);
        }
        assert_eq!(eyes.text("select text from fenced").await, "in time");
        assert!(guard.release().await.is_released());
    });
}

/// It is stopped when its turn comes: it costs those behind it a short time, and not its TTL of a minute. When it wakes it takes
/// nothing for a lock that is none, and has its turn later.
pub(crate) fn a_waiter_stopped_across_its_grant() {
    run(async {
        let server = Server::start();
        let holder = locker(&server.store().await, LONG);
        let eyes = server.eyes().await;
        let held = holder.acquire(NAME).await.unwrap();
        let (feed, ears) = feed();
        let stopped = child(&server, 0, &ears, Task::WaitOnce, LONG);
        eyes.wait_for_line(1).await;
        stopped.signal(Signal::SIGSTOP).unwrap();
        assert!(stopped.wait_stopped(LONG));
        assert!(held.release().await.is_released());
        let asked_at = now();
        let next = soon("the lock", holder.acquire(NAME)).await.unwrap();
        let cost = now().since(asked_at);
        println!("waiter stopped across its grant: cost {cost:?}");
        assert!(cost < CLAIM_WINDOW + GRACE, "{cost:?}");
        stopped.signal(Signal::SIGCONT).unwrap();
        eyes.wait_for_line(1).await;
        assert!(!next.is_lost());
        let next_fence = next.fence().as_i64();
        assert!(next.release().await.is_released());
        assert_eq!(hear(&feed).1, Report::Ready);
        let Report::Served { fence, outcome, .. } = hear(&feed).1 else {
            panic!("it has its turn");
        };
        assert_eq!(outcome, "Released");
        assert!(fence > next_fence, "it took its old grant for a lock");
        eyes.is_clean().await;
    });
}

/// Eight wait, five of them are killed: the others are served in order, and none of the dead costs a TTL.
pub(crate) fn waiters_are_killed() {
    run(async {
        let server = Server::start();
        let holder = locker(&server.store().await, LONG);
        let eyes = server.eyes().await;
        let held = holder.acquire(NAME).await.unwrap();
        let (feed, ears) = feed();
        let mut children = Vec::new();
        // They keep their places however long it takes to start them all.
        let part = Part {
            url: format!("{}?requeue_after=never", server.0.url()),
            ttl: LONG,
            task: Task::WaitOnce,
        };
        for id in 0..8 {
            children.push(part.start(id, &ears));
            eyes.wait_for_line(id as i64 + 1).await;
        }
        for child in &children[1..6] {
            child.signal(Signal::SIGKILL).unwrap();
        }
        let released_at = now();
        assert!(held.release().await.is_released());
        let mut served = Vec::new();
        while served.len() < 3 {
            match hear(&feed) {
                (
                    id,
                    Report::Served {
                        fence,
                        granted_ns,
                        outcome,
                    },
                ) => {
                    assert_eq!(outcome, "Released");
                    served.push((fence, id, granted_ns));
                }
                (_, Report::Ready | Report::Done) => {}
                (id, other) => panic!("child {id}: {other:?}"),
            }
        }
        served.sort_unstable();
        let order: Vec<usize> = served.iter().map(|(_, id, _)| *id).collect();
        assert_eq!(order, [0, 6, 7]);
        let last = fencepost::Moment::from_nanos(served[2].2).since(released_at);
        println!("five of eight waiters killed: the last had its turn after {last:?}");
        assert!(last < GRACE, "{last:?}");
        eyes.is_clean().await;
    });
}
