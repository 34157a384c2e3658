//! When the lease of a grant begins to run.

use crate::protocol::Claims;

/// When a lease begins to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lease {
    /// With the grant.
    FromGrant,
    /// Only once the work is done.
    FromWrite,
    /// Again and again, as long as the process runs.
    Renewed,
    /// There is none.
    Never,
}

impl Lease {
    /// Of a lock that promises this.
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
