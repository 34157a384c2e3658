//! Fences of Postgres locks across a crash of the server.

use fencepost::Backend;

use crate::support::{LONG, NAME, Server, claim, run};

/// A fence that was issued must not be issued again after a crash, however soon the crash comes. The server must have it on
/// disk. Nothing else writes to the log here, so nothing else flushes it.
pub(crate) fn a_crash_does_not_repeat_one() {
    run(async {
        // Nothing flushes the log meanwhile.
        let mut server = Server::start_with(&["wal_writer_delay=10s", "autovacuum=off"]);
        let mut last = 0;
        for _ in 0..3 {
            let store = server.store().await;
            for _ in 0..5 {
                let claim = claim(NAME, LONG);
                let grant = store.try_acquire(&claim).await.unwrap();
                let epoch = grant.expect("a free lock").epoch;
                assert!(epoch > last, "{epoch} after {last}");
                last = epoch;
                store.release(&claim).await.unwrap();
            }
            server.0.crash();
            drop(store);
            server.0.restart().unwrap();
        }
    });
}
