//! Watching over a lock that is held, so that its holder hears before the next renewal that somebody has deleted the node.

use std::sync::Arc;

use super::link::Link;
use super::place::Place;

/// Runs until the lock is not held any more, or the session is over.
pub(super) async fn keep(link: &Link, place: Arc<Place>) {
    while let Some((node, _)) = place.held_node() {
        let path = format!("{}/{}", place.folder, node.name);
        // A failure says that the connection broke, which the session may survive.
        let Ok((stat, watcher)) = link.client.check_and_watch_stat(&path).await else {
            return place.watch_later();
        };
        if stat.is_none() {
            return link.losses.ring(&[place.owner]);
        }
        // Also when it was written to.
        link.changed(watcher).await;
    }
}
