//! The sequences that Postgres fences are drawn from: how they are created, when they are refused, and that they are never
//! mixed with another source.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fencepost::pg_tx::PgTxLock;
use fencepost::stores::postgres::Postgres;
use fencepost::{Backend, Effect, Error, ErrorKind};
use tokio_postgres::NoTls;

use crate::support::{
    Eyes, LONG, NAME, Server, assert_error, claim, is_soak, locker, open, run, soon, works,
};

/// Returns the error of opening the store, or of the first lock.
async fn refused(url: &str) -> Error {
    let asked = soon("an error", async {
        let store = Postgres::open(url).await?;
        store.try_acquire(&claim("refused", LONG)).await
    });
    asked.await.expect_err("a refusal")
}

const OWNER: &str = "0123456789abcdef0123456789abcdef";

/// Creates a session that looks like a holder of an older version.
async fn an_older_holder(server: &Server) -> Eyes {
    let older = Eyes::open(&format!("{}?application_name=shop", server.0.url())).await;
    older.text("select pg_advisory_lock(7)").await;
    let name = format!("set application_name = 'shop 750 {OWNER}'");
    older.text(&name).await;
    older
}

/// Fences of an older program are transaction numbers. A late holder of ours would appear older everywhere.
pub(crate) fn an_older_program_is_refused() {
    run(async {
        let server = Server::start();
        let older = an_older_holder(&server).await;
        let error = refused(&server.0.url()).await;
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "stop that program first",
        );
        let eyes = server.eyes().await;
        let made = "select count(*) from pg_class where relname = 'fencepost_fence'";
        assert_eq!(eyes.number(made).await, 0, "nothing is made beside it");
        older.text("set application_name = 'fencepost'").await;
        older.text("/*fencepost stock */ select 1").await;
        let error = refused(&server.0.url()).await;
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "stop that program first",
        );
        // A session that holds nothing might belong to anything.
        older.text("select pg_advisory_unlock(7)").await;
        let store = server.store().await;
        // It comes back between the opening of our store and our first lock.
        let older = an_older_holder(&server).await;
        let asked = soon("an answer", store.try_acquire(&claim(NAME, LONG))).await;
        let error = asked.expect_err("a refusal");
        assert_eq!(error.kind(), ErrorKind::Unusable, "{error}");
        drop(older);
        eyes.wait_until_clean().await;
        works(&*store).await;
    });
}

/// Since Postgres 15, only the owner of a database may create objects in `public`.
pub(crate) fn who_may_not_create_is_told_what_to_run() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        eyes.text("create role shop login").await;
        eyes.text("revoke create on schema public from public")
            .await;
        let url = server.url_of("shop");
        let error = refused(&url).await;
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "CREATE SEQUENCE IF NOT EXISTS public.fencepost_fence",
        );
        let text = error.to_string();
        let create = &text[text.find("CREATE SEQUENCE").unwrap()..text.find("; GRANT").unwrap()];
        eyes.text(create).await;
        let error = refused(&url).await;
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "GRANT USAGE, SELECT, UPDATE ON SEQUENCE",
        );
        let text = error.to_string();
        let grant = &text[text.find("GRANT USAGE").unwrap()..];
        eyes.text(grant).await;
        works(&*open(&url).await).await;
        eyes.text("alter sequence public.fencepost_fence cache 10")
            .await;
        let error = refused(&url).await;
        assert_error(&error, ErrorKind::Unusable, Effect::None, "cache 1");
    });
}

/// Transaction ids are used only on request, and never beside the sequences.
pub(crate) fn transaction_ids_only_where_asked_for() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        eyes.text("create role shop login").await;
        eyes.text("revoke create on schema public from public")
            .await;
        let url = format!("{}?fence=transaction-id", server.url_of("shop"));
        let store = open(&url).await;
        works(&*store).await;
        let held = locker(&store, LONG).acquire(NAME).await.unwrap();
        let error = refused(&server.0.url()).await;
        assert_error(
            &error,
            ErrorKind::Unusable,
            Effect::None,
            "fence=transaction-id",
        );
        assert!(held.release().await.is_released());
        // Another program starts to draw from sequences, while the first store has a session that could still grant locks.
        let other = server.store().await;
        works(&*other).await;
        let asked = soon("an answer", store.try_acquire(&claim(NAME, LONG))).await;
        let error = asked.expect_err("a refusal");
        assert!(
            error.to_string().contains("takes transaction ids"),
            "{error}"
        );
        assert_error(
            &refused(&url).await,
            ErrorKind::Unusable,
            Effect::None,
            "leave out fence=transaction-id",
        );
        let wrong = format!("{}?fence=clock", server.0.url());
        assert_error(
            &refused(&wrong).await,
            ErrorKind::InvalidInput,
            Effect::None,
            "transaction-id",
        );
    });
}

/// A program that only inspects draws no fence.
pub(crate) fn a_look_needs_none() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        eyes.text("create role shop login").await;
        eyes.text("revoke create on schema public from public")
            .await;
        let looking = Postgres::builder(&server.url_of("shop"));
        let looking = looking.open_to_release().await.unwrap();
        // Without sequences, without rights on them, and beside a program that uses transaction ids.
        let own = format!("{}?fence=transaction-id", server.0.url());
        let store = open(&own).await;
        let held = locker(&store, LONG).acquire(NAME).await.unwrap();
        assert_eq!(looking.list(None).await.unwrap().len(), 1);
        looking
            .try_acquire(&claim("other", LONG))
            .await
            .unwrap_err();
        assert!(held.release().await.is_released());
        works(&*server.store().await).await;
        assert_eq!(looking.list(None).await.unwrap().len(), 0);
    });
}

/// Two sessions that lift the fence at the same time could set it back. Sessions that draw need not wait for them.
pub(crate) fn one_lifts_at_a_time() {
    run(async {
        let server = Server::start();
        let (drawing, lifting) = (server.store().await, server.store().await);
        works(&*drawing).await;
        let lifter = server.eyes().await;
        lifter.text("select pg_advisory_lock(1717923427, 2)").await;
        let other = claim("other", LONG);
        let waiting = tokio::spawn(async move { lifting.try_acquire(&other).await });
        server.eyes().await.wait_for_line(1).await;
        works(&*drawing).await;
        assert!(!waiting.is_finished(), "it lifted beside another one");
        lifter
            .text("select pg_advisory_unlock(1717923427, 2)")
            .await;
        let granted = soon("the grant", waiting).await.unwrap().unwrap();
        assert!(granted.is_some());
    });
}

/// New sessions lift the fence while others draw from it, in our sessions and in transactions. It increases in the order of the
/// grants.
pub(crate) fn draws_and_lifts_together() {
    let turns = if is_soak() { 400 } else { 150 };
    run(async move {
        let server = Server::start();
        let (tx, _driver) = connect(&server).await;
        PgTxLock::create_table(&tx).await.unwrap();
        drop(tx);
        let stop = Arc::new(AtomicBool::new(false));
        let last = Arc::new(AtomicU64::new(0));
        let granted = Arc::new(AtomicU64::new(0));
        let note = |last: &AtomicU64, epoch: u64| {
            let before = last.swap(epoch, Ordering::SeqCst);
            assert!(epoch > before, "{epoch} after {before}");
        };
        let mut tasks = Vec::new();
        // One store stays open; the others are opened for one lock each.
        for lasts in [true, false, false] {
            let (url, stop, last, granted) =
                (server.0.url(), stop.clone(), last.clone(), granted.clone());
            tasks.push(tokio::spawn(async move {
                let mut store = open(&url).await;
                while !stop.load(Ordering::SeqCst) {
                    let guard = locker(&store, LONG).acquire(NAME).await.unwrap();
                    note(&last, guard.fence().epoch());
                    granted.fetch_add(1, Ordering::SeqCst);
                    assert!(guard.release().await.is_released());
                    if !lasts {
                        store = open(&url).await;
                    }
                }
            }));
        }
        let (mut client, _driver) = connect(&server).await;
        let lock = PgTxLock::advisory(NAME).unwrap();
        for turn in 0..turns {
            let transaction = client.transaction().await.unwrap();
            let held = lock.acquire(&transaction).await.unwrap();
            note(&last, held.fence().epoch());
            // After a rollback the session forgets that it has lifted the fence, and lifts it again.
            match turn % 2 {
                0 => transaction.commit().await.unwrap(),
                _ => transaction.rollback().await.unwrap(),
            }
        }
        stop.store(true, Ordering::SeqCst);
        for task in tasks {
            soon("the end", task).await.unwrap();
        }
        println!("sequences: {turns} transactions beside {granted:?} grants");
    });
}

async fn connect(server: &Server) -> (tokio_postgres::Client, tokio::task::JoinHandle<()>) {
    let (client, connection) = tokio_postgres::connect(&server.0.url(), NoTls)
        .await
        .unwrap();
    let driver = tokio::spawn(async move {
        let _ended = connection.await;
    });
    (client, driver)
}
