//! Epochs of the lease table never go back, whatever happens to the tables.

use fencepost::{Backend, Effect, ErrorKind};

use crate::support::{LONG, Server, assert_error, claim, run};

/// Acquires and releases a lock, and returns its epoch.
async fn epoch(store: &dyn Backend) -> u64 {
    let claim = claim(LONG);
    let grant = store.try_acquire(&claim).await.unwrap().expect("free");
    store.release(&claim).await.unwrap();
    grant.epoch
}

pub(crate) fn the_row_was_deleted() {
    run(async {
        let server = Server::start().await;
        let (store, plain) = (server.store().await, server.plain().await);
        let first = epoch(&*store).await;
        plain.does("DELETE FROM shedlock").await;
        let second = epoch(&*store).await;
        assert!(second > first);
        // This includes a held lock: the holder is notified, and does not get it back.
        let held = claim(LONG);
        let grant = store.try_acquire(&held).await.unwrap().unwrap();
        plain.does("DELETE FROM shedlock").await;
        let renewed = store.renew(std::slice::from_ref(&held)).await.remove(0);
        assert_eq!(renewed.unwrap(), fencepost::backend::Renewal::Lost);
        assert!(epoch(&*store).await > grant.epoch);
    });
}

pub(crate) fn the_tables_were_lost() {
    run(async {
        let server = Server::start().await;
        let (store, plain) = (server.store().await, server.plain().await);
        let first = epoch(&*store).await;
        plain
            .does("TRUNCATE shedlock, shedlock_fence, shedlock_line")
            .await;
        let second = epoch(&*store).await;
        assert!(second > first, "{second} after {first}");
        plain
            .does("DROP TABLE shedlock, shedlock_fence, shedlock_line")
            .await;
        let error = store.try_acquire(&claim(LONG)).await.unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::None, "no such table");
        let url = server.0.url();
        let builder = fencepost::stores::postgres_table::PostgresTable::builder(&url);
        let again = builder.create_table(true).open().await.unwrap();
        let third = epoch(&again).await;
        assert!(third > second, "{third} after {second}");
        // The first store finds the new tables by itself.
        assert!(epoch(&*store).await > third);
    });
}

pub(crate) fn put_back_from_a_copy() {
    run(async {
        let server = Server::start().await;
        let (store, plain) = (server.store().await, server.plain().await);
        epoch(&*store).await;
        plain
            .does("CREATE TABLE copy AS SELECT * FROM shedlock_fence")
            .await;
        for _ in 0..20 {
            epoch(&*store).await;
        }
        let last = epoch(&*store).await;
        plain
            .does("TRUNCATE shedlock_fence; INSERT INTO shedlock_fence SELECT * FROM copy")
            .await;
        let next = epoch(&*store).await;
        assert!(next > last, "{next} after {last}");
    });
}

/// A lock that cannot be fenced is not granted, and nothing of the attempt remains.
pub(crate) fn at_its_end() {
    run(async {
        let server = Server::start().await;
        let (store, plain) = (server.store().await, server.plain().await);
        epoch(&*store).await;
        plain
            .does("UPDATE shedlock_fence SET epoch = 140737488355327")
            .await;
        let error = store.try_acquire(&claim(LONG)).await.unwrap_err();
        assert_error(
            &error,
            ErrorKind::FenceExhausted,
            Effect::None,
            "140737488355328",
        );
        assert!(plain.left_ms().await <= 0);
        server.wait_until_clean().await;
    });
}

/// After the clock was far ahead for a while, epochs continue from there, one by one.
pub(crate) fn of_another_age() {
    run(async {
        let server = Server::start().await;
        let (store, plain) = (server.store().await, server.plain().await);
        epoch(&*store).await;
        let ahead = 60_000_000_000_000;
        plain
            .does(&format!("UPDATE shedlock_fence SET epoch = {ahead}"))
            .await;
        assert_eq!(epoch(&*store).await, ahead + 1);
        assert_eq!(epoch(&*store).await, ahead + 2);
    });
}

/// An owner that releases and asks again has a new lease, however soon. The released lease belongs to nobody. The time alone,
/// which the table stores in milliseconds, would not distinguish the two.
pub(crate) fn of_the_same_owner() {
    run(async {
        let server = Server::start().await;
        let (store, plain) = (server.store().await, server.plain().await);
        let claim = claim(LONG);
        let mut last = 0;
        for _ in 0..50 {
            let grant = store.try_acquire(&claim).await.unwrap().expect("free");
            let again = store.try_acquire(&claim).await.unwrap().expect("its own");
            assert_eq!(again.epoch, grant.epoch, "the same lease");
            assert!(grant.epoch > last, "{} after {last}", grant.epoch);
            last = grant.epoch;
            store.release(&claim).await.unwrap();
            let owned = "SELECT count(*) FROM shedlock_fence WHERE owner <> ''";
            assert_eq!(plain.number(owned).await, 0);
        }
    });
}
