//! [`CurrentSession`]: the connection that all requests of a store share, and the attempt to replace it.
//!
//! Redis and the Postgres table use it. etcd and ZooKeeper do not: there, one task at a time connects as a part of its own request, and if
//! its caller gives up, the next task starts a new attempt.

use std::future::Future;
use std::result::Result;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::Shared;
use tokio::task::JoinError;

use crate::clock::BoxFuture;
use crate::mutex::lock;

/// A connection that another one can replace.
pub(crate) trait Replaceable: Send + Sync + 'static {
    /// What the server knows the connection by.
    type Identity: Clone;

    /// Returns whether the connection was given up.
    fn is_down(&self) -> bool;

    /// Returns how the server identifies this connection, if it says so.
    fn identity(&self) -> Option<Self::Identity>;
}

/// What an attempt to connect returns.
type ConnectResult<S, E> = Result<Arc<S>, E>;

/// An attempt in its own task. The outer error means that its runtime ended.
type Attempt<S, E> = Shared<BoxFuture<'static, Result<ConnectResult<S, E>, Arc<JoinError>>>>;

/// The session in use, the attempt to open the next one, and those before it. `E` is the error of an attempt.
pub(crate) struct CurrentSession<S: Replaceable, E: Clone> {
    session: Mutex<Option<Arc<S>>>,
    /// The current attempt to connect, or the last one.
    attempt: Arc<Mutex<Option<Attempt<S, E>>>>,
    /// The sessions that the server must end before the next one is used.
    replaced: Mutex<Vec<S::Identity>>,
}

impl<S: Replaceable, E: Clone> Default for CurrentSession<S, E> {
    fn default() -> Self {
        Self {
            session: Mutex::default(),
            attempt: Arc::default(),
            replaced: Mutex::default(),
        }
    }
}

impl<S: Replaceable, E: Clone + Send + Sync + 'static> CurrentSession<S, E> {
    /// Returns the session, or `None` if there is none or it was given up.
    pub(crate) fn get(&self) -> Option<Arc<S>> {
        let session = lock(&self.session);
        session
            .as_ref()
            .filter(|session| !session.is_down())
            .cloned()
    }

    /// Returns the session even if it was given up.
    #[cfg(feature = "redis")]
    pub(crate) fn last(&self) -> Option<Arc<S>> {
        lock(&self.session).clone()
    }

    /// Returns the session, or waits for the attempt to connect, which all callers share. The attempt continues when they give up, because
    /// on a slow network it takes longer than a single request may. Returns `None` if there was no runtime to finish it.
    ///
    /// `connect` calls [`retire`](Self::retire), ends what that returns, and then calls [`replace`](Self::replace).
    pub(crate) async fn get_or_connect<F>(
        &self,
        connect: impl Fn() -> F,
    ) -> Option<ConnectResult<S, E>>
    where
        F: Future<Output = ConnectResult<S, E>> + Send + 'static,
    {
        if let Some(session) = self.get() {
            return Some(Ok(session));
        }
        // An attempt ends with its runtime. If that was another runtime, start a new attempt in this one.
        for _ in 0..2 {
            if let Ok(outcome) = self.attempt(&connect).await {
                return Some(outcome);
            }
        }
        None
    }

    fn attempt<F>(&self, connect: impl Fn() -> F) -> Attempt<S, E>
    where
        F: Future<Output = ConnectResult<S, E>> + Send + 'static,
    {
        let mut attempt = lock(&self.attempt);
        if let Some(under_way) = attempt.as_ref().filter(|attempt| attempt.peek().is_none()) {
            return under_way.clone();
        }
        // The last attempt may have connected since the caller looked.
        if let Some(session) = self.get() {
            let connected: BoxFuture<'static, _> = Box::pin(async move { Ok(Ok(session)) });
            return connected.shared();
        }
        let (current, connecting) = (self.attempt.clone(), connect());
        let task = tokio::spawn(async move {
            let outcome = connecting.await;
            // Waiting tasks have a copy. Later ones must not get an old failure.
            *lock(&current) = None;
            outcome
        });
        let new: BoxFuture<'static, _> = Box::pin(async move { task.await.map_err(Arc::new) });
        attempt.insert(new.shared()).clone()
    }

    /// Puts the old session away. Returns all sessions that the server must end before the next one is used: a request of theirs may still
    /// be on its way.
    pub(crate) fn retire(&self) -> Vec<S::Identity> {
        let old = lock(&self.session).take();
        let mut replaced = lock(&self.replaced);
        replaced.extend(old.and_then(|old| old.identity()));
        replaced.clone()
    }

    /// Uses this session from now on. The server has ended those before it.
    pub(crate) fn replace(&self, session: S) -> Arc<S> {
        let session = Arc::new(session);
        lock(&self.replaced).clear();
        *lock(&self.session) = Some(session.clone());
        session
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;

    struct Numbered {
        number: u32,
        is_down: AtomicBool,
    }

    impl Numbered {
        fn new(number: u32) -> Self {
            Self {
                number,
                is_down: AtomicBool::new(false),
            }
        }
    }

    impl Replaceable for Numbered {
        type Identity = u32;

        fn is_down(&self) -> bool {
            self.is_down.load(Ordering::Relaxed)
        }

        fn identity(&self) -> Option<u32> {
            Some(self.number)
        }
    }

    type Sessions = CurrentSession<Numbered, &'static str>;

    #[tokio::test]
    async fn callers_share_an_attempt_that_outlives_the_first_of_them() {
        let sessions = Arc::new(Sessions::default());
        let attempts = AtomicU32::new(0);
        let connect = || {
            let number = attempts.fetch_add(1, Ordering::Relaxed) + 1;
            let sessions = sessions.clone();
            async move {
                tokio::task::yield_now().await;
                Ok(sessions.replace(Numbered::new(number)))
            }
        };
        let given_up = sessions.get_or_connect(connect).now_or_never();
        assert!(given_up.is_none());
        let (one, other) = tokio::join!(
            sessions.get_or_connect(connect),
            sessions.get_or_connect(connect)
        );
        for outcome in [one, other, sessions.get_or_connect(connect).await] {
            assert_eq!(outcome.unwrap().unwrap().number, 1);
        }
        assert_eq!(attempts.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn an_old_session_is_to_be_ended_until_another_one_has_replaced_it() {
        let sessions = Arc::new(Sessions::default());
        let first = sessions.replace(Numbered::new(1));
        first.is_down.store(true, Ordering::Relaxed);
        for _ in 0..2 {
            let failed = sessions.get_or_connect(|| {
                let replaced = sessions.retire();
                async move {
                    assert_eq!(replaced, [1]);
                    Err("refused")
                }
            });
            assert_eq!(failed.await.unwrap().err(), Some("refused"));
        }
        assert_eq!(sessions.retire(), [1]);
        let second = sessions.replace(Numbered::new(2));
        second.is_down.store(true, Ordering::Relaxed);
        assert_eq!(sessions.retire(), [2]);
    }
}
