//! TTLs that etcd cannot do.

use std::time::{Duration, Instant};

use crate::support::{LONG, NAME, locker, noticed_within, open, released, run, soon};

/// A TTL shorter than etcd supports: the holder believes in it for that long, and the lock is free within the documented time.
pub(crate) fn short_ttl() {
    run(async {
        let server = fencepost_rig::Etcd::start().unwrap();
        let store = open(&server.url()).await;
        let ttl = Duration::from_millis(100);
        let short = fencepost::Locker::builder(store.clone())
            .ttl(ttl)
            .keep_alive(false);
        let short = short.build().unwrap();
        let guard = short.acquire(NAME).await.unwrap();
        assert!(guard.valid_for() <= ttl);
        let granted = Instant::now();
        let next = soon("the lock", locker(&store, LONG).acquire(NAME))
            .await
            .unwrap();
        let took = granted.elapsed();
        println!("short_ttl: free after {took:?} with a TTL of {ttl:?}");
        assert!(guard.is_lost());
        assert!(took < Duration::from_secs(2) + noticed_within(), "{took:?}");
        released(next).await;
    });
}
