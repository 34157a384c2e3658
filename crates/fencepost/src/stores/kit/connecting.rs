//! [`Connecting`]: one attempt to connect, shared by all tasks that need the connection.
//!
//! Redis and Postgres use it. etcd and ZooKeeper do not: there, one task at a time connects as a part of its own request, and if its caller
//! gives up, the next task starts a new attempt.

use std::future::Future;
use std::result::Result;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::Shared;
use tokio::task::JoinError;

use crate::clock::BoxFuture;
use crate::mutex::lock;

/// An attempt in its own task, with its outcome. The error means that its runtime ended.
type Attempt<T> = Shared<BoxFuture<'static, Result<T, Arc<JoinError>>>>;

/// The current attempt to connect, or the last one. `T` is its outcome.
pub(crate) struct Connecting<T: Clone>(Arc<Mutex<Option<Attempt<T>>>>);

impl<T: Clone> Default for Connecting<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone + Send + Sync + 'static> Connecting<T> {
    /// Waits for the attempt to connect, which all callers share. The attempt continues when they give up, because on a slow network it
    /// takes longer than a single request may. Returns `None` if there was no runtime to finish it.
    pub(crate) async fn outcome<F>(&self, connect: impl Fn() -> F) -> Option<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        // An attempt ends with its runtime. If that was another runtime, start a new attempt in this one.
        for _ in 0..2 {
            if let Ok(outcome) = self.attempt(&connect).await {
                return Some(outcome);
            }
        }
        None
    }

    fn attempt<F>(&self, connect: impl Fn() -> F) -> Attempt<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut attempt = lock(&self.0);
        if let Some(under_way) = attempt.as_ref().filter(|attempt| attempt.peek().is_none()) {
            return under_way.clone();
        }
        let (current, connecting) = (self.0.clone(), connect());
        let task = tokio::spawn(async move {
            let outcome = connecting.await;
            // Waiting tasks have a copy. Later ones must not get an old failure.
            *lock(&current) = None;
            outcome
        });
        let new: BoxFuture<'static, _> = Box::pin(async move { task.await.map_err(Arc::new) });
        attempt.insert(new.shared()).clone()
    }
}
