//! Dropping waits and attempts on the lease table at every await point.

use std::sync::Arc;
use std::time::Duration;

use fencepost::Locker;
use fencepost::stores::postgres_table::PostgresTable;

use crate::support::{LONG, NAME, Server, locker, poll_at_most, run, soon};

/// A wait for a held lock that is not woken for this long will make no more progress.
const NO_PROGRESS: Duration = Duration::from_millis(400);

/// After everything was released, the tables contain no lock and no ticket, and each store has one connection without an open
/// transaction.
pub(crate) fn at_every_await() {
    run(async {
        let server = Server::start().await;
        let (one, other) = (server.store().await, server.store().await);
        let plain = server.plain().await;
        let holder = locker(&one, LONG);
        for is_released in [false, true] {
            let mut polls = 1;
            while !cancel(&server, &holder, &other, polls, is_released).await {
                polls += 1;
                let ours =
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'fencepost'";
                assert_eq!(plain.number(ours).await, 2);
            }
            assert!(
                polls > 2,
                "it was to be cut off while it asked and while it waited"
            );
        }
    });
}

/// Drops the future after this many polls. The lock stays held, or is released meanwhile. Returns whether the future made no
/// more progress.
async fn cancel(
    server: &Server,
    holder: &Locker,
    store: &Arc<PostgresTable>,
    polls: usize,
    is_released: bool,
) -> bool {
    let mut held = Some(soon("the lock", holder.acquire(NAME)).await.unwrap());
    let waiter = locker(store, LONG);
    let waiting = poll_at_most(polls, waiter.acquire(NAME));
    let mut waiting = Box::pin(tokio::time::timeout(NO_PROGRESS, waiting));
    let early = tokio::select! {
        done = &mut waiting => Some(done),
        () = server.wait_for_line(1) => None,
    };
    let done = match early {
        Some(done) => done,
        None => {
            if let Some(held) = held.take_if(|_| is_released) {
                assert!(held.release().await.is_released());
            }
            waiting.as_mut().await
        }
    };
    let is_done = !matches!(done, Ok(None));
    drop((waiting, done));
    soon("everything to be given back", waiter.shutdown()).await;
    let tickets = server.plain().await;
    let tickets = tickets.number("SELECT count(*) FROM shedlock_line").await;
    assert_eq!(tickets, 0, "after {polls} polls");
    if let Some(held) = held {
        assert!(held.release().await.is_released());
    }
    server.wait_until_clean().await;
    is_done
}
