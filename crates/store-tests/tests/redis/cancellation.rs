//! Waits on Redis that are dropped while their grant is on its way.

use std::sync::Arc;
use std::time::Duration;

use fencepost::Locker;
use fencepost::stores::redis::Redis;
use fencepost_rig::{Direction, Fate};

use crate::support::{LONG, NAME, Server, grants, locker, open, poll_at_most, run, soon};

/// Drops the wait at every await, and also when the grant was sent but not received. Once the cancellation is answered, the
/// waiter neither has the lock nor is in line.
pub(crate) fn with_the_grant_in_flight() {
    run(async {
        let server = Server::start();
        let proxy = server.proxy();
        proxy.judge(
            Direction::ToClient,
            grants(Fate::Late(Duration::from_millis(40))),
        );
        let store = open(proxy.address()).await;
        let holder = locker(&server.store().await, LONG);
        let stage = Stage {
            server: &server,
            holder: &holder,
            store: &store,
        };
        let mut polls = 1;
        while !stage.cancel(polls, false).await {
            polls += 1;
        }
        assert!(
            polls > 2,
            "it was to be cut off at least while it asked and while it waited"
        );
        for _ in 0..5 {
            assert!(!stage.cancel(usize::MAX, true).await);
        }
        server.wait_until_clean().await;
    });
}

struct Stage<'a> {
    server: &'a Server,
    holder: &'a Locker,
    store: &'a Arc<Redis>,
}

impl Stage<'_> {
    /// Drops the wait after this many polls, or right after the lock was handed to it. Returns whether it completed first.
    async fn cancel(&self, polls: usize, in_flight: bool) -> bool {
        let waiter = locker(self.store, LONG);
        let held = soon("the lock", self.holder.acquire(NAME)).await.unwrap();
        let mut waiting = Box::pin(poll_at_most(polls, waiter.acquire(NAME)));
        // It joins the line, if it gets that far. Then the lock is handed on.
        let early = tokio::select! {
            done = &mut waiting => Some(done),
            () = self.server.wait_for_line(NAME, 1) => None,
        };
        assert!(held.release().await.is_released());
        let done = match early {
            Some(done) => done,
            None if in_flight => None,
            None => soon("the waiter", &mut waiting).await,
        };
        let is_done = done.is_some();
        drop((waiting, done));
        soon("everything to be given back", waiter.shutdown()).await;
        let mut plain = self.server.plain();
        assert_eq!(plain.text(&["GET", NAME]), None, "after {polls} polls");
        assert_eq!(self.server.in_line(NAME), 0, "after {polls} polls");
        is_done
    }
}
