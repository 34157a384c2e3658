//! The records of the etcd store: beside which locks they lie, how changes are told, and what becomes of a replacement whose answer is lost.

use std::time::{Duration, Instant};

use fencepost::backend::records::{RecordKey, RecordKind, Replaced};
use fencepost::{Backend, Effect, ErrorKind, LockName};
use fencepost_rig::{Amount, Direction, Proxy};
use fencepost_store_tests::records::{key, next, put, read, records, replace, try_replace};
use fencepost_store_tests::test_program::{NamedTest, tests};

use crate::support::{LONG, Plain, assert_error, claim, open, run, soon, works};

pub(crate) const TESTS: &[NamedTest] = tests![
    stand_in_no_line,
    changes_are_told_at_once,
    changes_after_a_compaction_are_told,
    those_who_wait_survive_the_end_of_the_connection,
    a_deleted_record_is_noticed,
    a_replacement_whose_answer_is_lost_is_not_outdated,
    another_server_is_asked,
    what_is_too_large_is_refused,
];

/// Locks whose names are as close as possible to the keys of records.
fn stand_in_no_line() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        for prefix in ["", "/shop"] {
            let store = open(&format!("{}{prefix}", server.url())).await;
            let names = ["stock", "stock/1f", "fencepost/shares/stock", "1f"];
            for name in names {
                for kind in RecordKind::ALL {
                    let name = LockName::new(name).unwrap();
                    let key = RecordKey { kind, name };
                    let seen = records(&*store).read(&key).await.unwrap();
                    let replaced = records(&*store).replace(&key, &seen, b"any", LONG);
                    assert_eq!(replaced.await.unwrap(), Replaced::Yes);
                }
            }
            let near = [
                "fencepost",
                "fencepost/shares",
                "fencepost/shares/stock",
                "shop",
                "stock",
            ];
            for name in near {
                let name = LockName::new(name).unwrap();
                let claim = fencepost_store_tests::claim_on(name.as_str(), LONG);
                let granted = soon("an answer", store.try_acquire(&claim)).await.unwrap();
                assert!(granted.is_some(), "{name} is not free");
                let record = store.inspect(&name).await.unwrap().expect("it is held");
                assert!(record.waiting.is_empty(), "{record:?}");
                store.release(&claim).await.unwrap();
            }
            assert_eq!(store.list(None).await.unwrap(), []);
            assert_eq!(store.list(Some("*")).await.unwrap(), []);
            works(&store, 0).await;
        }
    });
}

fn changes_are_told_at_once() {
    run(async {
        const CHANGES: u32 = 20;
        let server = fencepost_rig::Etcd::start().unwrap();
        let (one, other) = (open(&server.url()).await, open(&server.url()).await);
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
        // If they were found by the slow poll, they would take five seconds each.
        assert!(took < CHANGES * Duration::from_secs(1), "{took:?}");
    });
}

/// The revision that the caller has seen is compacted away. A watch from there would be refused.
fn changes_after_a_compaction_are_told() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let (one, other) = (open(&server.url()).await, open(&server.url()).await);
        let mut plain = Plain::open(server.address()).await;
        put(&*one, b"first").await;
        let seen = read(&*one).await;
        for _ in 0..10 {
            plain.put("other", "any").await;
        }
        let revision = plain.0.get("other", None).await.unwrap();
        let revision = revision.header().unwrap().revision();
        plain.0.compact(revision, None).await.unwrap();
        let changed = next(&*one, &seen);
        let change = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            put(&*other, b"second").await;
        };
        let (now, ()) = tokio::join!(soon("the change", changed), change);
        assert_eq!(now.value.as_deref(), Some(&b"second"[..]));
    });
}

fn those_who_wait_survive_the_end_of_the_connection() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let road = Proxy::start(server.address()).unwrap();
        let one = open(&format!("etcd://{}", road.address())).await;
        let other = open(&server.url()).await;
        for _ in 0..5 {
            put(&*other, b"before").await;
            let seen = read(&*one).await;
            let key = key();
            let waiting = async {
                // Failures are hints, too.
                loop {
                    records(&*one).changed(&key, &seen).await;
                    let now = records(&*one).read(&key).await;
                    if now.is_ok_and(|now| now.version != seen.version) {
                        return;
                    }
                }
            };
            let cut_and_change = async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                road.cut();
                put(&*other, b"after").await;
            };
            tokio::join!(soon("the change", waiting), cut_and_change);
        }
    });
}

fn a_deleted_record_is_noticed() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let mut plain = Plain::open(server.address()).await;
        put(&*store, b"any").await;
        let seen = read(&*store).await;
        let changed = soon("the change", next(&*store, &seen));
        let delete = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            plain
                .0
                .delete("\u{1}fencepost/shares/stock", None)
                .await
                .unwrap();
        };
        let (now, ()) = tokio::join!(changed, delete);
        assert_eq!((now.value, now.version), (None, 0));
        assert_eq!(replace(&*store, &seen, b"late").await, Replaced::Outdated);
        put(&*store, b"again").await;
        assert!(read(&*store).await.version > seen.version);
        assert_eq!(replace(&*store, &seen, b"late").await, Replaced::Outdated);
    });
}

/// If the same transaction were sent to another server, its answer would be that somebody else has replaced the record.
fn a_replacement_whose_answer_is_lost_is_not_outdated() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let road = Proxy::start(server.address()).unwrap();
        let address = format!("etcd://{},{}", road.address(), server.address());
        let store = open(&address).await;
        let seen = read(&*store).await;
        road.swallow(Direction::ToClient);
        let error = try_replace(&*store, &seen, b"mine").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.effect(), Effect::Maybe, "{error}");
        let now = read(&*store).await;
        assert_eq!(now.value.as_deref(), Some(&b"mine"[..]));
    });
}

/// The first server is gone, which is known before the transaction is sent.
fn another_server_is_asked() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let road = Proxy::start(server.address()).unwrap();
        let address = format!("etcd://{},{}", road.address(), server.address());
        let store = open(&address).await;
        let seen = read(&*store).await;
        road.cut_after(Direction::ToServer, Amount::Bytes(0));
        drop(road);
        let mut answers = Vec::new();
        for _ in 0..3 {
            answers.push(try_replace(&*store, &seen, b"mine").await);
        }
        let replaced = answers
            .iter()
            .filter(|answer| matches!(answer, Ok(Replaced::Yes)));
        assert_eq!(replaced.count(), 1, "{answers:?}");
    });
}

fn what_is_too_large_is_refused() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let seen = read(&*store).await;
        let error = try_replace(&*store, &seen, &vec![7; 2_000_000]).await;
        assert_error(
            &error.unwrap_err(),
            ErrorKind::Unusable,
            Effect::None,
            "too large",
        );
        put(&*store, &[7; 1_000_000]).await;
        let claim = claim(LONG);
        assert!(store.try_acquire(&claim).await.unwrap().is_some());
    });
}
