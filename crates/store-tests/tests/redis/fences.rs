//! Epochs on Redis increase even if the server has lost its fence counter, or part of it.

use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::redis::Redis;
use fencepost::{ErrorKind, Fence, Locker};
use fencepost_rig::resp::Value;
use fencepost_rig::{Direction, Proxy};

use crate::support::{LONG, NAME, Server, locker, open, run, soon};

const FENCE: &str = "fp:{stock}:fence:stock";

/// The counter is evicted or deleted while the lock is held, and the release hands the lock on at once.
pub(crate) fn forgotten_before_a_release() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let store = server.store().await;
        let locker = locker(&store, LONG);
        let held = locker.acquire(NAME).await.unwrap();
        let first = held.fence();
        let waiting = server.waiter_of(&locker).await;
        plain.does(&["DEL", FENCE]);
        assert!(held.release().await.is_released());
        let next = soon("the waiter", waiting).await.unwrap();
        assert!(next.fence() > first, "{} after {first}", next.fence());
        assert!(plain.number(&["PTTL", FENCE]) > 0, "a fence that stays");
        assert!(next.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// A replica that lags behind takes over while the old primary is silent. Heartbeats of waiters must not be the first that the
/// new primary receives for a name, because they do not raise its epoch.
pub(crate) fn behind_after_a_silent_failover() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let proxy: Proxy = server.proxy();
        // The new primary does not know the connections to the old one, and cannot end them.
        plain.does(&["ACL", "SETUSER", "default", "-client|kill"]);
        let (ours, theirs) = (open(proxy.address()).await, server.store().await);
        let held = locker(&theirs, LONG).acquire(NAME).await.unwrap();
        let first = held.fence();
        let waiter = locker(&ours, LONG);
        let waiting = tokio::spawn({
            let waiter = waiter.clone();
            async move { waiter.acquire(NAME).await.unwrap() }
        });
        server.wait_for_heartbeats(NAME, 1).await;
        proxy.swallow(Direction::ToServer);
        // This request is abandoned before the heartbeat that was sent after it. Its connection is closed, and the next one is
        // opened.
        let asked = waiter.try_acquire("another");
        let silent = tokio::time::timeout(Duration::from_millis(2010), asked).await;
        assert!(silent.is_err(), "somebody answered");
        proxy.heal();
        plain.does(&["DEL", FENCE, NAME]);
        plain.does(&["ZADD", FENCE, "5", "2"]);
        plain.does(&["PEXPIRE", FENCE, "60000"]);
        let other = loop {
            // The first may share a connection attempt that was also swallowed.
            match soon("an answer", waiter.acquire("another")).await {
                Ok(guard) => break guard,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        };
        let next = soon("the waiter", waiting).await.unwrap();
        assert!(next.fence() > first, "{} after {first}", next.fence());
        assert!(next.release().await.is_released());
        assert!(other.release().await.is_released());
    });
}

/// The number of epochs in one second of hand-overs at the maximum speed of a server.
const A_BUSY_SECOND: u64 = 51_146;
/// Further ahead of the clock than a test takes.
const FAR_AHEAD: u64 = 1_000_000_000;

async fn once(locker: &Locker) -> Fence {
    let guard = soon("the lock", locker.acquire(NAME)).await.unwrap();
    let fence = guard.fence();
    assert!(guard.release().await.is_released());
    fence
}

/// A name changes hands tens of thousands of times a second, and then the server loses its data. The clock has advanced faster,
/// so a client without prior knowledge gets a larger epoch.
pub(crate) fn flushed_after_a_busy_second() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        once(&locker(&server.store().await, LONG)).await;
        let last = plain.counts_on(FENCE, A_BUSY_SECOND);
        tokio::time::sleep(Duration::from_secs(1)).await;
        plain.does(&["FLUSHALL"]);
        let next = once(&locker(&server.store().await, LONG)).await;
        assert!(next.epoch() > last, "{next} after {last}");
    });
}

/// The counter was ahead of the clock when it was lost. A client that has seen it tells the server, whether the counter is
/// missing or was created again by a client that knew less.
pub(crate) fn flushed_while_ahead_of_the_time() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let (knows, knows_not) = server.two_lockers().await;
        let mut last = once(&knows).await;
        once(&knows_not).await;
        for somebody_comes_before in [false, true] {
            plain.counts_on(FENCE, FAR_AHEAD);
            let ahead = once(&knows).await;
            assert!(ahead.epoch() > last.epoch() + FAR_AHEAD, "{ahead}");
            plain.does(&["FLUSHALL"]);
            if somebody_comes_before {
                assert!(once(&knows_not).await < ahead, "the clock is that far");
            }
            last = once(&knows).await;
            assert!(last > ahead, "{last} after {ahead}");
        }
        server.wait_until_clean().await;
    });
}

/// The same if the last epoch was received in a push.
pub(crate) fn flushed_after_a_push() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let (one, other) = server.two_lockers().await;
        let held = one.acquire(NAME).await.unwrap();
        let waiting = server.waiter_of(&other).await;
        plain.counts_on(FENCE, FAR_AHEAD);
        assert!(held.release().await.is_released());
        let guard = soon("the waiter", waiting).await.unwrap();
        let ahead = guard.fence();
        assert!(guard.release().await.is_released());
        plain.does(&["FLUSHALL"]);
        let next = once(&other).await;
        assert!(next > ahead, "{next} after {ahead}");
    });
}

/// The counter is lost, and a client that knows no epoch hands the lock to one that does.
pub(crate) fn handed_on_by_one_who_knows_less() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let (knows, knows_not) = server.two_lockers().await;
        once(&knows_not).await;
        plain.counts_on(FENCE, FAR_AHEAD);
        let ahead = once(&knows).await;
        plain.does(&["FLUSHALL"]);
        let held = knows_not.acquire(NAME).await.unwrap();
        assert!(held.fence() < ahead, "the clock is that far");
        let waiting = server.waiter_of(&knows).await;
        assert!(held.release().await.is_released());
        let next = soon("the one who knows", waiting).await.unwrap();
        assert!(next.fence() > ahead, "{} after {ahead}", next.fence());
        let value = plain.text(&["GET", NAME]).unwrap();
        assert!(value.contains(&next.fence().epoch().to_string()), "{value}");
        assert!(next.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// Only the counter is lost (evicted, or deleted by hand) while the lock is held. The value of the lock still contains the
/// epoch.
pub(crate) fn forgotten_while_held_ahead_of_the_time() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let (one, other) = server.two_lockers().await;
        once(&one).await;
        plain.counts_on(FENCE, FAR_AHEAD);
        let held = one.acquire(NAME).await.unwrap();
        let ahead = held.fence();
        let waiting = server.waiter_of(&other).await;
        plain.does(&["DEL", FENCE]);
        assert!(held.release().await.is_released());
        let next = soon("the waiter", waiting).await.unwrap();
        assert!(next.fence() > ahead, "{} after {ahead}", next.fence());
        assert!(next.release().await.is_released());
        server.wait_until_clean().await;
    });
}

/// A counter of layout 1 is converted to layout 2 when it is first used. Programs of layout 1 are refused from then on, because
/// their counter is no longer a number.
pub(crate) fn an_older_layout_is_replaced() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        // Ahead of the clock in the units of layout 1 and of layout 2.
        for last in [1_500_000_000_000_u64, 60_000_000_000_000] {
            plain.does(&["SET", FENCE, &last.to_string(), "PX", "600000"]);
            let next = once(&locker(&server.store().await, LONG)).await;
            assert!(next.epoch() > last, "{next} after {last}");
            let refused = plain.ask(&["INCR", FENCE]);
            let is_refused =
                matches!(&refused, Value::Error(said) if said.starts_with("WRONGTYPE"));
            assert!(is_refused, "{refused:?}");
            assert!(plain.number(&["PTTL", FENCE]) > 600_000, "kept as ever");
        }
        server.wait_until_clean().await;
    });
}

/// A holder of layout 1 can no longer count. Its value must not tell it to hand the lock on; then its release just deletes the
/// key.
pub(crate) fn an_older_holder_just_releases() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let waiter = locker(&server.store().await, LONG);
        let owner = "a".repeat(32);
        // With and without an earlier waiter, and with the first or a later request of the connection.
        for mark in ["+", " ", "+"] {
            plain.does(&["DEL", FENCE]);
            plain.does(&["SET", FENCE, "1450000000000", "PX", "600000"]);
            let value = format!("{owner}{mark}1450000000000 60000 1794819700957 old:1");
            plain.does(&["SET", NAME, &value, "PX", "60000"]);
            let waiting = tokio::spawn({
                let waiter = waiter.clone();
                async move { waiter.acquire(NAME).await.unwrap() }
            });
            server.wait_for_heartbeats(NAME, 1).await;
            let seen = plain.text(&["GET", NAME]).unwrap();
            let is_converted = plain.ask(&["TYPE", FENCE]) == Value::Word("zset".into());
            let is_marked = seen.as_bytes()[32] == b'+';
            assert!(!(is_converted && is_marked), "its release would fail");
            plain.does(&["DEL", NAME]);
            let guard = soon("the waiter", waiting).await.unwrap();
            assert!(guard.fence().epoch() > 1_450_000_000_000);
            assert!(guard.release().await.is_released());
        }
        server.wait_until_clean().await;
    });
}

/// A program of layout 1 creates its own counter where the server has lost ours. It is taken over.
pub(crate) fn an_older_program_was_faster_after_a_loss() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let locker = locker(&server.store().await, LONG);
        let last = once(&locker).await;
        plain.does(&["FLUSHALL"]);
        plain.does(&["SET", FENCE, "1500000000000", "PX", "600000"]);
        let next = once(&locker).await;
        assert!(next > last, "{next} after {last}");
        server.wait_until_clean().await;
    });
}

pub(crate) fn a_newer_layout_is_refused() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let known = locker(&server.store().await, LONG);
        once(&known).await;
        plain.does(&["DEL", FENCE]);
        plain.does(&["ZADD", FENCE, "17", "3"]);
        for locker in [known, locker(&server.store().await, LONG)] {
            let refused = locker.acquire(NAME).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unusable, "{refused}");
            assert!(refused.to_string().contains("newer version"), "{refused}");
        }
        assert_eq!(plain.text(&["GET", NAME]), None, "nothing was taken");
        assert_eq!(plain.text(&["ZSCORE", FENCE, "3"]).as_deref(), Some("17"));
    });
}

/// Fences are kept for a day, or as long as the program or the address says, but never for so short that the clock may be
/// behind them.
pub(crate) fn kept_as_long_as_told() {
    run(async {
        let server = Server::start();
        let mut plain = server.plain();
        let url = server.0.url();
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let by_address = format!("{url}?keep_fences=3h");
        for (builder, kept) in [
            (Redis::builder(&url), hours(24)),
            (Redis::builder(&url).keep_fences(hours(2)), hours(2)),
            (Redis::builder(&by_address), hours(3)),
            (Redis::builder(&by_address).keep_fences(hours(2)), hours(2)),
        ] {
            let store = Arc::new(builder.open().await.unwrap());
            once(&locker(&store, LONG)).await;
            let left = plain.number(&["PTTL", FENCE]);
            let left = Duration::from_millis(left.try_into().unwrap());
            assert!(
                left <= kept && left > kept - hours(1),
                "{left:?}, not {kept:?}"
            );
        }
        let too_short = Redis::builder(&url).keep_fences(hours(2) - Duration::from_millis(1));
        let refused = too_short.open().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
        assert!(refused.to_string().contains("at least 2h"), "{refused}");
    });
}
