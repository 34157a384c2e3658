//! Programs with different sources of fences in one database: which are refused, and which may only inspect.

use fencepost::backend::{Release, Renewal};
use fencepost::stores::postgres::Postgres;
use fencepost::{Backend, Claim, Effect, ErrorKind};

use crate::support::{
    Eyes, LONG, NAME, Server, assert_error, claim, locker, open, run, soon, works,
};

const SEQUENCES: &str =
    "select count(*) from pg_class where relname in ('fencepost_fence', 'fencepost_lift')";

async fn renewed(store: &Postgres, claim: &Claim) -> Renewal {
    let mut renewed = store.renew(std::slice::from_ref(claim)).await;
    renewed.remove(0).unwrap()
}

/// The address of a program sets the `application_name` that older versions use by default. It waits, and is not mistaken for
/// an older version.
pub(crate) fn an_own_application_name() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        let held = locker(&server.store().await, LONG)
            .acquire(NAME)
            .await
            .unwrap();
        let named = open(&format!("{}?application_name=fencepost", server.0.url())).await;
        let named = locker(&named, LONG);
        let waiting = tokio::spawn(async move { named.acquire(NAME).await.unwrap() });
        eyes.wait_for_line(1).await;
        works(&*server.store().await).await;
        let shop = open(&format!("{}?application_name=shop", server.0.url())).await;
        works(&*shop).await;
        let shown = "select count(*) from pg_stat_activity where application_name like 'shop/2%'";
        // A store may have several sessions.
        assert!(eyes.number(shown).await >= 1, "its own name is shown");
        assert!(held.release().await.is_released());
        let guard = soon("the waiter's turn", waiting).await.unwrap();
        assert!(guard.release().await.is_released());
    });
}

/// A program that only inspects creates nothing, and needs no right to.
pub(crate) fn looks_make_nothing() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        eyes.text("create role shop login").await;
        eyes.text("revoke create on schema public from public")
            .await;
        let told = format!("{}?fence=transaction-id", server.0.url());
        let held = locker(&open(&told).await, LONG)
            .acquire(NAME)
            .await
            .unwrap();
        for url in [server.0.url(), server.url_of("shop")] {
            let looking = Postgres::builder(&url).open_to_release().await.unwrap();
            let name = NAME.try_into().unwrap();
            let record = looking.inspect(&name).await.unwrap();
            assert!(record.unwrap().holder.is_some());
            looking.list(None).await.unwrap();
            let nobody = claim("nothing", LONG);
            assert_eq!(looking.release(&nobody).await.unwrap(), Release::NotHeld);
        }
        assert_eq!(eyes.number(SEQUENCES).await, 0, "a look made sequences");
        assert!(held.release().await.is_released());
        works(&*open(&told).await).await;
    });
}

/// An older program holds a lock. Others can inspect it and release it by force, but acquire locks only when it is gone.
pub(crate) fn looks_beside_an_older_program() {
    run(async {
        let server = Server::start();
        let told = format!("{}?fence=transaction-id", server.0.url());
        let older = open(&told).await;
        let held = claim(NAME, LONG);
        assert!(older.try_acquire(&held).await.unwrap().is_some());
        let looking = Postgres::builder(&server.0.url()).open_to_release().await;
        let looking = looking.unwrap();
        let listed = looking.list(None).await.unwrap();
        assert_eq!(listed.len(), 1);
        let opened = Postgres::open(&server.0.url()).await;
        assert_error(
            &opened.unwrap_err(),
            ErrorKind::Unusable,
            Effect::None,
            "stop that program first",
        );
        assert_eq!(looking.release(&held).await.unwrap(), Release::Freed);
        works(&*server.store().await).await;
    });
}

/// A store that uses transaction ids finds the sequences when it requests another lock. That request is refused, but the store
/// keeps its other locks.
pub(crate) fn a_refusal_costs_no_neighbour() {
    run(async {
        let server = Server::start();
        let url = format!("{}?fence=transaction-id", server.0.url());
        let store = Postgres::builder(&url)
            .max_connections(2)
            .open()
            .await
            .unwrap();
        let held = ["a", "b", "c"].map(|name| claim(name, LONG));
        for claim in &held {
            assert!(store.try_acquire(claim).await.unwrap().is_some());
        }
        let eyes = server.eyes().await;
        eyes.text("create sequence public.fencepost_fence").await;
        for name in ["d", "e"] {
            let asked = store.try_acquire(&claim(name, LONG)).await;
            assert_error(
                &asked.unwrap_err(),
                ErrorKind::Unusable,
                Effect::None,
                "takes transaction ids",
            );
        }
        for claim in &held {
            assert_eq!(renewed(&store, claim).await, Renewal::Extended);
        }
    });
}

/// An older version of the table allows older programs to lock in transactions, with fences that cannot be compared with ours.
pub(crate) fn an_older_table_of_transactions() {
    run(async {
        let server = Server::start();
        let eyes = server.eyes().await;
        eyes.text("create schema shop").await;
        eyes.text("create table shop.fencepost_tx (name text primary key, epoch bigint not null)")
            .await;
        let opened = Postgres::open(&server.0.url()).await;
        let words = "shop.fencepost_tx";
        assert_error(
            &opened.unwrap_err(),
            ErrorKind::Unusable,
            Effect::None,
            words,
        );
        assert_eq!(eyes.number(SEQUENCES).await, 0);
        eyes.text("alter table shop.fencepost_tx rename column epoch to fence")
            .await;
        let store = server.store().await;
        works(&*store).await;
        let refused = async |words: &str| {
            let asked = store.try_acquire(&claim(NAME, LONG)).await;
            assert_error(
                &asked.unwrap_err(),
                ErrorKind::Unusable,
                Effect::None,
                words,
            );
        };
        // Every new session checks again.
        eyes.text("alter table shop.fencepost_tx rename column fence to epoch")
            .await;
        let other = Eyes::open(&server.0.url()).await;
        other.text("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'fencepost%'").await;
        eyes.wait_until_clean().await;
        refused("shop.fencepost_tx").await;
        refused("ALTER TABLE shop.fencepost_tx RENAME COLUMN epoch TO fence").await;
    });
}
