//! The records of the Redis store: how changes are announced, and what a server that loses them does to their epochs.

use std::time::{Duration, Instant};

use fencepost::backend::records::{RecordKey, RecordKind, Replaced};
use fencepost::{Backend, Effect, ErrorKind, LockName};
use fencepost_rig::{Direction, Fate};
use fencepost_store_tests::records::{grant, key, next, put, read, records, replace};
use fencepost_store_tests::test_program::{NamedTest, tests};

use crate::support::{
    LONG, NAME, Server, assert_error, claim, contains, eventually, open, run, soon,
};

pub(crate) const TESTS: &[NamedTest] = tests![
    changes_are_announced,
    a_lost_announcement_costs_a_moment,
    without_announcements_those_who_wait_ask,
    those_who_wait_are_told_when_the_connection_ends,
    a_deleted_record_is_noticed,
    are_kept_as_long_as_fences,
    are_kept_longer_if_asked,
    epochs_grow_after_a_loss,
    a_record_seen_over_an_earlier_connection_is_not_replaced,
    names_of_ours_are_refused,
    what_is_no_record_is_refused,
    locks_and_records_are_listed_apart,
];

const KEY: &str = "fp:{stock}:shares:stock";

/// Nobody polls often: while nothing changes, a wait costs three commands four times a second. A change is told at once.
fn changes_are_announced() {
    run(async {
        const CHANGES: u32 = 20;
        let server = Server::start();
        let (one, other) = (server.store().await, server.store().await);
        put(&*one, b"first").await;
        let before = one.commands_sent();
        let started = Instant::now();
        for change in 0..CHANGES {
            let seen = read(&*one).await;
            let changed = next(&*one, &seen);
            let change = async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                put(&*other, &change.to_be_bytes()).await;
            };
            tokio::join!(changed, change);
        }
        let took = started.elapsed();
        // If they were found by the slow poll, they would take a quarter of a second each.
        assert!(took < CHANGES * Duration::from_millis(120), "{took:?}");
        let asked = one.commands_sent() - before;
        assert!(asked < 8 * u64::from(CHANGES), "{asked} commands");

        let seen = read(&*one).await;
        let before = one.commands_sent();
        let key = key();
        let quiet = records(&*one).changed(&key, &seen);
        let quiet = tokio::time::timeout(Duration::from_secs(1), quiet).await;
        assert!(quiet.is_err(), "nothing has changed");
        let asked = one.commands_sent() - before;
        assert!(asked <= 15, "{asked} commands in a second");
    });
}

fn a_lost_announcement_costs_a_moment() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let (one, other) = (open(proxy.address()).await, server.store().await);
        put(&*one, b"first").await;
        proxy.judge(Direction::ToClient, |message| {
            if contains(message, "invalidate") {
                Fate::Lose
            } else {
                Fate::Pass
            }
        });
        let seen = read(&*one).await;
        let changed = next(&*one, &seen);
        let change = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            put(&*other, b"second").await;
            Instant::now()
        };
        let (_, changed_at) = tokio::join!(changed, change);
        let took = changed_at.elapsed();
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
}

fn without_announcements_those_who_wait_ask() {
    run(async {
        let server = Server::start();
        let rights = ["-client|tracking", "-client", "resetchannels"];
        for right in rights {
            let words = [
                "ACL", "SETUSER", "app", "reset", "on", ">secret", "~*", "&*", "+@all", right,
            ];
            server.plain().does(&words);
            let url = format!("redis://app:secret@{}", server.0.address());
            let one = fencepost::stores::redis::Redis::open(&url).await.unwrap();
            let other = server.store().await;
            put(&one, b"first").await;
            for _ in 0..5 {
                let seen = read(&one).await;
                let changed = soon("the change", next(&one, &seen));
                tokio::join!(changed, put(&*other, b"again"));
            }
        }
    });
}

fn those_who_wait_are_told_when_the_connection_ends() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let (one, other) = (open(proxy.address()).await, server.store().await);
        for _ in 0..5 {
            put(&*other, b"before").await;
            let seen = read(&*one).await;
            let key = key();
            let changed = records(&*one).changed(&key, &seen);
            let cut = async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                proxy.cut();
            };
            tokio::join!(soon("a hint", changed), cut);
            eventually("an answer", async || {
                records(&*one).read(&key).await.is_ok()
            })
            .await;
            let seen = read(&*one).await;
            tokio::join!(soon("the change", next(&*one, &seen)), put(&*other, b"now"));
        }
    });
}

fn a_deleted_record_is_noticed() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        for delete in [&["DEL", KEY][..], &["FLUSHALL"]] {
            put(&*store, b"any").await;
            let seen = read(&*store).await;
            let changed = soon("the change", next(&*store, &seen));
            let delete = async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                server.plain().does(delete);
            };
            let (now, ()) = tokio::join!(changed, delete);
            assert_eq!((now.value, now.version), (None, 0));
            assert_eq!(replace(&*store, &seen, b"late").await, Replaced::Outdated);
        }
    });
}

fn are_kept_as_long_as_fences() {
    run(async {
        const HOURS_24_MS: i64 = 24 * 3_600_000;
        let server = Server::start();
        let store = server.store().await;
        put(&*store, b"any").await;
        let left = server.plain().number(&["PTTL", KEY]);
        assert!(left > HOURS_24_MS - 60_000 && left <= HOURS_24_MS, "{left}");
    });
}

fn are_kept_longer_if_asked() {
    run(async {
        const DAYS_90: Duration = Duration::from_secs(90 * 24 * 3600);
        let server = Server::start();
        let store = server.store().await;
        let key = key();
        for keep_for in [DAYS_90, Duration::MAX] {
            let seen = read(&*store).await;
            let replaced = records(&*store).replace(&key, &seen, b"any", keep_for);
            assert_eq!(replaced.await.unwrap(), Replaced::Yes);
            let left = server.plain().number(&["PTTL", KEY]);
            assert!(left > DAYS_90.as_millis() as i64 - 60_000, "{left}");
        }
    });
}

fn epochs_grow_after_a_loss() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        let mut last = 0;
        for _ in 0..5 {
            for _ in 0..20 {
                let epoch = grant(&*store).await;
                assert!(epoch > last, "{epoch} after {last}");
                last = epoch;
            }
            server.plain().does(&["FLUSHALL"]);
        }
        // The same units as for the fences of locks.
        let lock = claim(LONG);
        let fence = store.try_acquire(&lock).await.unwrap().unwrap().epoch;
        assert!(
            fence > last && fence - last < 128_000 * 60,
            "{fence} {last}"
        );
    });
}

/// Somebody else may have created or replaced it in the meantime, with a higher epoch, at a server that has failed since.
fn a_record_seen_over_an_earlier_connection_is_not_replaced() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        let store = open(proxy.address()).await;
        for what in ["absent", "present"] {
            let seen = read(&*store).await;
            proxy.cut();
            eventually("another connection", async || {
                records(&*store).read(&key()).await.is_ok()
            })
            .await;
            let replaced = replace(&*store, &seen, b"any").await;
            assert_eq!(replaced, Replaced::Outdated, "{what}");
            put(&*store, b"any").await;
        }
    });
}

fn names_of_ours_are_refused() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        let key = RecordKey {
            kind: RecordKind::Runs,
            name: LockName::new("fp:{a}:shares:a").unwrap(),
        };
        let error = records(&*store).read(&key).await.unwrap_err();
        assert_error(&error, ErrorKind::InvalidInput, Effect::None, "fp:{");
        let seen = read(&*store).await;
        let replaced = records(&*store).replace(&key, &seen, b"any", LONG);
        let error = replaced.await.unwrap_err();
        assert_error(&error, ErrorKind::InvalidInput, Effect::None, "fp:{");
        soon("a hint", records(&*store).changed(&key, &seen)).await;
        assert_eq!(server.plain().texts(&["KEYS", "*"]), Vec::<String>::new());
    });
}

fn what_is_no_record_is_refused() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        let seen = read(&*store).await;
        for value in ["", "text", "00000000000000000000000000000000 zero"] {
            server.plain().does(&["SET", KEY, value]);
            let error = records(&*store).read(&key()).await.unwrap_err();
            assert_error(&error, ErrorKind::Unusable, Effect::None, KEY);
            let replaced = replace(&*store, &seen, b"any").await;
            assert_eq!(replaced, Replaced::Outdated, "{value:?}");
        }
        server.plain().does(&["DEL", KEY]);
        server.plain().does(&["LPUSH", KEY, "a list"]);
        let error = records(&*store).read(&key()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
        assert_eq!(replace(&*store, &seen, b"any").await, Replaced::Outdated);
    });
}

fn locks_and_records_are_listed_apart() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        put(&*store, b"any").await;
        assert_eq!(store.list(None).await.unwrap(), []);
        assert_eq!(store.list(Some("*")).await.unwrap(), []);
        let held = claim(LONG);
        assert!(store.try_acquire(&held).await.unwrap().is_some());
        let listed = store.list(Some("*")).await.unwrap();
        let listed: Vec<&str> = listed.iter().map(|lock| lock.name.as_str()).collect();
        assert_eq!(listed, [NAME]);
        let names = records(&*store).names(RecordKind::Shares).await.unwrap();
        assert_eq!(names, [key().name]);
    });
}
