//! The stored counter of Redlock: its layout, its units, and how long it is kept.

use std::time::{Duration, SystemTime};

use fencepost::backend::Release;
use fencepost::stores::redlock::Redlock;
use fencepost::{Backend, Effect, ErrorKind};

use crate::support::{COUNTER, LONG, NAME, Servers, assert_error, claim, run};

/// Returns the seconds since the beginning of 2024.
fn seconds_since_2024() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap().as_secs() - 1_704_067_200
}

/// A counter of the previous version is converted to this layout, and increases. Programs of that version are refused from then
/// on, because they expect a string.
pub(crate) fn of_the_version_before() {
    run(async {
        let servers = Servers::start();
        let store = servers.patient_store().await;
        let claim = claim(LONG);
        let old = seconds_since_2024() * 16_000;
        for at in 0..3 {
            let old = old.to_string();
            servers
                .plain(at)
                .does(&["SET", COUNTER, &old, "PX", "600000"]);
        }
        let grant = store.try_acquire(&claim).await.unwrap().unwrap();
        assert!(grant.epoch > old);
        servers.spread(&store, &claim).await;
        for at in 0..3 {
            assert_eq!(servers.plain(at).number(&["HEXISTS", COUNTER, "layout"]), 1);
        }
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        servers.are_clean().await;
    });
}

/// A counter of a later version is not touched.
pub(crate) fn of_a_later_version() {
    run(async {
        let servers = Servers::start();
        let store = servers.patient_store().await;
        for at in 0..3 {
            let later = ["HSET", COUNTER, "layout", "3", "count", "1"];
            servers.plain(at).does(&later);
        }
        let error = store.try_acquire(&claim(LONG)).await.unwrap_err();
        assert_error(&error, ErrorKind::Unusable, Effect::None, "layout 3");
        for at in 0..3 {
            assert_eq!(servers.value(at), None);
        }
    });
}

/// All servers lose their data after a second in which the lock changed hands 100,000 times. The next fence is larger
/// nevertheless.
pub(crate) fn many_grants_before_all_is_lost() {
    run(async {
        let servers = Servers::start();
        let store = servers.patient_store().await;
        let first_claim = claim(LONG);
        let first = store.try_acquire(&first_claim).await.unwrap().unwrap();
        assert_eq!(store.release(&first_claim).await.unwrap(), Release::Freed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        for at in 0..3 {
            servers.plain(at).does(&["FLUSHALL"]);
        }
        // A client that has seen nothing of this.
        let other = servers.patient_store().await;
        let claim = claim(LONG);
        let next = other.try_acquire(&claim).await.unwrap().unwrap();
        let last = first.epoch + 100_000;
        assert!(next.epoch > last, "{} after {last}", next.epoch);
    });
}

/// A client that has seen an epoch never goes below it, however far the clocks of the servers are behind.
pub(crate) fn a_seen_epoch_is_passed() {
    run(async {
        let servers = Servers::start();
        let store = servers.patient_store().await;
        let claim = claim(LONG);
        let far = (seconds_since_2024() + 1000) * 128_000;
        for at in 0..3 {
            servers.set_count(at, far);
        }
        let first = store.try_acquire(&claim).await.unwrap().unwrap();
        assert!(first.epoch > far);
        assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
        for at in 0..3 {
            servers.plain(at).does(&["FLUSHALL"]);
        }
        let next = store.try_acquire(&claim).await.unwrap().unwrap();
        assert!(next.epoch > first.epoch, "{} {}", next.epoch, first.epoch);
    });
}

/// Counters are kept for as long as the program or the address says, but not for less than clocks may be set back.
pub(crate) fn kept_for_as_long_as_told() {
    run(async {
        let servers = Servers::start();
        let address = servers.address();
        let by_address = Redlock::builder(&format!("{address}?keep_fences=2h"));
        for (builder, hours) in [
            (Redlock::builder(&address), 24),
            (by_address.clone(), 2),
            (by_address.keep_fences(Duration::from_secs(3 * 3600)), 3),
        ] {
            let store = builder.open().await.unwrap();
            let claim = claim(LONG);
            assert!(store.try_acquire(&claim).await.unwrap().is_some());
            servers.spread(&store, &claim).await;
            assert_eq!(store.release(&claim).await.unwrap(), Release::Freed);
            let life = servers.plain(0).number(&["PTTL", COUNTER]);
            let longest = hours * 3_600_000;
            assert!(life <= longest && life > longest - 600_000, "{life} ms");
            servers.plain(0).does(&["DEL", COUNTER, NAME]);
        }
        let error = Redlock::open(&format!("{address}?keep_fences=600s")).await;
        assert_error(
            &error.unwrap_err(),
            ErrorKind::InvalidInput,
            Effect::None,
            "keep_fences",
        );
    });
}
