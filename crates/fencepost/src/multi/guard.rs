//! [`MultiGuard`]: several locks that are held together.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use crate::claim::LockName;
use crate::credential::Credential;
use crate::engine::ReleaseOutcome;
use crate::error::Result;
use crate::fence::Fence;
use crate::guard::{Guard, while_held};
use crate::lease::{FailedRenewals, Lost};

/// Several locks that are held together. [`Locker::acquire_all`](crate::Locker::acquire_all) and its variants return it.
///
/// Each name has its own [fence](Self::fence). The guard is lost as soon as one of its locks is lost. Dropping it releases all locks.
///
/// For what a single lock has and this type does not, such as [`reenter`](Guard::reenter), use [`guard`](Self::guard) or
/// [`guards`](Self::guards).
#[must_use = "the locks are released as soon as the guard is dropped"]
pub struct MultiGuard {
    /// The guards in the order in which they were acquired; at least one.
    pub(super) guards: Vec<Guard>,
}

impl MultiGuard {
    /// Returns the single guards in the order in which they were acquired, which is the order of the bytes of their names.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let all = locker.acquire_all(["b", "a"]).await?;
    /// let names: Vec<_> = all.guards().iter().map(|guard| guard.name().as_str()).collect();
    /// assert_eq!(names, ["a", "b"]);
    /// # Ok(()) }
    /// ```
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Returns the guard of this name, or `None` if this is not one of the names.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let all = locker.acquire_all(["a", "b"]).await?;
    /// let inner = all.guard("a").expect("one of the names").reenter();
    /// drop(all);
    /// assert!(inner.release().await.is_released());
    /// # Ok(()) }
    /// ```
    pub fn guard(&self, name: &str) -> Option<&Guard> {
        let at = self
            .guards
            .binary_search_by(|guard| guard.name().as_str().cmp(name));
        at.ok().map(|at| &self.guards[at])
    }

    /// Returns the fencing token of one of the names, or `None` if this is not one of them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let all = locker.acquire_all(["a", "b"]).await?;
    /// assert!(all.fence("a").is_some());
    /// assert!(all.fence("c").is_none());
    /// # Ok(()) }
    /// ```
    pub fn fence(&self, name: &str) -> Option<Fence> {
        self.guard(name).map(Guard::fence)
    }

    /// Returns the credential of one of the names, which a fenced [`resource`](crate::resource) checks, or `None` if this is not one of the
    /// names.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use fencepost::resource::{FencedCell, FencedResource};
    ///
    /// let stock = FencedCell::new(3);
    /// let all = locker.acquire_all(["orders", "stock"]).await?;
    /// let credential = all.credential("stock").expect("one of the names");
    /// stock.write(credential, 2).expect("the largest fence so far");
    /// # Ok(()) }
    /// ```
    pub fn credential(&self, name: &str) -> Option<Credential> {
        self.guard(name).map(Guard::credential)
    }

    /// Returns how much longer all of the locks are held if every renewal fails from now on. Nobody else can hold any of them during this
    /// time, unless the store loses its data or somebody releases a lock by force; then only the [fences](Self::fence) protect the
    /// resource. Returns zero if one of the locks is lost.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// use std::time::Duration;
    ///
    /// let all = locker.acquire_all(["a", "b"]).await?;
    /// // Enough time left for one more step?
    /// assert!(all.valid_for() > Duration::from_secs(1));
    /// # Ok(()) }
    /// ```
    pub fn valid_for(&self) -> Duration {
        let each = self.guards.iter().map(Guard::valid_for);
        each.min().unwrap_or_default()
    }

    /// Returns whether one of the locks is lost. Once this returns `true`, it never returns `false` again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let all = locker.acquire_all(["a", "b"]).await?;
    /// locker.shutdown().await;
    /// assert!(all.is_lost());
    /// # Ok(()) }
    /// ```
    pub fn is_lost(&self) -> bool {
        self.lost_now().is_some()
    }

    /// Returns whether somebody else had one of the locks when this task asked for it. See [`Guard::was_contended`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let all = locker.acquire_all(["a", "b"]).await?;
    /// assert!(!all.was_contended());
    /// # Ok(()) }
    /// ```
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
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// # async fn move_stock() {}
    /// let all = locker.acquire_all(["a", "b"]).await?;
    /// tokio::select! {
    ///     () = move_stock() => println!("done"),
    ///     lost = all.lost() => println!("stopped: {lost}"),
    /// }
    /// # Ok(()) }
    /// ```
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
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// # async fn move_stock() -> u32 { 12 }
    /// let all = locker.acquire_all(["a", "b"]).await?;
    /// match all.run(move_stock()).await {
    ///     Ok(units) => println!("{units} units"),
    ///     Err(lost) => println!("stopped: {lost}"),
    /// }
    /// # Ok(()) }
    /// ```
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
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> fencepost::Result<()> {
    /// # let locker = fencepost::Locker::new(std::sync::Arc::new(fencepost::stores::memory::Memory::new()));
    /// let all = locker.acquire_all(["b", "a"]).await?;
    /// assert!(all.names().map(|name| name.as_str()).eq(["a", "b"]));
    /// # Ok(()) }
    /// ```
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

    pub(super) fn lost_now(&self) -> Option<Lost> {
        self.guards.iter().find_map(Guard::lost_now)
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.guards).finish()
    }
}
