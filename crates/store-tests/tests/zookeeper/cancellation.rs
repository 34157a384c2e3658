//! Requests to ZooKeeper that are dropped at any await leave no node behind.

use std::time::Duration;

use fencepost::Locker;
use fencepost_rig::Direction;

use crate::support::{Eyes, NAME, SESSION, Server, locker, open, poll_at_most, run, soon};

/// The lock is free, held all the time, or released during the wait. Answers are delayed, so that every await is pending.
pub(crate) fn at_every_await() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let session = SESSION * 3;
        let store = open(proxy.address(), session).await;
        let holder = locker(&open(server.0.address(), session).await, session);
        proxy.delay(Direction::ToClient, Duration::from_millis(15));
        let eyes = server.eyes().await;
        for stage in [Stage::Free, Stage::Held, Stage::GivenBack] {
            for only_try in [true, false] {
                let mut polls = 1;
                while !cancelled(
                    &eyes,
                    &holder,
                    &locker(&store, session),
                    stage,
                    only_try,
                    polls,
                )
                .await
                {
                    polls += 1;
                }
                assert!(polls > 1, "it was to be cut off at least once");
            }
        }
        eyes.wait_until_clean().await;
    });
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Free,
    Held,
    GivenBack,
}

/// Drops the request after this many polls. Returns whether it completed first, or makes no more progress.
async fn cancelled(
    eyes: &Eyes,
    holder: &Locker,
    ours: &Locker,
    stage: Stage,
    only_try: bool,
    polls: usize,
) -> bool {
    let held = match stage {
        Stage::Free => None,
        _ => Some(soon("the lock", holder.acquire(NAME)).await.unwrap()),
    };
    let asking = async {
        if only_try {
            ours.try_acquire(NAME).await.unwrap()
        } else {
            Some(ours.acquire(NAME).await.unwrap())
        }
    };
    let mut asking = Box::pin(poll_at_most(polls, asking));
    let mut held = held;
    let timeout = Duration::from_millis(150);
    let mut answer = tokio::time::timeout(timeout, &mut asking).await;
    if answer.is_err() && stage == Stage::GivenBack {
        drop(held.take());
        answer = tokio::time::timeout(timeout * 10, &mut asking).await;
    }
    let is_done = !matches!(answer, Ok(None));
    drop((asking, answer));
    soon("everything to be given back", ours.shutdown()).await;
    let line = eyes.line().await;
    let expected = usize::from(held.is_some());
    assert_eq!(
        line.len(),
        expected,
        "{stage:?} after {polls} polls: {line:?}"
    );
    if let Some(held) = held {
        assert!(held.release().await.is_released());
    }
    eyes.wait_for_line(0).await;
    is_done
}
