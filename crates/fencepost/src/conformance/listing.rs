//! Requirements on `list`: it finds exactly the locks that are held or wanted.

use super::{
    ALWAYS, FIFO, LABEL, LEASES, LONG, SHORT, StoreUnderTest, claim, eventually, fresh_name,
    granted, table,
};
use crate::backend::{Listed, Wait};
use crate::claim::{Claim, LockName};

table! {
    list_shows_what_is_held: ALWAYS,
    list_shows_what_is_wanted: FIFO,
    list_knows_patterns: ALWAYS,
    list_forgets_what_is_released: ALWAYS,
    list_forgets_what_has_expired: LEASES,
}

/// Returns what the store lists under this name. Tests share a store, so the store may list other names, too.
async fn listed(store: &StoreUnderTest, pattern: Option<&str>, name: &LockName) -> Option<Listed> {
    let all = store.other.list(pattern).await.expect("an answer");
    let mut found = all.into_iter().filter(|lock| lock.name == name.as_str());
    let first = found.next();
    assert_eq!(found.next(), None, "each name once");
    first
}

async fn list_shows_what_is_held(store: StoreUnderTest) {
    let claims = [(); 3].map(|()| claim(&fresh_name("listed"), LONG));
    for claim in &claims {
        let epoch = granted(&store.one, claim).await.epoch;
        let lock = listed(&store, None, &claim.name).await.expect("listed");
        let holder = lock.record.holder.expect("a holder");
        assert_eq!(
            (holder.owner, holder.epoch),
            (Some(claim.owner), Some(epoch))
        );
        assert_eq!(&*holder.label, LABEL);
        assert!(lock.record.waiting.is_empty());
    }
    for claim in &claims {
        assert!(listed(&store, None, &claim.name).await.is_some());
        store.one.release(claim).await.expect("an answer");
    }
}

async fn list_shows_what_is_wanted(store: StoreUnderTest) {
    let name = fresh_name("wanted");
    let (holder, waiter) = (claim(&name, LONG), claim(&name, LONG));
    let waiter = Claim {
        label: "ci-7:2210".into(),
        ..waiter
    };
    granted(&store.one, &holder).await;
    let task = {
        let (backend, waiter) = (store.one.clone(), waiter.clone());
        tokio::spawn(async move { backend.acquire(&waiter, &Wait::default()).await })
    };
    eventually("it is listed as waiting", || async {
        let lock = listed(&store, None, &name).await.expect("listed");
        lock.record.holder.is_some()
            && lock.record.waiting.len() == 1
            && &*lock.record.waiting[0].label == "ci-7:2210"
    })
    .await;
    task.abort();
    assert!(task.await.is_err());
    store.one.release(&waiter).await.expect("an answer");
    let lock = listed(&store, None, &name).await.expect("still held");
    assert!(lock.record.waiting.is_empty());
    store.one.release(&holder).await.expect("an answer");
}

async fn list_knows_patterns(store: StoreUnderTest) {
    // The name contains characters that have a meaning in a pattern.
    let plain = fresh_name("pattern");
    let odd = LockName::new(&format!("{plain}:[*?]\\")).expect("a valid name");
    let claims = [claim(&plain, LONG), claim(&odd, LONG)];
    for claim in &claims {
        granted(&store.one, claim).await;
    }
    let names = async |pattern: String| {
        let all = store.one.list(Some(&pattern)).await.expect("an answer");
        let mut names: Vec<String> = all.into_iter().map(|lock| lock.name).collect();
        names.sort();
        names
    };
    let both = [plain.to_string(), odd.to_string()];
    for (pattern, matching) in [
        (format!("{plain}*"), &both[..]),
        (plain.to_string(), &both[..1]),
        (format!("{plain}:\\[\\*\\?\\]\\\\"), &both[1..]),
        (format!("{plain}:[[][*][?][\\]]?"), &both[1..]),
        (format!("{plain}:[^[]*"), &both[1..1]),
    ] {
        let listed = names(pattern.clone()).await;
        assert_eq!(listed, matching, "the names that match {pattern}");
    }
    for claim in &claims {
        store.one.release(claim).await.expect("an answer");
    }
}

async fn list_forgets_what_is_released(store: StoreUnderTest) {
    let claim = claim(&fresh_name("no-more"), LONG);
    granted(&store.one, &claim).await;
    assert!(listed(&store, None, &claim.name).await.is_some());
    store.one.release(&claim).await.expect("an answer");
    for pattern in [None, Some("*")] {
        let listed = listed(&store, pattern, &claim.name).await;
        assert_eq!(listed, None, "a released lock is not listed");
    }
}

async fn list_forgets_what_has_expired(store: StoreUnderTest) {
    let claim = claim(&fresh_name("ended"), SHORT);
    granted(&store.one, &claim).await;
    eventually("the lease is over", || async {
        listed(&store, None, &claim.name).await.is_none()
    })
    .await;
}
