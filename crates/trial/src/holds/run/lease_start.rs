//! When the lease of a grant starts to run, derived from the lock's claims.

use crate::protocol::Claims;

/// When a lease starts to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseStart {
    /// At the grant.
    FromGrant,
    /// Only once the work is done.
    FromWrite,
    /// At every renewal, as long as the process runs.
    Renewed,
    /// Never: the lock has no lease.
    Never,
}

impl LeaseStart {
    /// Returns when the lease of a lock with these claims starts.
    pub(super) fn of(claims: Claims) -> Self {
        if claims.expires_after_work {
            Self::FromWrite
        } else if claims.untimed {
            Self::Never
        } else if claims.keep_alive {
            Self::Renewed
        } else {
            Self::FromGrant
        }
    }
}
