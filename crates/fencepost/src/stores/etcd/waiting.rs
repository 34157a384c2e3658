//! Waits until the key ahead of ours is gone.
//!
//! We watch from now on, and read once more after the watch has begun, so that no event in between is missed. Watching from the revision of
//! the last read would need no second read. But if anybody has written since then, etcd serves such a watch only every 100 ms, together
//! with all others that begin in the past.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{EventType, GetOptions, WatchFilterType, WatchOptions, WatchStream};

use super::failure;
use super::hub::{ANSWER_TIMEOUT, Connection, Hub};
use super::leases;
use super::line::OtherKey;
use crate::claim::Claim;
use crate::clock::{BootClock, Clock, within};
use crate::error::{Effect, Operation, Result};

/// A place in line.
#[derive(Debug)]
pub(super) struct Behind {
    /// The key just ahead of ours.
    pub(super) other: OtherKey,
    /// The lease that keeps our place.
    pub(super) lease: i64,
    pub(super) lease_ttl: Duration,
}

/// Completes when the key ahead of ours is gone, or when our place must be checked because our lease has ended or the connection broke.
/// Keeps our place in the meantime.
///
/// # Errors
/// Returns an error if the store cannot be watched.
///
/// # Cancel safety
/// If the future is dropped, nobody keeps our place: it is lost when its lease ends.
pub(super) async fn until_gone(hub: &Arc<Hub>, claim: &Claim, behind: &Behind) -> Result<()> {
    let connection = hub.connection(Operation::Acquire).await?;
    let deletions = WatchOptions::new().with_filters([WatchFilterType::NoPut]);
    let key = &behind.other.key;
    let mut events = watch(hub, &connection, key, deletions, Operation::Acquire).await?;
    if !is_there(hub, &behind.other).await? {
        return Ok(());
    }
    let gone = until_deleted(&mut events);
    tokio::select! {
        biased;
        is_alive = gone => {
            if !is_alive {
                hub.give_up(&connection);
            }
            Ok(())
        }
        () = connection.until_given_up() => Ok(()),
        lost = keep_place(hub, claim, behind) => lost,
    }
}

/// Returns when the watch of this key has begun.
pub(super) async fn watch(
    hub: &Hub,
    connection: &Arc<Connection>,
    key: &[u8],
    options: WatchOptions,
    operation: Operation,
) -> Result<WatchStream> {
    let mut client = connection.client.clone();
    let begun = async {
        let mut events = client.watch(key, Some(options)).await?;
        // The first message says that the watch has begun, or that it is refused; in that case the next message is the end.
        events.message().await?;
        Ok(events)
    };
    let begun = within(&BootClock, BootClock.now() + ANSWER_TIMEOUT, begun).await;
    match begun {
        Some(Ok(events)) => Ok(events),
        Some(Err(cause)) => {
            if failure::ends_connection(&cause) {
                hub.give_up(connection);
            }
            Err(failure::of_request(operation, cause))
        }
        None => {
            hub.give_up(connection);
            Err(failure::unanswered(operation))
        }
    }
}

/// Returns whether the majority still has the key at its place. A key of the same name that was created since then is behind us.
async fn is_there(hub: &Hub, other: &OtherKey) -> Result<bool> {
    let asked = hub.ask(
        Operation::Acquire,
        ANSWER_TIMEOUT,
        |mut client| async move {
            let options = GetOptions::new().with_keys_only();
            client.get(&*other.key, Some(options)).await
        },
    );
    let answer = asked.await;
    // Reading changes nothing.
    let answer = answer.map_err(|failed| {
        let error = failed.into_error(Operation::Acquire);
        error.with_effect(Effect::None)
    })?;
    let found = answer.kvs().first();
    Ok(found.is_some_and(|kv| kv.create_revision() == other.since))
}

/// Waits for the deletion. Returns whether the connection still works: `false` if the stream has ended for another reason.
async fn until_deleted(events: &mut WatchStream) -> bool {
    while let Ok(Some(news)) = events.message().await {
        let mut kinds = news.events().iter().map(etcd_client::Event::event_type);
        // The watch is cancelled if the events since its revision were compacted away.
        if news.canceled() || kinds.any(|kind| kind == EventType::Delete) {
            return true;
        }
    }
    false
}

/// Keeps the waiter's lease alive. Completes when the lease has ended.
async fn keep_place(hub: &Hub, claim: &Claim, behind: &Behind) -> Result<()> {
    let silence = hub.silence_for(claim.ttl.min(behind.lease_ttl));
    loop {
        BootClock
            .sleep_until(BootClock.now() + behind.lease_ttl / 3)
            .await;
        let kept = leases::keep_alive(hub, Operation::Acquire, behind.lease, silence).await?;
        if kept.is_none() {
            return Ok(());
        }
    }
}
