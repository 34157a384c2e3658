//! The records of the store of leases in a table: their table, how changes are announced, and what becomes of their epochs after a loss.

use std::time::{Duration, Instant};

use fencepost::backend::records::{RecordKind, Replaced};
use fencepost::stores::postgres_table::PostgresTable;
use fencepost::{Backend, Effect, ErrorKind};
use fencepost_store_tests::records::{grant, key, next, put, read, records, replace, try_replace};
use fencepost_store_tests::test_program::{NamedTest, tests};

use crate::support::{
    LONG, Plain, Server, assert_error, claim, eventually, open, patient, run, soon,
};

pub(crate) const TESTS: &[NamedTest] = tests![
    locks_do_without_their_table,
    the_table_is_made_when_the_store_is_opened,
    who_may_not_make_the_table_can_lock,
    missing_rights_are_named,
    a_table_that_a_crash_would_empty_is_refused,
    a_dropped_table_is_noticed,
    the_longest_name_of_a_table,
    changes_are_announced,
    a_lost_notice_costs_a_moment,
    those_who_wait_are_told_when_the_connection_ends,
    epochs_grow_after_a_loss,
    a_restored_copy_repeats_no_epoch_and_no_version,
    a_record_seen_over_an_earlier_connection_is_not_replaced,
    an_open_transaction_does_not_hold_up_the_connection,
];

/// Returns the statement to run, from the error of a request.
async fn statement_of(store: &PostgresTable) -> String {
    let key = key();
    let error = records(store).read(&key).await.unwrap_err();
    let words = "no table \"public\".\"shedlock_record\"";
    assert_error(&error, ErrorKind::Unusable, Effect::None, words);
    let error = error.to_string();
    error.split_once("run: ").unwrap().1.to_owned()
}

/// An installation of an earlier program. Once somebody has run the statement, records work, without opening the store again.
fn locks_do_without_their_table() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        plain.does("DROP TABLE shedlock_record").await;
        let store = server.store().await;
        let held = claim(LONG);
        assert!(store.try_acquire(&held).await.unwrap().is_some());
        let statement = statement_of(&store).await;
        let key = key();
        let seen = fencepost::backend::records::Snapshot::absent(fencepost_store_tests::now());
        let error = try_replace(&*store, &seen, b"any").await.unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::None, "create=true");
        soon("a hint", records(&*store).changed(&key, &seen)).await;
        let names = records(&*store).names(RecordKind::Shares).await;
        assert_eq!(names.unwrap_err().kind(), ErrorKind::Unusable);
        store.release(&held).await.unwrap();
        plain.does(&statement).await;
        grant(&*store).await;
    });
}

fn the_table_is_made_when_the_store_is_opened() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        plain.does("DROP TABLE shedlock_record").await;
        let builder = patient(&server.0.url()).create_table(true);
        let store = builder.open().await.unwrap();
        let made = "SELECT count(*) FROM pg_class WHERE relname = 'shedlock_record'";
        assert_eq!(plain.number(made).await, 1);
        grant(&store).await;
    });
}

async fn as_app(server: &Server, plain: &Plain) -> String {
    plain.does("CREATE ROLE app LOGIN").await;
    for table in ["shedlock", "shedlock_fence", "shedlock_line"] {
        let grant = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO app");
        plain.does(&grant).await;
    }
    format!("postgres://app@{}/postgres", server.0.address())
}

fn who_may_not_make_the_table_can_lock() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        plain.does("DROP TABLE shedlock_record").await;
        let app = as_app(&server, &plain).await;
        let store = patient(&app).create_table(true).open().await.unwrap();
        assert!(store.try_acquire(&claim(LONG)).await.unwrap().is_some());
        let statement = statement_of(&store).await;
        plain.does(&statement).await;
        plain
            .does("GRANT SELECT, INSERT, UPDATE ON shedlock_record TO app")
            .await;
        grant(&store).await;
    });
}

fn missing_rights_are_named() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        let app = as_app(&server, &plain).await;
        let rights = ["SELECT", "INSERT", "UPDATE"];
        for missing in rights {
            for right in rights.iter().filter(|right| **right != missing) {
                let grant = format!("GRANT {right} ON shedlock_record TO app");
                plain.does(&grant).await;
            }
            let store = patient(&app).open().await.unwrap();
            let error = records(&store).read(&key()).await.unwrap_err();
            let words = "GRANT SELECT, INSERT, UPDATE ON \"public\".\"shedlock_record\"";
            assert_error(&error, ErrorKind::Unusable, Effect::None, words);
            plain.does("REVOKE ALL ON shedlock_record FROM app").await;
        }
    });
}

fn a_table_that_a_crash_would_empty_is_refused() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        plain.does("ALTER TABLE shedlock_record SET UNLOGGED").await;
        let store = server.store().await;
        let error = records(&*store).read(&key()).await.unwrap_err();
        let words = "ALTER TABLE \"public\".\"shedlock_record\" SET LOGGED";
        assert_error(&error, ErrorKind::Unusable, Effect::None, words);
        plain.does("ALTER TABLE shedlock_record SET LOGGED").await;
        grant(&*store).await;
    });
}

fn a_dropped_table_is_noticed() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        let store = server.store().await;
        let last = grant(&*store).await;
        plain.does("DROP TABLE shedlock_record").await;
        let statement = statement_of(&store).await;
        // The new one is checked, too.
        plain
            .does(&statement.replace("TABLE", "UNLOGGED TABLE"))
            .await;
        let error = records(&*store).read(&key()).await.unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::None, "SET LOGGED");
        plain.does("ALTER TABLE shedlock_record SET LOGGED").await;
        let epoch = grant(&*store).await;
        assert!(epoch > last, "{epoch} after {last}");
    });
}

fn the_longest_name_of_a_table() {
    run(async {
        let server = Server::bare(&[]);
        let name = "x".repeat(57);
        for _ in 0..2 {
            let builder = patient(&server.0.url()).table(&name).create_table(true);
            let store = builder.open().await.unwrap();
            grant(&store).await;
        }
        let plain = server.plain().await;
        let rows = format!("SELECT count(*) FROM {name}_recor");
        assert_eq!(plain.number(&rows).await, 1);
    });
}

/// Nobody polls often: while nothing changes, a wait costs a statement four times a second. A change is told at once.
fn changes_are_announced() {
    run(async {
        const CHANGES: u32 = 20;
        let server = Server::start().await;
        let (one, other) = (server.store().await, server.store().await);
        put(&*one, b"first").await;
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

        let seen = read(&*one).await;
        let before = one.statements_sent();
        let key = key();
        let quiet = records(&*one).changed(&key, &seen);
        let quiet = tokio::time::timeout(Duration::from_secs(1), quiet).await;
        assert!(quiet.is_err(), "nothing has changed");
        let asked = one.statements_sent() - before;
        assert!(asked <= 5, "{asked} statements in a second");
    });
}

fn a_lost_notice_costs_a_moment() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        let one = server.store().await;
        put(&*one, b"first").await;
        let seen = read(&*one).await;
        let changed = next(&*one, &seen);
        let change = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let unnoticed = "UPDATE shedlock_record SET version = decode(md5('x'), 'hex')";
            plain.does(unnoticed).await;
            Instant::now()
        };
        let (_, changed_at) = tokio::join!(changed, change);
        let took = changed_at.elapsed();
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
}

fn those_who_wait_are_told_when_the_connection_ends() {
    run(async {
        let server = Server::start().await;
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

fn epochs_grow_after_a_loss() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        let store = server.store().await;
        let mut last = 0;
        for _ in 0..5 {
            for _ in 0..5 {
                let epoch = grant(&*store).await;
                assert!(epoch > last, "{epoch} after {last}");
                last = epoch;
            }
            plain.does("TRUNCATE shedlock_record").await;
        }
        // The same units as for the fences of locks.
        let lock = claim(LONG);
        let fence = store.try_acquire(&lock).await.unwrap().unwrap().epoch;
        assert!(fence > last && fence - last < 16_000 * 60, "{fence} {last}");
    });
}

fn a_restored_copy_repeats_no_epoch_and_no_version() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        let store = server.store().await;
        grant(&*store).await;
        plain
            .does("CREATE TABLE copy AS SELECT * FROM shedlock_record")
            .await;
        let last = grant(&*store).await;
        let seen = read(&*store).await;
        plain
            .does("DELETE FROM shedlock_record; INSERT INTO shedlock_record SELECT * FROM copy")
            .await;
        assert_eq!(replace(&*store, &seen, b"late").await, Replaced::Outdated);
        let epoch = grant(&*store).await;
        assert!(epoch > last, "{epoch} after {last}");
        assert_eq!(replace(&*store, &seen, b"late").await, Replaced::Outdated);
    });
}

/// Somebody else may have created it in the meantime, with a higher epoch, at a server that has failed since.
/// Somebody else may have created or replaced it in the meantime, with a higher epoch, at a server that has failed since.
fn a_record_seen_over_an_earlier_connection_is_not_replaced() {
    run(async {
        let server = Server::start().await;
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

fn an_open_transaction_does_not_hold_up_the_connection() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        let store = server.store().await;
        put(&*store, b"any").await;
        let seen = read(&*store).await;
        plain
            .does("BEGIN; UPDATE shedlock_record SET value = value")
            .await;
        let error = try_replace(&*store, &seen, b"other").await.unwrap_err();
        assert_error(&error, ErrorKind::Timeout, Effect::None, "lock_timeout");
        assert_eq!(read(&*store).await.version, seen.version);
        plain.does("ROLLBACK").await;
        let replaced = replace(&*store, &seen, b"other").await;
        assert_eq!(replaced, Replaced::Yes);
    });
}
