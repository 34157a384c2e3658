//! Postgres locks behind PgBouncer.

use fencepost::stores::postgres::Postgres;
use fencepost::{Effect, ErrorKind};
use fencepost_rig::{Pooler, ServerError};

use crate::support::{Eyes, LONG, Server, assert_error, locker, open, run, soon, works};

/// Starts PgBouncer. Returns `None` if it is not installed.
fn start(server: &Server, mode: &str, size: u32) -> Option<Pooler> {
    match Pooler::start(&server.0, mode, size) {
        Ok(pooler) => Some(pooler),
        Err(ServerError::NotInstalled { .. }) => {
            let reason = "pgbouncer is not installed; see cargo xtask prepare";
            assert!(std::env::var_os("FENCEPOST_NO_SKIP").is_none(), "{reason}");
            println!("skipped: pooler: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// In transaction mode, the statements of a client go to any free session, where a lock would be stranded. The store refuses
/// this even if only one session is free, or if others keep several busy.
pub(crate) fn transaction_mode_is_refused() {
    run(async {
        let server = Server::start();
        for (mode, size, neighbours) in [
            ("transaction", 1, 0),
            ("transaction", 10, 0),
            ("transaction", 10, 5),
            ("statement", 10, 0),
        ] {
            let Some(pooler) = start(&server, mode, size) else {
                return;
            };
            let mut others = Vec::new();
            for _ in 0..neighbours {
                let other = Eyes::open(&pooler.url()).await;
                other.text("select 1").await;
                others.push(other);
            }
            let opened = soon("an error", Postgres::open(&pooler.url())).await;
            let error = opened.expect_err("a refusal");
            println!("pooler: {mode}, {size}: {error}");
            assert_error(&error, ErrorKind::Unusable, Effect::None, "pooler");
        }
    });
}

/// In session mode a client keeps its session, so everything works.
pub(crate) fn session_mode_works() {
    run(async {
        let server = Server::start();
        let Some(pooler) = start(&server, "session", 20) else {
            return;
        };
        let store = open(&pooler.url()).await;
        works(&*store).await;
        let (one, other) = (locker(&store, LONG), locker(&server.store().await, LONG));
        let held = one.acquire("stock").await.unwrap();
        let waiting = tokio::spawn(async move { other.acquire("stock").await.unwrap() });
        server.eyes().await.wait_for_line(1).await;
        assert!(held.release().await.is_released());
        let guard = soon("the lock", waiting).await.unwrap();
        assert!(guard.release().await.is_released());
    });
}
