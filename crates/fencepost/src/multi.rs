//! Locks on several names at once: either all of them are held, or none.
//!
//! The locker takes the names one after the other, in the order of their bytes and not in the order in which they were given. Callers whose
//! names overlap therefore cannot deadlock, in one process or in many. The locker holds the earlier names, and renews them, while it waits
//! for a later one. Code that takes a single name while it holds others must keep to the same order.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use crate::claim::LockName;
use crate::clock::Moment;
use crate::credential::Credential;
use crate::engine::ReleaseOutcome;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::fence::Fence;
use crate::guard::{Guard, while_held};
use crate::lease::{FailedRenewals, Lost};
use crate::line::Manner;
use crate::locker::Locker;

/// Several locks that are held together. [`Locker::acquire_all`] and its variants return it.
///
/// Each name has its own [fence](Self::fence). The guard is lost as soon as one of its locks is lost. Dropping it releases all locks.
///
/// For what a single lock has and this type does not, such as [`reenter`](Guard::reenter), use [`guard`](Self::guard) or
/// [`guards`](Self::guards).
#[must_use = "the locks are released as soon as the guard is dropped"]
pub struct MultiGuard {
    /// The guards in the order in which they were acquired; at least one.
    guards: Vec<Guard>,
}

impl Locker {
    /// Tries once to acquire each of the names. If somebody else holds one of them or waits for it, releases what it had acquired, which
    /// takes at most the store timeout, and returns `None`. A name that is given twice counts once.
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
    /// Returns an error if one of the names is invalid, if no name is given, or for the reasons of [`try_acquire`](Self::try_acquire).
    /// After an error, the locker releases in the background what it had acquired.
    ///
    /// # Cancel safety
    /// The future can be dropped at any point. The locker releases in the background what it has acquired.
    pub async fn try_acquire_all<I>(&self, names: I) -> Result<Option<MultiGuard>>
    where
        I: IntoIterator,
        I::Item: TryInto<LockName>,
        Error: From<<I::Item as TryInto<LockName>>::Error>,
    {
        self.ask_for_all(in_order(names)?, Manner::Try, Moment::FAR)
            .await
    }

    /// Waits for all of the names without a time limit. A name that is given twice counts once.
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
    /// Returns an error if one of the names is invalid, if no name is given, or for the reasons of [`acquire`](Self::acquire). Returns
    /// [`ErrorKind::Lost`] if one lock was lost while the locker waited for another. After an error, the locker releases in the background
    /// what it had acquired.
    ///
    /// # Cancel safety
    /// The future can be dropped at any point. The locker releases in the background what it has acquired.
    pub async fn acquire_all<I>(&self, names: I) -> Result<MultiGuard>
    where
        I: IntoIterator,
        I::Item: TryInto<LockName>,
        Error: From<<I::Item as TryInto<LockName>>::Error>,
    {
        let all = self.ask_for_all(in_order(names)?, Manner::Wait, Moment::FAR);
        let all = all.await?;
        all.ok_or_else(|| self.unanswered())
    }

    /// Waits for all of the names for at most `timeout` in total. If they did not become free in time, releases what it had acquired, which
    /// takes at most the store timeout, and returns `None`. A timeout of zero tries each name once.
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
    /// Returns the same errors as [`acquire_all`](Self::acquire_all). If the store gives no answer at all within `timeout`, that is an
    /// error ([`ErrorKind::Timeout`]), not `None`.
    ///
    /// # Cancel safety
    /// The same as for [`acquire_all`](Self::acquire_all).
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
            return self.ask_for_all(names, Manner::Try, Moment::FAR).await;
        }
        let until = self.backend().clock().now() + timeout;
        self.ask_for_all(names, Manner::Wait, until).await
    }

    async fn ask_for_all(
        &self,
        names: Vec<LockName>,
        manner: Manner,
        until: Moment,
    ) -> Result<Option<MultiGuard>> {
        let mut held = MultiGuard { guards: Vec::new() };
        for name in names {
            match self.ask_for_next(&held, name, manner, until).await {
                Ok(Some(guard)) => held.guards.push(guard),
                Ok(None) => {
                    // Wait for the release, so that a caller that tries again at once finds these names free.
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

    /// Acquires one more name while the earlier ones are held.
    async fn ask_for_next(
        &self,
        held: &MultiGuard,
        name: LockName,
        manner: Manner,
        until: Moment,
    ) -> Result<Option<Guard>> {
        if held.guards.is_empty() {
            return self.ask_for(name, manner, until).await;
        }
        let is_late = || self.backend().clock().now() >= until;
        if is_late() {
            return Ok(None);
        }
        match held.run(self.ask_for(name, manner, until)).await {
            // The store has answered before, so the caller's timeout ended here, not the store's.
            Ok(Err(error)) if error.kind() == ErrorKind::Timeout && is_late() => Ok(None),
            Ok(answer) => answer,
            Err(lost) => Err(self.lost_meanwhile(held, lost)),
        }
    }

    fn lost_meanwhile(&self, held: &MultiGuard, lost: Lost) -> Error {
        let name = held.guards.iter().find(|guard| guard.is_lost());
        let name = name.map_or_else(String::new, |guard| format!(" {}", guard.name()));
        let message = format!("the lock{name} was lost while waiting for the other names");
        let store = self.backend().store_name();
        Error::new(ErrorKind::Lost, store, Operation::Acquire, message).with_source(lost)
    }
}

/// Sorts the names into the order in which everybody acquires them.
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
    /// Returns the single guards in the order in which they were acquired, which is the order of the bytes of their names.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Returns the guard of this name, or `None` if this is not one of the names.
    pub fn guard(&self, name: &str) -> Option<&Guard> {
        let at = self
            .guards
            .binary_search_by(|guard| guard.name().as_str().cmp(name));
        at.ok().map(|at| &self.guards[at])
    }

    /// Returns the fencing token of one of the names, or `None` if this is not one of them.
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.guard(name).map(Guard::fence)
    }

    /// Returns the credential of one of the names, which a fenced [`resource`](crate::resource) checks, or `None` if this is not one of the
    /// names.
    pub fn credential(&self, name: &str) -> Option<Credential> {
        self.guard(name).map(Guard::credential)
    }

    /// Returns how much longer all of the locks are held if every renewal fails from now on. Nobody else can hold any of them during this
    /// time, unless the store loses its data or somebody releases a lock by force; then only the [fences](Self::fence) protect the
    /// resource. Returns zero if one of the locks is lost.
    pub fn valid_for(&self) -> Duration {
        let each = self.guards.iter().map(Guard::valid_for);
        each.min().unwrap_or_default()
    }

    /// Returns whether one of the locks is lost. Once this returns `true`, it never returns `false` again.
    pub fn is_lost(&self) -> bool {
        self.lost_now().is_some()
    }

    /// Returns whether somebody else had one of the locks when this task asked for it. See [`Guard::was_contended`].
    pub fn was_contended(&self) -> bool {
        self.guards.iter().any(Guard::was_contended)
    }

    /// Returns the renewals that have failed in a row until now, of the lock with the most failures. Returns `None` if the last renewals
    /// of all locks succeeded. See [`Guard::failed_renewals`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let all = locker.acquire_all(["a", "b"]).await?;
    /// if let Some(failed) = all.failed_renewals() {
    ///     println!("{} renewals failed, {:?} left: {}", failed.count, all.valid_for(), failed.last_error);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn failed_renewals(&self) -> Option<FailedRenewals> {
        let failed = self.guards.iter().filter_map(Guard::failed_renewals);
        failed.max_by_key(|failed| failed.count)
    }

    /// Extends the leases of all locks so that they last at least `ttl` from now on. See [`Guard::extend`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use std::time::Duration;
    ///
    /// let all = locker.acquire_all(["a", "b"]).await?;
    /// all.extend(Duration::from_secs(60)).await?;
    /// assert!(all.valid_for() > Duration::from_secs(50));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Returns the error of the first lock that could not be extended, in the order of the names. The other leases may have been extended.
    ///
    /// # Cancel safety
    /// If the future is dropped, each lease may or may not have been extended. The locks stay held.
    pub async fn extend(&self, ttl: Duration) -> Result<()> {
        let each = self.guards.iter().map(|guard| guard.extend(ttl));
        join_all(each).await.into_iter().collect()
    }

    /// Completes when one of the locks is lost, with the reason.
    ///
    /// # Panics
    /// Panics if the future is polled outside a Tokio runtime with time enabled while all locks are held.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect. You can call this any number of times.
    pub async fn lost(&self) -> Lost {
        let each = self.guards.iter().map(|guard| Box::pin(guard.lost()));
        select_all(each).await.0
    }

    /// Runs `work` while all locks are held, and drops it if one of them is lost. It has the same contract as [`Guard::run`].
    ///
    /// # Errors
    /// Returns [`Lost`] if a lock was lost before `work` completed, or by the time it completed.
    ///
    /// # Panics
    /// Panics if the future is polled outside a Tokio runtime with time enabled while all locks are held.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`. The locks stay held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Lost> {
        while_held(self.lost(), || self.lost_now(), work).await
    }

    /// Returns the names of the locks in the order in which they were acquired.
    pub fn names(&self) -> impl Iterator<Item = &LockName> {
        self.guards.iter().map(Guard::name)
    }

    /// Releases all locks, and returns the outcome for each name. Outside a Tokio runtime, the releases continue in the background, and the
    /// outcomes are [`Unknown`](ReleaseOutcome::Unknown).
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
    /// If the future is dropped, the releases continue in the background, as they do when the guard is dropped.
    pub async fn release(self) -> Vec<(LockName, ReleaseOutcome)> {
        let each = self.guards.into_iter().map(|guard| async move {
            let name = guard.name().clone();
            (name, guard.release().await)
        });
        join_all(each).await
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn into_guards(self) -> Vec<Guard> {
        self.guards
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
