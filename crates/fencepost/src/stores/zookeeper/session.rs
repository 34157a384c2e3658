//! One session at the server: the client that keeps it alive, and the places that exist through it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use zookeeper_client::{Acls, Client, OneshotWatcher};

use super::failure;
use super::folders::Folders;
use super::keys::{Contender, folder_of, line, prefix_of};
use super::place::Place;
use crate::backend::LossBell;
use crate::claim::{Claim, LockName, OwnerId};
use crate::clock::Moment;
use crate::error::{Operation, Result};
use crate::lease::lock;

pub(super) struct Session {
    pub(super) client: Client,
    /// After so much silence the server ends the session.
    pub(super) timeout: Duration,
    /// The node below which the locks are.
    pub(super) base: Arc<str>,
    /// Who may touch our nodes.
    pub(super) acls: Acls<'static>,
    pub(super) folders: Folders,
    places: Mutex<HashMap<OwnerId, Arc<Place>>>,
    /// Where the client's own task runs.
    runtime: Handle,
    /// Nobody uses it any more, or the runtime it lived in has ended.
    dismissed: AtomicBool,
    /// Wakes the attendant.
    pub(super) bell: Notify,
    /// Rung when the session has ended, or a node that is held has gone.
    pub(super) losses: Arc<LossBell>,
    /// Nanoseconds of the [`Moment`] at which the attendant looks next.
    pub(super) next_look: AtomicU64,
}

impl Session {
    pub(super) fn new(
        client: Client,
        base: Arc<str>,
        acls: Acls<'static>,
        losses: Arc<LossBell>,
    ) -> Self {
        Self {
            timeout: client.session_timeout(),
            client,
            base,
            acls,
            folders: Folders::default(),
            places: Mutex::default(),
            runtime: Handle::current(),
            dismissed: AtomicBool::new(false),
            bell: Notify::new(),
            losses,
            next_look: AtomicU64::new(0),
        }
    }

    /// The session has ended, or there is nobody to keep it.
    pub(super) fn is_down(&self) -> bool {
        self.dismissed.load(Ordering::Acquire) || self.client.state().is_terminated()
    }

    /// Lets go of the session: its attendant ends, and when the last request is done, the client closes it.
    pub(super) fn dismiss(&self) {
        self.dismissed.store(true, Ordering::Release);
        self.bell.notify_one();
    }

    pub(super) fn folder(&self, name: &LockName) -> String {
        folder_of(&self.base, name)
    }

    /// A lease that is to last for longer than the server keeps a silent session could not be kept.
    pub(super) fn check_ttl(&self, operation: Operation, ttl: Duration) -> Result<()> {
        match ttl <= self.timeout {
            true => Ok(()),
            false => Err(failure::ttl_too_long(operation, ttl, self.timeout)),
        }
    }

    /// Takes up the owner's place, or opens one.
    pub(super) async fn sit(self: &Arc<Self>, claim: &Claim) -> Seat {
        loop {
            let place = {
                let mut places = lock(&self.places);
                let place = places
                    .entry(claim.owner)
                    .or_insert_with(|| Arc::new(Place::new(claim, self.folder(&claim.name))));
                place.clone()
            };
            if place.attend() {
                return self.seat(place);
            }
            place.until_gone().await;
        }
    }

    /// Takes up the owner's place if it has one.
    pub(super) fn sit_again(self: &Arc<Self>, owner: OwnerId) -> Option<Seat> {
        let place = self.place(owner)?;
        place.attend().then(|| self.seat(place))
    }

    fn seat(self: &Arc<Self>, place: Arc<Place>) -> Seat {
        Seat {
            session: self.clone(),
            place,
        }
    }

    pub(super) fn place(&self, owner: OwnerId) -> Option<Arc<Place>> {
        lock(&self.places).get(&owner).cloned()
    }

    pub(super) fn places(&self) -> Vec<Arc<Place>> {
        lock(&self.places).values().cloned().collect()
    }

    /// Nothing is left of this place.
    pub(super) fn forget(&self, place: &Arc<Place>) {
        {
            let mut places = lock(&self.places);
            let is_same = places
                .get(&place.owner)
                .is_some_and(|found| Arc::ptr_eq(found, place));
            if is_same {
                places.remove(&place.owner);
            }
        }
        place.set_gone();
        self.folders.used(&place.folder);
    }

    /// Those in line below `folder`, the first one first. Nobody, when there is no such folder.
    ///
    /// The request leaves now; what was sent over this session before takes effect before it.
    pub(super) fn line<'a>(
        &'a self,
        folder: &'a str,
    ) -> impl Future<Output = std::result::Result<Vec<Contender>, zookeeper_client::Error>> + 'a
    {
        let children = self.client.list_children(folder);
        async move {
            match children.await {
                Ok(children) => Ok(line(children)),
                Err(zookeeper_client::Error::NoNode) => Ok(Vec::new()),
                Err(cause) => Err(cause),
            }
        }
    }

    /// The error for a failed request: what the client says of a session that is over need not be the reason.
    pub(super) fn failed(
        &self,
        operation: Operation,
        cause: zookeeper_client::Error,
    ) -> crate::Error {
        match self.is_down() && self.client.state() != zookeeper_client::SessionState::AuthFailed {
            true => failure::session_ended(operation),
            false => failure::of_request(operation, cause),
        }
    }

    /// Makes the attendant look by `moment`, if it would not anyway.
    pub(super) fn look_by(&self, moment: Moment) {
        if moment.as_nanos() < self.next_look.load(Ordering::SeqCst) {
            self.bell.notify_one();
        }
    }

    /// Completes when what is watched has changed, or the session is over.
    ///
    /// Waits in a task of the client's own runtime: if that ends, this completes as well, where the client itself would panic.
    pub(super) async fn changed(&self, watcher: OneshotWatcher) {
        struct Watching(tokio::task::JoinHandle<()>);
        impl Drop for Watching {
            fn drop(&mut self) {
                self.0.abort();
            }
        }
        let task = self.runtime.spawn(async move {
            watcher.changed().await;
        });
        let mut watching = Watching(task);
        // Cut off, it has nothing more to tell than that it is worth looking.
        let _ended = (&mut watching.0).await;
    }
}

/// A request at work for an owner. Dropping it leaves the place to the attendant's patience.
pub(super) struct Seat {
    pub(super) session: Arc<Session>,
    pub(super) place: Arc<Place>,
}

impl Seat {
    /// The path of the owner's node, up to its sequence number.
    pub(super) fn prefix(&self) -> String {
        format!("{}/{}", self.place.folder, prefix_of(self.place.owner))
    }

    /// The path of a node in this lock's line.
    pub(super) fn path(&self, node: &str) -> String {
        format!("{}/{node}", self.place.folder)
    }

    /// Nothing is left of the place.
    pub(super) fn vacate(&self) {
        self.session.forget(&self.place);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.place.leave();
        self.session.look_by(self.place.ends_at());
    }
}
