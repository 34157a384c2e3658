//! A network that cuts the lease table's connection, or swallows its bytes.

use std::sync::Arc;
use std::time::Duration;

use fencepost::stores::postgres_table::PostgresTable;
use fencepost_rig::{Amount, Direction, Signal};
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::support::{LONG, NAME, Server, impatient, locker, open, run, soon};

/// The connection is cut after a number of bytes in either direction, during a request or a release. Whatever the result,
/// nothing remains at the server, and the next claim gets the lock.
pub(crate) fn cut_off_anywhere() {
    run(async {
        let server = Server::start().await;
        let proxy = server.proxy();
        let rival = locker(&server.store().await, LONG);
        let (mut failed, mut done) = (0, 0);
        for direction in [Direction::ToServer, Direction::ToClient] {
            for bytes in [1, 10, 40, 90, 150, 220, 300, 400, 600, 900] {
                let store = open(proxy.address()).await;
                let locker = impatient(&store, LONG);
                proxy.cut_after(direction, Amount::Bytes(bytes));
                match soon("an answer", locker.acquire(NAME)).await {
                    Ok(guard) => {
                        let outcome = soon("an outcome", guard.release()).await;
                        done += usize::from(outcome.is_released());
                    }
                    Err(_) => failed += 1,
                }
                proxy.heal();
                let guard = soon("the next", rival.acquire(NAME)).await.unwrap();
                assert!(guard.release().await.is_released());
                soon("the end", locker.shutdown()).await;
                server.wait_until_clean().await;
            }
        }
        println!("network: of 20 cuts {failed} failed the request, {done} came too late to matter");
        assert!(failed > 5, "the cuts were to hurt");
    });
}

/// Bytes disappear in one direction or the other. The wait continues over a new connection, and the old one is terminated with
/// any pending request.
pub(crate) fn a_black_hole() {
    run(async {
        let server = Server::start().await;
        let plain = server.plain().await;
        for direction in [Direction::ToServer, Direction::ToClient] {
            let proxy = server.proxy();
            let holder = locker(&server.store().await, LONG);
            let held = holder.acquire(NAME).await.unwrap();
            // An attempt to connect through the black hole must end soon.
            let url = format!("postgres://fencepost@{}/postgres", proxy.address());
            let store = Arc::new(PostgresTable::open(&url).await.unwrap());
            let waiter = locker(&store, LONG);
            let waiting = tokio::spawn(async move { waiter.acquire(NAME).await.unwrap() });
            server.wait_for_line(1).await;
            proxy.swallow(direction);
            assert!(held.release().await.is_released());
            tokio::time::sleep(Duration::from_secs(1)).await;
            proxy.heal();
            let guard = soon("the lock", waiting).await.unwrap();
            assert!(guard.release().await.is_released());
            server.wait_until_clean().await;
            let ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fencepost'";
            drop(holder);
            assert!(plain.number(ours).await <= 2, "the old one is still there");
        }
    });
}

/// A request is on its way to a session that does not read it. The client gives up and releases the lock over a new connection.
/// After that, the old session must not execute the request.
pub(crate) fn a_stale_request() {
    run(async {
        let server = Server::start().await;
        let store = server.store().await;
        let plain = server.plain().await;
        let locker = impatient(&store, LONG);
        drop(soon("the lock", locker.acquire(NAME)).await.unwrap());
        server.wait_until_clean().await;
        let session =
            "SELECT pid::bigint FROM pg_stat_activity WHERE application_name = 'fencepost'";
        let pid = Pid::from_raw(i32::try_from(plain.number(session).await).unwrap());
        kill(pid, Signal::SIGSTOP).unwrap();
        for _ in 0..4 {
            let answer = soon("an answer", locker.acquire(NAME)).await;
            assert!(
                answer.is_err(),
                "a new session, while the old one may still read what it was sent"
            );
        }
        assert!(plain.left_ms().await <= 0, "nobody has read it");
        kill(pid, Signal::SIGCONT).unwrap();
        let guard = soon("the lock", async {
            loop {
                if let Ok(guard) = locker.acquire(NAME).await {
                    return guard;
                }
            }
        });
        assert!(guard.await.release().await.is_released());
        server.wait_until_clean().await;
        assert_ne!(plain.number(session).await, i64::from(pid.as_raw()));
    });
}
