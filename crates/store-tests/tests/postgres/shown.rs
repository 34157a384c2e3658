//! What `inspect` and `list` show of locks that share a session, whose comment and `application_name` name only some of them.

use std::sync::Arc;

use fencepost::stores::postgres::Postgres;
use fencepost::{Backend, Claim};

use crate::support::{LONG, SOON, Server, claim, run};

/// A lock that is held, with the epoch of its grant.
type Held = (Claim, u64);

/// Takes locks through a store with two sessions.
async fn share(server: &Server, count: usize) -> (Arc<Postgres>, Vec<Held>) {
    let store = Postgres::builder(&server.0.url()).max_connections(2);
    let store = store.connect_timeout(SOON / 2).open().await.unwrap();
    let mut held = Vec::new();
    for at in 0..count {
        let claim = claim(&format!("lock {at}"), LONG);
        let grant = store.try_acquire(&claim).await.unwrap().unwrap();
        held.push((claim, grant.epoch));
    }
    (Arc::new(store), held)
}

/// Asserts that no lock is shown with the owner or the epoch of another one, and that all are listed. Returns how many owners are shown.
async fn known(looking: &dyn Backend, held: &[Held]) -> usize {
    let mut known = 0;
    for (claim, epoch) in held {
        let record = looking.inspect(&claim.name).await.unwrap().unwrap();
        let holder = record.holder.unwrap();
        let (owner, shown) = (holder.owner, holder.epoch);
        assert!(owner.is_none_or(|owner| owner == claim.owner), "{claim:?}");
        assert!(shown.is_none_or(|shown| shown == *epoch), "{claim:?}");
        assert_eq!(owner.is_some(), shown.is_some(), "{claim:?}");
        known += usize::from(owner.is_some());
        let is_nobody_elses = held
            .iter()
            .all(|(other, _)| !holder.label.contains(&other.owner.to_string()) || other == claim);
        assert!(is_nobody_elses, "{}", holder.label);
    }
    let listed = looking.list(None).await.unwrap();
    assert_eq!(listed.len(), held.len(), "{listed:?}");
    known
}

/// A session has room to publish about eight locks. The ninth is shown without owner and epoch, and not with those of the lock
/// that was granted last, even after that one was released.
pub(crate) fn locks_without_room() {
    run(async {
        let server = Server::start();
        let (store, mut held) = share(&server, 30).await;
        let looking = server.store().await;
        let before = known(&*looking, &held).await;
        assert!((2..30).contains(&before), "{before} of 30");
        for _ in 0..2 {
            let (newest, _) = held.pop().unwrap();
            store.release(&newest).await.unwrap();
        }
        let after = known(&*looking, &held).await;
        assert!((2..28).contains(&after), "{after} of 28");
    });
}

/// Another role cannot read what a session publishes, only the owner and the epoch in `application_name`, which may be about any of the
/// session's locks.
pub(crate) fn locks_of_another_role() {
    run(async {
        let server = Server::start();
        server.eyes().await.text("create role shop login").await;
        let (store, mut held) = share(&server, 4).await;
        let looking = Postgres::builder(&server.url_of("shop"));
        let looking = looking.open_to_release().await.unwrap();
        assert_eq!(known(&looking, &held).await, 0, "two in each session");
        for left in [3, 2] {
            let (newest, _) = held.pop().unwrap();
            store.release(&newest).await.unwrap();
            assert_eq!(held.len(), left);
            known(&looking, &held).await;
        }
        assert_eq!(known(&looking, &held).await, 2, "alone in their sessions");
    });
}
