//! One session at the server: the client that keeps it alive, and the owners that use it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use zookeeper_client::{Acls, Client, CreateOptions, Error as Cause, OneshotWatcher};

use super::failure;
use super::folders::Folders;
use super::keys::{Contender, Form, folder_of, line, prefix_of};
use super::owners::Owner;
use crate::backend::LossBell;
use crate::claim::{Claim, LockName, OwnerId};
use crate::clock::Moment;
use crate::error::{Operation, Result};
use crate::mutex::lock;

pub(super) struct Session {
    pub(super) client: Client,
    /// After how much silence the server ends the session.
    pub(super) timeout: Duration,
    /// The node below which the locks are.
    pub(super) base: Arc<str>,
    /// The form of the nodes of candidates in an election.
    pub(super) candidates: Form,
    /// Who can access our nodes.
    pub(super) acls: Acls<'static>,
    pub(super) folders: Folders,
    owners: Mutex<HashMap<OwnerId, Arc<Owner>>>,
    /// The runtime of the client's own task.
    runtime: Handle,
    /// Whether nobody uses the session any more, or its runtime has ended.
    dismissed: AtomicBool,
    /// Wakes the expiry task.
    pub(super) wake: Notify,
    /// Rings when the session has ended, or when a node that is held is gone.
    pub(super) loss_bell: Arc<LossBell>,
    /// Nanoseconds of the [`Moment`] at which the expiry task checks next.
    pub(super) next_look: AtomicU64,
}

impl Session {
    pub(super) fn new(
        client: Client,
        (base, candidates): (Arc<str>, Form),
        acls: Acls<'static>,
        loss_bell: Arc<LossBell>,
    ) -> Self {
        Self {
            timeout: client.session_timeout(),
            client,
            base,
            candidates,
            acls,
            folders: Folders::default(),
            owners: Mutex::default(),
            runtime: Handle::current(),
            dismissed: AtomicBool::new(false),
            wake: Notify::new(),
            loss_bell,
            next_look: AtomicU64::new(0),
        }
    }

    /// Returns whether the session has ended, or there is nobody to keep it alive.
    pub(super) fn is_down(&self) -> bool {
        self.dismissed.load(Ordering::Acquire) || self.client.state().is_terminated()
    }

    /// Dismisses the session: its expiry task ends, and the client closes the session when the last request is done.
    pub(super) fn dismiss(&self) {
        self.dismissed.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(super) fn folder(&self, name: &LockName) -> String {
        folder_of(&self.base, name)
    }

    /// Returns an error if the lease would last longer than the server keeps a silent session, because it could not be kept.
    pub(super) fn check_ttl(&self, operation: Operation, ttl: Duration) -> Result<()> {
        if ttl <= self.timeout {
            Ok(())
        } else {
            Err(failure::ttl_too_long(operation, ttl, self.timeout))
        }
    }

    /// Begins a request for the owner of this claim. Waits until its former node is gone, if that is being removed.
    pub(super) async fn begin(self: &Arc<Self>, claim: &Claim) -> Request {
        loop {
            let owner = {
                let mut owners = lock(&self.owners);
                let owner = owners
                    .entry(claim.owner)
                    .or_insert_with(|| Arc::new(self.new_owner(claim)));
                owner.clone()
            };
            if owner.begin_request() {
                return self.request_of(owner);
            }
            owner.until_gone().await;
        }
    }

    fn new_owner(&self, claim: &Claim) -> Owner {
        let form = match claim.value {
            Some(_) => self.candidates,
            None => Form::Lock,
        };
        Owner::new(claim, self.folder(&claim.name), form)
    }

    /// Begins a request for an owner that is known, unless its node is being removed.
    pub(super) fn resume(self: &Arc<Self>, owner: OwnerId) -> Option<Request> {
        let owner = self.owner(owner)?;
        owner.begin_request().then(|| self.request_of(owner))
    }

    fn request_of(self: &Arc<Self>, owner: Arc<Owner>) -> Request {
        Request {
            session: self.clone(),
            owner,
        }
    }

    pub(super) fn owner(&self, owner: OwnerId) -> Option<Arc<Owner>> {
        lock(&self.owners).get(&owner).cloned()
    }

    pub(super) fn owners(&self) -> Vec<Arc<Owner>> {
        lock(&self.owners).values().cloned().collect()
    }

    /// Forgets this owner, because it has no node any more.
    pub(super) fn forget(&self, owner: &Arc<Owner>) {
        {
            let mut owners = lock(&self.owners);
            let is_same = owners
                .get(&owner.id)
                .is_some_and(|found| Arc::ptr_eq(found, owner));
            if is_same {
                owners.remove(&owner.id);
            }
        }
        owner.set_gone();
        self.folders.used(&owner.folder);
    }

    /// Returns the contenders below `folder`, the first one first, or nobody if the folder does not exist.
    ///
    /// The request is sent now. Requests that were sent over this session before take effect before it.
    pub(super) fn line<'a>(
        &'a self,
        folder: &'a str,
    ) -> impl Future<Output = std::result::Result<Vec<Contender>, Cause>> + 'a {
        let children = self.client.list_children(folder);
        async move {
            match children.await {
                Ok(children) => Ok(line(children)),
                Err(Cause::NoNode) => Ok(Vec::new()),
                Err(cause) => Err(cause),
            }
        }
    }

    /// Requests the creation of a folder. The request is sent now, so the next request finds the folder unless somebody deletes it very
    /// quickly.
    pub(super) fn make_folder<'a>(
        &'a self,
        folder: &'a str,
    ) -> impl Future<Output = std::result::Result<(), Cause>> + 'a {
        let made = self.client.create(folder, b"", &self.kind_of_folder());
        async move {
            match made.await {
                Ok(_) => self.folders.made(folder),
                Err(Cause::NodeExists) => {}
                Err(Cause::Unimplemented) => self.folders.no_containers(),
                Err(cause) => return Err(cause),
            }
            Ok(())
        }
    }

    /// Creates all missing nodes above a folder.
    pub(super) async fn make_base(&self) -> std::result::Result<(), Cause> {
        match self.client.mkdir(&self.base, &self.kind_of_folder()).await {
            Err(Cause::Unimplemented) => {
                self.folders.no_containers();
                Ok(())
            }
            made => made,
        }
    }

    fn kind_of_folder(&self) -> CreateOptions<'_> {
        self.folders.mode().with_acls(self.acls)
    }

    /// Returns an error unless the answer was lost and the session lives: the next request then waits for the connection.
    pub(super) fn retry_or_fail(&self, operation: Operation, cause: Cause) -> Result<()> {
        if failure::is_lost_answer(&cause) && !self.is_down() {
            Ok(())
        } else {
            Err(self.failed(operation, cause))
        }
    }

    /// Returns the error for a failed request. If the session is over, the client's error need not be the reason.
    pub(super) fn failed(&self, operation: Operation, cause: Cause) -> crate::Error {
        if self.is_down() && self.client.state() != zookeeper_client::SessionState::AuthFailed {
            failure::session_ended(operation)
        } else {
            failure::of_request(operation, cause)
        }
    }

    /// Makes the expiry task check at `moment` at the latest.
    pub(super) fn look_by(&self, moment: Moment) {
        if moment.as_nanos() < self.next_look.load(Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    /// Completes when the watched node has changed, or the session is over.
    ///
    /// Waits in a task of the client's own runtime. If that runtime ends, this completes as well, whereas the client itself would panic.
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
        // If the task was cut off, that only means that it is worth checking.
        let _ended = (&mut watching.0).await;
    }
}

/// A request in progress for an owner. If it is dropped, the expiry task removes the owner's node after a while.
pub(super) struct Request {
    pub(super) session: Arc<Session>,
    pub(super) owner: Arc<Owner>,
}

impl Request {
    /// Returns the path of the owner's node, up to its sequence number.
    pub(super) fn prefix(&self) -> String {
        let owner = &self.owner;
        format!("{}/{}", owner.folder, prefix_of(owner.id, owner.form))
    }

    /// Returns the path of a node in this lock's line.
    pub(super) fn path(&self, node: &str) -> String {
        format!("{}/{node}", self.owner.folder)
    }

    /// Records that the owner has no node any more.
    pub(super) fn vacate(&self) {
        self.session.forget(&self.owner);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.owner.end_request();
        self.session.look_by(self.owner.ends_at());
    }
}
