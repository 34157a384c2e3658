//! Writes into etcd that take effect only while a lock is held.
//!
//! Data in the same etcd cluster need no fence: the transaction that writes them can check whether the lock still exists.

use etcd_client::{Compare, Txn, TxnOp, TxnOpResponse};

use super::Etcd;
use super::failure;
use super::keys::Keys;
use super::line::held_condition;
use crate::claim::LockName;
use crate::credential::Credential;
use crate::error::{Operation, Result};

impl Etcd {
    /// Returns the condition that the lock `name` is still held with `credential`, for transactions of your own client.
    ///
    /// The condition is true as long as the key of exactly this hold exists. It is false after the lease has ended, even if the same
    /// process holds the lock again. Tasks that hand the lock to each other under one lease share the key: a task that has released the
    /// lock must not write.
    ///
    /// Name and credential come from a guard of a locker on this store: [`Guard`](crate::Guard), [`MultiGuard`](crate::MultiGuard), or
    /// their twins for blocking code. [`Compare`] is a type of the crate `etcd-client`: depend on version 0.21 of it, the version that this
    /// crate uses.
    ///
    /// ```no_run
    /// # async fn example(store: std::sync::Arc<fencepost::stores::etcd::Etcd>) -> Result<(), Box<dyn std::error::Error>> {
    /// use etcd_client::{Client, Txn, TxnOp};
    ///
    /// let mut client = Client::connect(["127.0.0.1:2379"], None).await?;
    /// let guard = fencepost::Locker::new(store.clone()).acquire("stock").await?;
    /// let transaction = Txn::new()
    ///     .when([store.while_held(guard.name(), guard.credential())])
    ///     .and_then([TxnOp::put("stock:left", "41", None)]);
    /// let written = client.txn(transaction).await?.succeeded();
    /// # Ok(()) }
    /// ```
    pub fn while_held(&self, name: &LockName, credential: Credential) -> Compare {
        let Credential { fence, owner } = credential;
        let keys = Keys::of_owner(&self.hub.prefix, name.as_str(), owner);
        // Epochs are below 2^47, so the cast is safe.
        held_condition(keys.own, fence.epoch().cast_signed())
    }

    /// Executes `operations` in one transaction, all or none, if the lock `name` is still held with `credential`; see
    /// [`while_held`](Self::while_held), also for the version of `etcd-client` that [`TxnOp`] comes from.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lock is not held any more; nothing was written then. Otherwise returns
    /// the error of the store. If its effect is `Maybe`, the data may have been written.
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction may or may not have been executed.
    pub async fn write_while_held(
        &self,
        name: &LockName,
        credential: Credential,
        operations: impl Into<Vec<TxnOp>>,
    ) -> Result<Vec<TxnOpResponse>> {
        let operation = Operation::Resource;
        let transaction = Txn::new()
            .when([self.while_held(name, credential)])
            .and_then(operations.into());
        let transaction = &transaction;
        let asked = self.hub.ask_once(operation, |mut client| async move {
            client.txn(transaction.clone()).await
        });
        let answer = asked.await?;
        if answer.succeeded() {
            Ok(answer.op_responses())
        } else {
            Err(failure::lost(operation))
        }
    }
}
