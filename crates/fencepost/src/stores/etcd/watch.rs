//! Waiting for the one before us to go.
//!
//! We watch from now on and look once more when the watch has begun, so that nothing that happened in between is missed. To watch from the
//! revision of the last look would need no second look; but where anybody has written since, etcd serves such a watch
//! only every 100 ms, with all others that begin in the past.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{EventType, GetOptions, WatchFilterType, WatchOptions, WatchStream};

use super::failure;
use super::hub::{Hub, Link, SILENCE};
use super::line::Other;
use super::loan;
use crate::claim::Claim;
use crate::clock::{BootClock, Clock, within};
use crate::error::{Effect, Operation, Result};

/// A place in line.
#[derive(Debug)]
pub(super) struct Behind {
    /// Who is just before us.
    pub(super) other: Other,
    /// The lease that keeps our place.
    pub(super) lease: i64,
    pub(super) lease_ttl: Duration,
}

/// Completes when the key before ours is gone, or when it must be looked where we stand: our lease has ended, the connection broke.
/// Keeps our place meanwhile.
///
/// # Errors
/// The store's, when it cannot be watched.
///
/// # Cancel safety
/// When dropped, nobody keeps our place: it is lost when its lease ends.
pub(super) async fn until_gone(hub: &Arc<Hub>, claim: &Claim, behind: &Behind) -> Result<()> {
    let link = hub.link(Operation::Acquire).await?;
    let mut events = watch(hub, &link, &behind.other.key).await?;
    if !is_there(hub, &behind.other).await? {
        return Ok(());
    }
    let gone = until_deleted(&mut events);
    tokio::select! {
        biased;
        is_alive = gone => {
            if !is_alive {
                hub.give_up(&link);
            }
            Ok(())
        }
        () = link.until_given_up() => Ok(()),
        lost = keep_place(hub, claim, behind) => lost,
    }
}

/// Returns when the watch for the end of this key has begun.
async fn watch(hub: &Hub, link: &Arc<Link>, key: &[u8]) -> Result<WatchStream> {
    let options = WatchOptions::new().with_filters([WatchFilterType::NoPut]);
    let mut client = link.client.clone();
    let begun = async {
        let mut events = client.watch(key, Some(options)).await?;
        // The first message says that it has begun, or that it is refused: then the next one is the end.
        events.message().await?;
        Ok(events)
    };
    let begun = within(&BootClock, BootClock.now() + SILENCE, begun).await;
    match begun {
        Some(Ok(events)) => Ok(events),
        Some(Err(cause)) => {
            if failure::ends_link(&cause) {
                hub.give_up(link);
            }
            Err(failure::of_request(Operation::Acquire, cause))
        }
        None => {
            hub.give_up(link);
            Err(failure::unanswered(Operation::Acquire))
        }
    }
}

/// Whether it still stands where it stood, as the majority knows it. A key of the same name that was made since stands behind us.
async fn is_there(hub: &Hub, other: &Other) -> Result<bool> {
    let asked = hub.ask(Operation::Acquire, SILENCE, |mut client| async move {
        let options = GetOptions::new().with_keys_only();
        client.get(&*other.key, Some(options)).await
    });
    let answer = asked.await;
    // Looking changes nothing.
    let answer = answer.map_err(|failed| {
        let error = failed.into_error(Operation::Acquire);
        error.with_effect(Effect::None)
    })?;
    let found = answer.kvs().first();
    Ok(found.is_some_and(|kv| kv.create_revision() == other.since))
}

/// Whether the connection is still of use: `false` when the stream of events has ended for another reason than ours.
async fn until_deleted(events: &mut WatchStream) -> bool {
    while let Ok(Some(news)) = events.message().await {
        let mut kinds = news.events().iter().map(etcd_client::Event::event_type);
        // Cancelled: what has happened since the revision was compacted away.
        if news.canceled() || kinds.any(|kind| kind == EventType::Delete) {
            return true;
        }
    }
    false
}

/// Keeps the lease of one who waits alive. Completes when it has ended.
async fn keep_place(hub: &Hub, claim: &Claim, behind: &Behind) -> Result<()> {
    let silence = hub.silence_for(claim.ttl.min(behind.lease_ttl));
    loop {
        BootClock
            .sleep_until(BootClock.now() + behind.lease_ttl / 3)
            .await;
        let kept = loan::keep_alive(hub, Operation::Acquire, behind.lease, silence).await?;
        if kept.is_none() {
            return Ok(());
        }
    }
}
