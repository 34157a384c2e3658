//! Watches the node of a lock that is held, so that its holder learns before the next renewal that somebody has deleted it.

use std::sync::Arc;

use super::owners::Owner;
use super::session::Session;

/// Runs until the lock is not held any more, or the session is over.
pub(super) async fn keep(session: &Session, owner: Arc<Owner>) {
    while let Some((node, _)) = owner.held_node() {
        let path = format!("{}/{}", owner.folder, node.name);
        // A failure means that the connection broke, which the session may survive.
        let Ok((stat, watcher)) = session.client.check_and_watch_stat(&path).await else {
            return owner.watch_later();
        };
        if stat.is_none() {
            return session.loss_bell.ring(&[owner.id]);
        }
        // This also completes when the node was written to.
        session.changed(watcher).await;
    }
}
