//! Dropping Redlock requests at every await, with one slow server, leaves no key on any server.

use std::time::Duration;

use fencepost_rig::Direction;

use crate::support::{LONG, NAME, Servers, locker, poll_at_most, run, soon};

/// A future that is not woken for this long waits for the holder.
const NO_PROGRESS: Duration = Duration::from_millis(150);

pub(crate) fn of_a_free_lock() {
    run(async {
        let servers = Servers::start();
        let roads = servers.roads();
        let store = roads.store().await;
        for slow in [0, 2] {
            let road = &roads.0[slow];
            road.delay(Direction::ToServer, Duration::from_millis(3));
            road.delay(Direction::ToClient, Duration::from_millis(3));
            for polls in 1.. {
                let locker = locker(&store, LONG);
                let asked = poll_at_most(polls, locker.acquire(NAME));
                let done = soon("the future", asked).await;
                let is_done = done.is_some();
                drop(done);
                soon("everything to be given back", locker.shutdown()).await;
                servers.are_clean().await;
                if is_done {
                    assert!(polls > 1, "it was to be cut off at least once");
                    break;
                }
            }
            road.heal();
        }
    });
}

pub(crate) fn of_a_lock_that_is_held() {
    run(async {
        let servers = Servers::start();
        let roads = servers.roads();
        let (store, holder) = (roads.store().await, locker(&servers.store().await, LONG));
        roads.0[1].delay(Direction::ToServer, Duration::from_millis(3));
        for polls in 1.. {
            let held = holder.acquire(NAME).await.unwrap();
            let locker = locker(&store, LONG);
            let mut asked = Box::pin(poll_at_most(polls, locker.acquire(NAME)));
            // As far as it gets, and a little further after the release.
            let early = tokio::time::timeout(NO_PROGRESS, &mut asked).await;
            assert!(held.release().await.is_released());
            let done = match early {
                Ok(done) => done,
                Err(_) => soon("the waiter", &mut asked).await,
            };
            let is_done = done.is_some();
            drop((asked, done));
            soon("everything to be given back", locker.shutdown()).await;
            servers.are_clean().await;
            if is_done {
                assert!(
                    polls > 2,
                    "it was to be cut off while it asked and while it waited"
                );
                break;
            }
        }
    });
}

pub(crate) fn of_a_release() {
    run(async {
        let servers = Servers::start();
        let roads = servers.roads();
        let store = roads.store().await;
        roads.0[1].delay(Direction::ToServer, Duration::from_millis(3));
        for polls in 1.. {
            let locker = locker(&store, LONG);
            let guard = locker.acquire(NAME).await.unwrap();
            let release = poll_at_most(polls, guard.release());
            let is_done = soon("the future", release).await.is_some();
            soon("everything to be given back", locker.shutdown()).await;
            servers.are_clean().await;
            if is_done {
                break;
            }
        }
    });
}
