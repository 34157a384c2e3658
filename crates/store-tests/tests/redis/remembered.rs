//! How long the Redis store remembers its claims.

use std::time::Duration;

use fencepost::Backend;
use fencepost::backend::Wait;
use fencepost::stores::redis::Redis;
use fencepost_store_tests::test_program::{NamedTest, tests};

use crate::support::{LONG, Server, claim, run, soon};

pub(crate) const TESTS: &[NamedTest] = tests![
    what_never_reached_the_server_is_not_remembered,
    what_could_not_be_released_is_not_remembered_for_ever,
];

const NOW: Duration = Duration::ZERO;

fn what_never_reached_the_server_is_not_remembered() {
    run(async {
        let mut server = Server::start();
        let store = Redis::open(&server.0.url()).await.unwrap();
        server.0.crash();
        for _ in 0..10 {
            let claim = claim(Duration::from_secs(5));
            let asked = store.acquire(&claim, &Wait::default()).await;
            assert!(asked.is_err());
        }
        // The first may have found that the connection was breaking.
        assert!(store.forget_deserted(NOW) <= 1);
    });
}

fn what_could_not_be_released_is_not_remembered_for_ever() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        let held = claim(LONG);
        assert!(store.try_acquire(&held).await.unwrap().is_some());
        let (left, waiting) = (claim(LONG), claim(LONG));
        let (wait, wait_on) = (Wait::default(), Wait::default());
        let mut wait_on = store.acquire(&waiting, &wait_on);
        tokio::select! {
            biased;
            _ = &mut wait_on => unreachable!("the lock is held"),
            _ = store.acquire(&left, &wait) => unreachable!("the lock is held"),
            () = async { while !wait.was_busy() { tokio::task::yield_now().await } } => {}
        }
        assert_eq!(store.forget_deserted(NOW), 2, "a release may still come");
        assert_eq!(store.forget_deserted(Duration::from_secs(11)), 1);
        // The remaining one is the waiter.
        store.release(&left).await.unwrap();
        store.release(&held).await.unwrap();
        soon("its turn", wait_on).await.unwrap();
    });
}
