//! Several names at once: all of them, or none.
//!
//! Names are taken one after the other in the order of their bytes, whatever the order they are given in. So two baskets that
//! share names never wait for each other in a circle, in one process or in many. Earlier names are held, and kept alive, while
//! a later one is waited for. Whoever takes a name alone while holding others must keep to the same order.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use crate::claim::LockName;
use crate::clock::Moment;
use crate::engine::ReleaseOutcome;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::fence::Fence;
use crate::guard::{Guard, while_held};
use crate::lease::Lost;
use crate::line::Manner;
use crate::locker::Locker;

/// Several locks that are held together; made by [`Locker::acquire_all`] and its relatives.
///
/// Each name has a [fence](Self::fence) of its own, and the whole is lost as soon as one of them is. Dropped, all go back.
#[must_use = "the locks are given back as soon as the guard is dropped"]
pub struct MultiGuard {
    /// In the order in which they were taken; at least one.
    guards: Vec<Guard>,
}

impl Locker {
    /// Tries once for each of the names. `None`: one of them is somebody else's, or somebody waits for it; then none is held.
    /// A name that is given twice counts once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let other = locker.acquire("b").await?;
    /// assert!(locker.try_acquire_all(["a", "b"]).await?.is_none());
    /// # drop(other);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// One is not a name, or there is none at all; or as [`try_acquire`](Self::try_acquire). None is held then.
    ///
    /// # Cancel safety
    /// Dropping the future is safe at every point: what was taken is given back in the background.
    pub async fn try_acquire_all<I>(&self, names: I) -> Result<Option<MultiGuard>>
    where
        I: IntoIterator,
        I::Item: TryInto<LockName>,
        Error: From<<I::Item as TryInto<LockName>>::Error>,
    {
        self.enter_all(in_order(names)?, Manner::Try, Moment::FAR)
            .await
    }

    /// Waits for all of the names as long as it takes. A name that is given twice counts once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let all = locker.acquire_all(["a", "b"]).await?;
    /// println!("fence of a: {}", all.fence("a").expect("one of the names"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// One is not a name, or there is none at all; as [`acquire`](Self::acquire); or [`ErrorKind::Lost`]: one was lost while
    /// another was waited for. None is held then.
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire): what was taken is given back in the background.
    pub async fn acquire_all<I>(&self, names: I) -> Result<MultiGuard>
    where
        I: IntoIterator,
        I::Item: TryInto<LockName>,
        Error: From<<I::Item as TryInto<LockName>>::Error>,
    {
        let all = self.enter_all(in_order(names)?, Manner::Wait, Moment::FAR);
        let all = all.await?;
        all.ok_or_else(|| self.unanswered())
    }

    /// Waits for all of the names, together for at most `timeout`. `None`: they were not free in time, and none is held.
    /// A timeout of zero tries once for each.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use std::time::Duration;
    ///
    /// let names = ["stock:1", "stock:2"];
    /// match locker.acquire_all_within(names, Duration::from_secs(5)).await? {
    ///     Some(all) => println!("{} locks", all.guards().len()),
    ///     None => println!("not all of them were free in time"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`acquire_all`](Self::acquire_all). A store that gave no answer at all within `timeout` is an error
    /// ([`ErrorKind::Timeout`]), not `None`.
    ///
    /// # Cancel safety
    /// As [`acquire_all`](Self::acquire_all).
    pub async fn acquire_all_within<I>(
        &self,
        names: I,
        timeout: Duration,
    ) -> Result<Option<MultiGuard>>
    where
        I: IntoIterator,
        I::Item: TryInto<LockName>,
        Error: From<<I::Item as TryInto<LockName>>::Error>,
    {
        let names = in_order(names)?;
        if timeout.is_zero() {
            return self.enter_all(names, Manner::Try, Moment::FAR).await;
        }
        let until = self.backend().clock().now() + timeout;
        self.enter_all(names, Manner::Wait, until).await
    }

    async fn enter_all(
        &self,
        names: Vec<LockName>,
        manner: Manner,
        until: Moment,
    ) -> Result<Option<MultiGuard>> {
        let mut held = MultiGuard { guards: Vec::new() };
        for name in names {
            match self.enter_next(&held, name, manner, until).await {
                Ok(Some(guard)) => held.guards.push(guard),
                Ok(None) => {
                    // Who asks again at once finds the others free.
                    held.release().await;
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        match held.lost_now() {
            Some(lost) => Err(self.lost_meanwhile(&held, lost)),
            None => Ok(Some(held)),
        }
    }

    /// One more name, as long as those before are held.
    async fn enter_next(
        &self,
        held: &MultiGuard,
        name: LockName,
        manner: Manner,
        until: Moment,
    ) -> Result<Option<Guard>> {
        if held.guards.is_empty() {
            return self.enter(name, manner, until).await;
        }
        let is_late = || self.backend().clock().now() >= until;
        if is_late() {
            return Ok(None);
        }
        match held.run(self.enter(name, manner, until)).await {
            // The store has answered before; the caller's time was over, not the store's.
            Ok(Err(error)) if error.kind() == ErrorKind::Timeout && is_late() => Ok(None),
            Ok(answer) => answer,
            Err(lost) => Err(self.lost_meanwhile(held, lost)),
        }
    }

    fn lost_meanwhile(&self, held: &MultiGuard, lost: Lost) -> Error {
        let name = held.guards.iter().find(|guard| guard.is_lost());
        let name = name.map_or_else(String::new, |guard| format!(" {}", guard.name()));
        let message = format!("the lock{name} was lost while another of several was waited for");
        let store = self.backend().store();
        Error::new(ErrorKind::Lost, store, Operation::Acquire, message).with_source(lost)
    }
}

/// The names as everybody takes them.
fn in_order<I>(names: I) -> Result<Vec<LockName>>
where
    I: IntoIterator,
    I::Item: TryInto<LockName>,
    Error: From<<I::Item as TryInto<LockName>>::Error>,
{
    let names = names.into_iter().map(TryInto::try_into);
    let mut names = names.collect::<Result<Vec<LockName>, _>>()?;
    if names.is_empty() {
        return Err(Error::invalid("no names: at least one is needed"));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

impl MultiGuard {
    /// The single locks, in the order in which they were taken: that of the bytes of their names.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// The lock of this name, if it is one of them.
    pub fn guard(&self, name: &str) -> Option<&Guard> {
        let at = self
            .guards
            .binary_search_by(|guard| guard.name().as_str().cmp(name));
        at.ok().map(|at| &self.guards[at])
    }

    /// The fencing token of one of the names.
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.guard(name).map(Guard::fence)
    }

    /// How much longer nobody else can hold any of the locks, even if every renewal fails from now on. Zero once one is lost.
    pub fn valid_for(&self) -> Duration {
        let each = self.guards.iter().map(Guard::valid_for);
        each.min().unwrap_or_default()
    }

    /// Whether one of the locks is lost. Never turns false again.
    pub fn is_lost(&self) -> bool {
        self.lost_now().is_some()
    }

    /// Completes when one of the locks is lost, and says why.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect; call it as often as you like.
    pub async fn lost(&self) -> Lost {
        let each = self.guards.iter().map(|guard| Box::pin(guard.lost()));
        select_all(each).await.0
    }

    /// Runs `work` while all locks are held, and drops it when one is lost. See [`Guard::run`], whose contract this one shares.
    ///
    /// # Errors
    /// [`Lost`] when one was lost before `work` was done, or by the time it was done.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work` and leaves the locks held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        while_held(self.lost(), || self.lost_now(), work).await
    }

    /// The names of the locks, in the order in which they were taken.
    pub fn names(&self) -> impl Iterator<Item = &LockName> {
        self.guards.iter().map(Guard::name)
    }

    /// Gives all locks back and says how that went, each by itself.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let all = locker.acquire_all(["a", "b"]).await?;
    /// for (name, outcome) in all.release().await {
    ///     assert!(outcome.is_released(), "{name}: {outcome:?}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// If dropped, the releases go on in the background, as when the guard itself is dropped.
    pub async fn release(self) -> Vec<(LockName, ReleaseOutcome)> {
        let each = self.guards.into_iter().map(|guard| async move {
            let name = guard.name().clone();
            (name, guard.release().await)
        });
        join_all(each).await
    }

    fn lost_now(&self) -> Option<Lost> {
        self.guards.iter().find_map(Guard::lost_now)
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.guards).finish()
    }
}
