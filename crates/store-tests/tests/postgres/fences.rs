//! Fences rise, whatever happens to the server.

use fencepost::Backend;

use crate::support::{LONG, NAME, Server, claim, run};

/// A number that was given out must not be given out again after a crash, however soon that came: the server has to have it on
/// its disk. Nothing else writes to the log here, so that nothing else carries it along.
pub(crate) fn a_crash_does_not_repeat_one() {
    run(async {
        // Nobody flushes the log for us meanwhile.
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
