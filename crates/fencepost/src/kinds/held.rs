//! [`holds`]: what permits and the guards of read-write locks have in common with the guard of a lock.

/// Writes out the methods of [`Guard`](crate::Guard) for a type with a guard in its field `guard`.
macro_rules! holds {
    ($type:ty) => {
        impl $type {
            /// Returns the name.
            pub fn name(&self) -> &$crate::LockName {
                self.guard.name()
            }

            /// Returns the fencing token. It is larger than that of every earlier holder of this name.
            pub fn fence(&self) -> $crate::Fence {
                self.guard.fence()
            }

            /// Returns the owner of the lease at the store.
            pub fn owner(&self) -> $crate::OwnerId {
                self.guard.owner()
            }

            /// Returns whether somebody was ahead when this was asked for. See [`Guard::was_contended`](crate::Guard::was_contended).
            pub fn was_contended(&self) -> bool {
                self.guard.was_contended()
            }

            /// Returns how much longer this is held if every renewal fails from now on, or zero if it is lost. See
            /// [`Guard::valid_for`](crate::Guard::valid_for).
            pub fn valid_for(&self) -> std::time::Duration {
                self.guard.valid_for()
            }

            /// Returns whether this is lost. Once this returns `true`, it never returns `false` again.
            pub fn is_lost(&self) -> bool {
                self.guard.is_lost()
            }

            /// Returns the renewals that have failed in a row until now. Returns `None` if the last renewal succeeded.
            pub fn failed_renewals(&self) -> Option<$crate::FailedRenewals> {
                self.guard.failed_renewals()
            }

            /// Completes when this is lost, with the reason. See [`Guard::lost`](crate::Guard::lost).
            ///
            /// # Panics
            /// Panics if the future is polled outside a Tokio runtime with time enabled while this is held.
            ///
            /// # Cancel safety
            /// Dropping the future has no effect. You can call this any number of times.
            pub async fn lost(&self) -> $crate::Lost {
                self.guard.lost().await
            }

            /// Runs `work` while this is held, and drops it if this is lost. See [`Guard::run`](crate::Guard::run).
            ///
            /// # Errors
            /// Returns [`Lost`](crate::Lost) if this was lost before `work` completed, or by the time it completed. `work` may have taken
            /// effect partly or completely.
            ///
            /// # Panics
            /// Panics if the future is polled outside a Tokio runtime with time enabled while this is held.
            ///
            /// # Cancel safety
            /// Dropping the future drops `work`. This stays held.
            pub async fn run<F: Future>(&self, work: F) -> $crate::Result<F::Output, $crate::Lost> {
                self.guard.run(work).await
            }

            #[cfg(feature = "blocking")]
            pub(crate) fn clock(&self) -> std::sync::Arc<dyn $crate::clock::Clock> {
                self.guard.clock()
            }

            /// Extends the lease so that it lasts at least `ttl` from now on. Never shortens it. With keep-alive this is rarely necessary.
            ///
            /// # Errors
            /// Returns the same errors as [`Guard::extend`](crate::Guard::extend).
            ///
            /// # Cancel safety
            /// If the future is dropped, the lease may or may not have been extended. This stays held.
            pub async fn extend(&self, ttl: std::time::Duration) -> $crate::Result<()> {
                self.guard.extend(ttl).await
            }

            /// Gives this back, and returns the outcome. Outside a Tokio runtime, the release continues in the background, and the outcome is
            /// [`Unknown`](crate::ReleaseOutcome::Unknown).
            ///
            /// # Cancel safety
            /// If the future is dropped, the release continues in the background, as it does when this is dropped.
            pub async fn release(self) -> $crate::ReleaseOutcome {
                self.guard.release().await
            }
        }
    };
}

pub(super) use holds;
