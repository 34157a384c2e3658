//! The records of the ZooKeeper store: nodes that somebody deletes by hand, the leader's time, and what does not fit into a node.

use std::time::{Duration, Instant};

use fencepost::backend::records::{RecordKey, RecordKind, Replaced};
use fencepost::{Backend, Effect, ErrorKind, LockName};
use fencepost_rig::Direction;
use fencepost_store_tests::records::{key, next, put, read, records, replace, try_replace};
use fencepost_store_tests::test_program::{NamedTest, tests};

use crate::support::{
    BASE, Eyes, LONG, NAME, SESSION, Server, assert_error, claim, eventually, open, run, soon,
};

pub(crate) const TESTS: &[NamedTest] = tests![
    lie_beside_all_locks,
    a_record_that_was_deleted_and_made_again_is_another_one,
    a_record_without_its_child_is_absent,
    nodes_above_that_vanish_are_made_again,
    changes_are_told_at_once,
    a_deleted_record_is_noticed,
    those_who_wait_survive_the_end_of_the_session,
    the_time_is_that_of_the_leader_and_for_runs_only,
    what_is_too_large_is_refused,
    a_replacement_whose_answer_is_lost_is_not_outdated,
    with_a_password_nobody_else_reads_them,
];

fn node() -> String {
    format!("{BASE}/%records/shares/{NAME}")
}

/// Deletes the record by hand.
async fn delete(eyes: &Eyes) {
    for child in eyes.children(&node()).await {
        let path = format!("{}/{child}", node());
        eyes.0.delete(&path, None).await.unwrap();
    }
    eyes.0.delete(&node(), None).await.unwrap();
}

/// Locks whose names are as close as possible to the nodes of records.
fn lie_beside_all_locks() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        put(&*store, b"any").await;
        for name in ["%records", "%records/shares", NAME, "records"] {
            let claim = fencepost_store_tests::claim_on(name, SESSION);
            let granted = soon("an answer", store.try_acquire(&claim)).await.unwrap();
            assert!(granted.is_some(), "{name} is not free");
            store.release(&claim).await.unwrap();
        }
        assert_eq!(store.list(None).await.unwrap(), []);
        assert_eq!(store.list(Some("*")).await.unwrap(), []);
        assert_eq!(read(&*store).await.value.as_deref(), Some(&b"any"[..]));
    });
}

/// The server's own numbers start again with a new node.
fn a_record_that_was_deleted_and_made_again_is_another_one() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        let eyes = server.eyes().await;
        put(&*store, b"A").await;
        let first = read(&*store).await;
        put(&*store, b"B").await;
        let second = read(&*store).await;
        delete(&eyes).await;
        assert_eq!(read(&*store).await.version, 0);
        assert_eq!(replace(&*store, &second, b"late").await, Replaced::Outdated);
        put(&*store, b"A").await;
        put(&*store, b"B").await;
        for seen in [first, second] {
            assert_eq!(replace(&*store, &seen, b"late").await, Replaced::Outdated);
        }
        assert_eq!(read(&*store).await.value.as_deref(), Some(&b"B"[..]));
    });
}

fn a_record_without_its_child_is_absent() {
    run(async {
        let server = Server::start();
        let (store, other) = (server.store().await, server.store().await);
        let eyes = server.eyes().await;
        put(&*store, b"any").await;
        for child in eyes.children(&node()).await {
            let path = format!("{}/{child}", node());
            eyes.0.delete(&path, None).await.unwrap();
        }
        let seen = read(&*store).await;
        assert_eq!((seen.value.as_deref(), seen.version), (None, 0));
        let others = read(&*other).await;
        assert_eq!(replace(&*store, &seen, b"first").await, Replaced::Yes);
        assert_eq!(
            replace(&*other, &others, b"second").await,
            Replaced::Outdated
        );
        assert_eq!(eyes.children(&node()).await.len(), 1);
    });
}

fn nodes_above_that_vanish_are_made_again() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        let eyes = server.eyes().await;
        for _ in 0..3 {
            put(&*store, b"any").await;
            let runs = RecordKey {
                kind: RecordKind::Runs,
                ..key()
            };
            let seen = records(&*store).read(&runs).await.unwrap();
            assert!(seen.time.is_some());
            delete(&eyes).await;
            let root = format!("{BASE}/%records");
            for node in ["shares", "clock"] {
                eyes.0
                    .delete(&format!("{root}/{node}"), None)
                    .await
                    .unwrap();
            }
            eyes.0.delete(&root, None).await.unwrap();
        }
    });
}

fn changes_are_told_at_once() {
    run(async {
        const CHANGES: u32 = 20;
        let server = Server::start();
        let (one, other) = (server.store().await, server.store().await);
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
        println!("records: {CHANGES} changes took {:?}", started.elapsed());
    });
}

fn a_deleted_record_is_noticed() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        let eyes = server.eyes().await;
        put(&*store, b"any").await;
        let seen = read(&*store).await;
        let changed = soon("the change", next(&*store, &seen));
        let delete = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            delete(&eyes).await;
        };
        let (now, ()) = tokio::join!(changed, delete);
        assert_eq!((now.value, now.version), (None, 0));
    });
}

fn those_who_wait_survive_the_end_of_the_session() {
    run(async {
        let server = Server::start();
        let road = server.proxy();
        let one = open(road.address(), SESSION).await;
        let other = server.store().await;
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
            road.swallow(Direction::ToServer);
            put(&*other, b"after").await;
            tokio::time::sleep(SESSION * 3).await;
            road.heal();
            road.cut();
        };
        tokio::join!(
            fencepost_store_tests::within(LONG, "the change", waiting),
            cut_and_change
        );
    });
}

fn the_time_is_that_of_the_leader_and_for_runs_only() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        for kind in RecordKind::ALL {
            let name = LockName::new(NAME).unwrap();
            let seen = records(&*store).read(&RecordKey { kind, name }).await;
            let time = seen.unwrap().time;
            assert_eq!(time.is_some(), kind == RecordKind::Runs, "{kind:?}");
            if let Some(time) = time {
                let here = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
                let apart = here.abs_diff(time.now);
                assert!(apart < Duration::from_secs(10), "{apart:?}");
            }
        }
    });
}

fn what_is_too_large_is_refused() {
    run(async {
        let server = Server::start();
        let store = server.store().await;
        let seen = read(&*store).await;
        let error = try_replace(&*store, &seen, &vec![7; 1_000_001]).await;
        let words = "1000001 bytes does not fit";
        assert_error(
            &error.unwrap_err(),
            ErrorKind::InvalidInput,
            Effect::None,
            words,
        );
        let held = claim(SESSION);
        assert!(store.try_acquire(&held).await.unwrap().is_some());
        let largest = vec![7; 1_000_000];
        let name = LockName::new(&"ü".repeat(120)).unwrap();
        let key = RecordKey { name, ..key() };
        let seen = records(&*store).read(&key).await.unwrap();
        let replaced = records(&*store).replace(&key, &seen, &largest, LONG);
        assert_eq!(replaced.await.unwrap(), Replaced::Yes);
        let seen = records(&*store).read(&key).await.unwrap();
        assert!(seen.value.as_deref() == Some(&largest[..]));
    });
}

/// If the same transaction were sent again, its answer would be that somebody else has replaced the record.
fn a_replacement_whose_answer_is_lost_is_not_outdated() {
    run(async {
        let server = Server::start();
        let road = server.proxy();
        let store = open(road.address(), SESSION).await;
        put(&*store, b"before").await;
        let seen = read(&*store).await;
        road.swallow(Direction::ToClient);
        let replacing = try_replace(&*store, &seen, b"mine");
        let cut = async {
            let eyes = server.eyes().await;
            eventually("it takes effect", async || {
                let children = eyes.children(&node()).await;
                let version = format!("{:032x}", seen.version);
                !children.contains(&version)
            })
            .await;
            road.heal();
            road.cut();
        };
        let (replaced, ()) = tokio::join!(replacing, cut);
        let error = replaced.unwrap_err();
        assert_eq!(error.effect(), Effect::Maybe, "{error}");
        let now = read(&*store).await;
        assert_eq!(now.value.as_deref(), Some(&b"mine"[..]));
    });
}

fn with_a_password_nobody_else_reads_them() {
    run(async {
        let server = Server::start();
        // Whoever comes first makes the folder of all locks, with its own rights.
        let theirs = server.store().await;
        put(&*theirs, b"any").await;
        delete(&server.eyes().await).await;
        let address = format!("zk://shop:secret@{}{BASE}", server.0.address());
        let ours = fencepost::stores::zookeeper::Zookeeper::open(&address).await;
        put(&ours.unwrap(), b"any").await;
        let error = records(&*theirs).read(&key()).await.unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::None, "not allowed");
    });
}
