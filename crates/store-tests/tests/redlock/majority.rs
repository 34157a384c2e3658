//! A majority of the Redlock servers that is lost, silent, or has forgotten the lock.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fencepost::resource::{FencedCell, FencedError, FencedResource};
use fencepost::stores::redlock::Redlock;
use fencepost::{
    Backend, DEFAULT_STORE_TIMEOUT, Effect, ErrorKind, Locker, LostReason, ReleaseOutcome,
};
use fencepost_rig::Signal;

use crate::support::{
    LONG, NAME, Servers, assert_error, assert_kind, eventually, locker, now, patient, run, soon,
};

/// Two of three servers are gone. Every request fails promptly, with what each server said.
pub(crate) fn lost() {
    run(async {
        let mut servers = Servers::start();
        let store = patient(&servers.address()).max_outage(Duration::from_millis(300));
        let store = Arc::new(store.open().await.unwrap());
        let ttl = Duration::from_secs(2);
        let holder = Locker::builder(store.clone()).ttl(ttl).without_hand_over();
        let locker = holder
            .store_timeout(Duration::from_secs(1))
            .build()
            .unwrap();
        let held = locker.acquire("held").await.unwrap();
        let released = locker.acquire("released").await.unwrap();
        let blocked = locker.acquire(NAME).await.unwrap();
        let wait = Arc::new(fencepost::backend::Wait::default());
        let waiting = tokio::spawn({
            let (store, wait, claim) = (store.clone(), wait.clone(), crate::support::claim(LONG));
            async move { store.acquire(&claim, &wait).await }
        });
        eventually("it waits", async || wait.was_busy()).await;
        servers.0[0].crash();
        servers.0[2].crash();

        let error = soon("an error", patient(&servers.address()).open())
            .await
            .unwrap_err();
        assert_kind(
            &error,
            ErrorKind::Unavailable,
            "2 of 3 servers cannot be asked, and 2 must agree",
        );
        assert!(
            error
                .to_string()
                .contains(&servers.0[2].address().to_string()),
            "{error}"
        );
        let error = soon("an error", locker.try_acquire("other"))
            .await
            .unwrap_err();
        assert_kind(&error, ErrorKind::Unavailable, "2 must agree");
        let error = soon("an error", locker.acquire_within("other", LONG))
            .await
            .unwrap_err();
        assert_kind(&error, ErrorKind::Unavailable, "nothing listens there");
        let error = soon("an error", store.inspect(&NAME.try_into().unwrap()))
            .await
            .unwrap_err();
        assert_kind(&error, ErrorKind::Unavailable, "2 must agree");
        let outcome = soon("an outcome", released.release()).await;
        assert!(matches!(outcome, ReleaseOutcome::Unknown(_)), "{outcome:?}");
        let lost = soon("the loss", held.lost()).await;
        assert_eq!(lost.reason(), LostReason::Expired);
        let error = soon("the waiter", waiting).await.unwrap().unwrap_err();
        // It has waited, so something of it may be left.
        assert_error(
            &error,
            ErrorKind::Unavailable,
            Effect::Maybe,
            "2 must agree",
        );
        drop(blocked);

        // When the servers are back, the locks work again.
        servers.0[0].restart().unwrap();
        let guard = soon("a lock", locker.acquire("other")).await.unwrap();
        drop(guard);
        locker.shutdown().await;
    });
}

/// Two of three servers never answer. The error arrives within the timeout of one server, not of the caller.
pub(crate) fn silent() {
    run(async {
        let servers = Servers::start();
        let store = servers.store().await;
        let locker = locker(&store, LONG);
        drop(locker.acquire(NAME).await.unwrap());
        for at in [1, 2] {
            servers.0[at].signal(Signal::SIGSTOP).unwrap();
        }
        for _ in 0..3 {
            let started = Instant::now();
            let error = soon("an error", locker.acquire(NAME)).await.unwrap_err();
            assert_error(
                &error,
                ErrorKind::Unavailable,
                Effect::Maybe,
                "no answer in time",
            );
            assert!(
                started.elapsed() < DEFAULT_STORE_TIMEOUT,
                "{:?}",
                started.elapsed()
            );
        }
        for at in [1, 2] {
            servers.0[at].signal(Signal::SIGCONT).unwrap();
        }
        let guard = loop {
            // Connections are opened again.
            match locker.acquire(NAME).await {
                Ok(guard) => break guard,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        };
        drop(guard);
        locker.shutdown().await;
        servers.are_clean().await;
    });
}

/// Returns a locker that does not renew. Extensions would detect what happened, or restore the lock where it was lost.
fn unrenewed(store: Arc<Redlock>, ttl: Duration) -> Locker {
    let builder = Locker::builder(store).ttl(ttl).keep_alive(false);
    builder.without_hand_over().build().unwrap()
}

/// The documented violation: of the two servers that had the key, one comes back empty. Two clients then hold the lock. The
/// second has the larger fence, so a resource accepts only that one, and the first is notified.
pub(crate) fn one_restarted_empty_under_a_bare_majority() {
    run(async {
        let ttl = Duration::from_secs(6);
        let mut servers = Servers::start();
        let (mine, other) = (servers.store().await, servers.store().await);
        // A locker that is not notified of what happens to the servers.
        let (mine, other) = (unrenewed(mine, ttl), locker(&other, ttl));
        servers.0[2].crash();
        let first = soon("a lock", mine.acquire(NAME)).await.unwrap();
        assert!(!first.valid_for().is_zero());
        servers.0[2].restart().unwrap();
        servers.0[1].restart().unwrap();
        let second = soon("the second lock", other.acquire(NAME)).await.unwrap();
        assert!(
            !first.is_lost(),
            "two hold it, which is what this test is about"
        );
        assert!(
            second.fence() > first.fence(),
            "{} {}",
            second.fence(),
            first.fence()
        );

        let stock = FencedCell::new(1);
        stock.write(second.credential(), 0).unwrap();
        let refused = stock.write(first.credential(), 5).unwrap_err();
        assert!(matches!(refused, FencedError::Refused(_)), "{refused}");
        let error = soon("the first is told", first.extend(2 * ttl)).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Lost);
        assert!(!second.is_lost());
        assert!(second.release().await.is_released());
    });
}

/// The same if a server that was just started does not vote. Nobody gets the lock before the first holder has stopped believing
/// in it.
pub(crate) fn a_server_without_a_memory_does_not_vote() {
    run(async {
        let ttl = Duration::from_secs(2);
        let mut servers = Servers::start();
        let mine = unrenewed(servers.patient_store().await, ttl);
        servers.0[2].crash();
        let first = soon("a lock", mine.acquire(NAME)).await.unwrap();
        servers.0[2].restart().unwrap();
        servers.0[1].restart().unwrap();
        let careful = patient(&servers.address()).restart_delay(ttl * 2);
        let careful = locker(&Arc::new(careful.open().await.unwrap()), ttl);
        let error = careful.try_acquire(NAME).await.unwrap_err();
        assert_kind(&error, ErrorKind::Unavailable, "does not vote yet");
        let lost_at = tokio::spawn(async move {
            first.lost().await;
            now()
        });
        let second = loop {
            match careful.try_acquire(NAME).await {
                Ok(Some(guard)) => break guard,
                Ok(None) => {}
                Err(error) => assert_kind(&error, ErrorKind::Unavailable, "does not vote yet"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let granted_at = now();
        let lost_at = soon("the loss", lost_at).await.unwrap();
        assert!(lost_at < granted_at, "two held it");
        drop(second);
        careful.shutdown().await;
    });
}

/// Servers report their age in whole seconds of the time of day. If they start shortly before the next second, they must not
/// count as a second older.
pub(crate) fn a_young_server_does_not_vote_too_early() {
    run(async {
        let delay = Duration::from_secs(2);
        let is_late_in_the_second = || {
            let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            time.unwrap().subsec_millis() >= 800
        };
        eventually("the second is almost over", async || {
            is_late_in_the_second()
        })
        .await;
        let started = Instant::now();
        let servers = Servers::start();
        let careful = patient(&servers.address()).restart_delay(delay);
        let careful = locker(&Arc::new(careful.open().await.unwrap()), delay);
        let granted = async {
            loop {
                match careful.try_acquire(NAME).await {
                    Ok(Some(guard)) => break guard,
                    // The release of the previous attempt is under way.
                    Ok(None) => {}
                    Err(error) => assert_kind(&error, ErrorKind::Unavailable, "does not vote yet"),
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let guard = soon("they vote", granted).await;
        let age = started.elapsed();
        assert!(age >= delay, "they voted {age:?} after their start");
        drop(guard);
        careful.shutdown().await;
    });
}
