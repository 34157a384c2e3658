//! Writes into etcd that take effect only while a lock is held.
//!
//! Data that live in the same etcd need no fence: the transaction that writes them can ask whether the lock is still there.

use etcd_client::{Compare, Txn, TxnOp, TxnOpResponse};

use super::Etcd;
use super::failure;
use super::keys::Keys;
use super::line::is_held;
use crate::error::{Operation, Result};
use crate::guard::Guard;

impl Etcd {
    /// The condition that `guard`'s lock is still held, for transactions of the caller's own client.
    ///
    /// True as long as the key of this very hold exists: not after the lease has ended, and not when the same process holds the
    /// lock anew. Tasks that hand the lock to each other under one lease share it: a task that has let go must not write.
    ///
    /// The guard must come from a locker on this store.
    ///
    /// ```no_run
    /// # async fn example(store: std::sync::Arc<fencepost::stores::etcd::Etcd>) -> Result<(), Box<dyn std::error::Error>> {
    /// use etcd_client::{Client, Txn, TxnOp};
    ///
    /// let mut client = Client::connect(["127.0.0.1:2379"], None).await?;
    /// let guard = fencepost::Locker::new(store.clone()).acquire("stock").await?;
    /// let transaction = Txn::new()
    ///     .when([store.while_held(&guard)])
    ///     .and_then([TxnOp::put("stock:left", "41", None)]);
    /// let written = client.txn(transaction).await?.succeeded();
    /// # Ok(()) }
    /// ```
    pub fn while_held(&self, guard: &Guard) -> Compare {
        let name = guard.name().as_str();
        let keys = Keys::of_owner(&self.hub.prefix, name, guard.owner());
        // Epochs are below 2^47.
        is_held(keys.own, guard.fence().epoch().cast_signed())
    }

    /// Does `operations` in one transaction, all or none, if `guard`'s lock is still held; see [`while_held`](Self::while_held).
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) when it is not: then nothing was written. Others are the store's; with the effect `Maybe` it may
    /// have been written.
    ///
    /// # Cancel safety
    /// When dropped, the transaction may or may not have taken place.
    pub async fn write_while_held(
        &self,
        guard: &Guard,
        operations: impl Into<Vec<TxnOp>>,
    ) -> Result<Vec<TxnOpResponse>> {
        let operation = Operation::Resource;
        let transaction = Txn::new()
            .when([self.while_held(guard)])
            .and_then(operations.into());
        let transaction = &transaction;
        let asked = self.hub.ask_once(operation, |mut client| async move {
            client.txn(transaction.clone()).await
        });
        let answer = asked.await?;
        match answer.succeeded() {
            true => Ok(answer.op_responses()),
            false => Err(failure::lost(operation)),
        }
    }
}
