//! [`holds`]: what permits and the guards of read-write locks have in common with the guard of a lock.

/// Writes out the methods of [`Guard`](super::Guard) for a type with an async twin in its field `inner` and a field `worker`.
macro_rules! holds {
    ($type:ty) => {
        impl $type {
            /// Returns the name.
            pub fn name(&self) -> &$crate::LockName {
                self.inner.name()
            }

            /// Returns the fencing token. It is larger than that of every earlier holder of this name.
            pub fn fence(&self) -> $crate::Fence {
                self.inner.fence()
            }

            /// Returns the owner of the lease at the store.
            pub fn owner(&self) -> $crate::OwnerId {
                self.inner.owner()
            }

            /// Returns whether somebody was ahead when this was asked for.
            pub fn was_contended(&self) -> bool {
                self.inner.was_contended()
            }

            /// Returns how much longer this is held if every renewal fails from now on, or zero if it is lost. See
            /// [`Guard::valid_for`](crate::Guard::valid_for).
            pub fn valid_for(&self) -> std::time::Duration {
                self.inner.valid_for()
            }

            /// Returns whether this is lost. Once this returns `true`, it stays `true`. Check it between the steps of long work.
            pub fn is_lost(&self) -> bool {
                self.inner.is_lost()
            }

            /// Returns the renewals that have failed in a row until now. Returns `None` if the last renewal succeeded.
            pub fn failed_renewals(&self) -> Option<$crate::FailedRenewals> {
                self.inner.failed_renewals()
            }

            /// Waits until this is lost, for at most `timeout`. Returns `None` if it is still held.
            ///
            /// # Errors
            /// Returns [`ErrorKind::WrongContext`](crate::ErrorKind::WrongContext) inside an async runtime.
            pub fn lost_within(
                &self,
                timeout: std::time::Duration,
            ) -> $crate::Result<Option<$crate::Lost>> {
                let clock = self.inner.clock();
                self.worker
                    .wait_for_loss(&*clock, timeout, self.inner.lost())
            }

            /// Extends the lease so that it lasts at least `ttl` from now on.
            ///
            /// # Errors
            /// Returns the same errors as [`fencepost::Guard::extend`](crate::Guard::extend).
            pub fn extend(&self, ttl: std::time::Duration) -> $crate::Result<()> {
                let operation = $crate::Operation::Renew;
                self.worker.wait(operation, self.inner.extend(ttl))?
            }

            /// Gives this back, and returns the outcome. Inside an async runtime, the release continues in the background and the outcome is
            /// [`Unknown`](crate::ReleaseOutcome::Unknown).
            pub fn release(self) -> $crate::ReleaseOutcome {
                let Self { inner, worker, .. } = self;
                match worker.wait($crate::Operation::Release, inner.release()) {
                    Ok(outcome) => outcome,
                    Err(error) => $crate::ReleaseOutcome::Unknown(error),
                }
            }
        }
    };
}

pub(super) use holds;
