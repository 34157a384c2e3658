//! Locks on several names at once: either all of them are held, or none.
//!
//! The locker takes the names one after the other, in the order of their bytes and not in the order in which they were given. Callers whose
//! names overlap therefore cannot deadlock, in one process or in many. The locker holds the earlier names, and renews them, while it waits
//! for a later one. Code that takes a single name while it holds others must keep to the same order.

use std::time::Duration;

use crate::claim::LockName;
use crate::clock::Moment;
use crate::error::{Error, ErrorKind, Operation, Result};
use crate::guard::Guard;
use crate::lease::Lost;
use crate::line::Manner;
use crate::locker::Locker;

mod guard;

pub use guard::MultiGuard;

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
        // Without a time limit, waiting ends with a guard or an error; `None` would be a bug of the line.
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
            Some(lost) => Err(self.lost_meanwhile(lost)),
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
            Err(lost) => Err(self.lost_meanwhile(lost)),
        }
    }

    fn lost_meanwhile(&self, lost: Lost) -> Error {
        let name = lost.name();
        let message = format!("the lock {name} was lost while waiting for the other names");
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
