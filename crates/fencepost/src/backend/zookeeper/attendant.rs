//! Ends what nobody renews: one task per session, for as long as the session lives.
//!
//! A node lives as long as its session, so a lease would outlast its TTL if nobody took the node away, and the place of a dropped
//! request would hold up those behind it for ever.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;

use super::folders;
use super::link::Link;
use super::place::{Known, Place};
use super::requests::remove_all;
use crate::clock::{BootClock, Clock, Moment};

/// Runs until the session is over or nobody uses it.
pub(super) async fn attend(link: Arc<Link>) {
    let on_duty = OnDuty(link);
    let link = &on_duty.0;
    let mut state = link.client.state_watcher();
    while !link.is_down() {
        let now = BootClock.now();
        let due: Vec<_> = link
            .places()
            .into_iter()
            .filter(|place| place.end_by(now))
            .collect();
        if !due.is_empty() {
            join_all(due.iter().map(|place| end(link, place))).await;
            continue;
        }
        if link.folders.idle_at() <= now {
            folders::tidy(link, now).await;
            continue;
        }
        let next = next_look(link);
        link.next_look.store(next.as_nanos(), Ordering::SeqCst);
        // Somebody may have come between the look and the line above, and not have rung.
        if next_look(link) < next {
            continue;
        }
        tokio::select! {
            () = link.bell.notified() => {}
            _ = state.changed() => {}
            () = BootClock.sleep_until(next) => {}
        }
    }
}

fn next_look(link: &Link) -> Moment {
    let ends = link.places().into_iter().map(|place| place.ends_at());
    ends.min()
        .unwrap_or(Moment::FAR)
        .min(link.folders.idle_at())
}

/// Removes the node of a place, however long that takes: what the session cannot do any more, the server does when it ends.
async fn end(link: &Link, place: &Arc<Place>) {
    if place.known() != Known::Nothing {
        tracing::debug!(folder = place.folder, owner = %place.owner, "nobody renews this, or comes back for it");
        while let Err(error) = remove_all(link, place).await {
            if link.is_down() {
                break;
            }
            tracing::debug!(%error, "not removed yet");
        }
    }
    link.forget(place);
}

/// When the attendant is gone, also because its runtime is, the session is of no use: nothing would end in it.
struct OnDuty(Arc<Link>);

impl Drop for OnDuty {
    fn drop(&mut self) {
        let link = &self.0;
        link.dismiss();
        link.places().iter().for_each(|place| place.set_gone());
    }
}
