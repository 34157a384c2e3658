//! What a holder shows to a resource.

use crate::claim::OwnerId;
use crate::fence::Fence;

/// What a holder shows to a fenced [`resource`](crate::resource): its fence, and who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Credential {
    /// The fence of the hold.
    pub fence: Fence,
    /// The owner of the lease that the hold belongs to.
    pub owner: OwnerId,
}

impl Credential {
    /// The credential of `owner`, who holds the lock with `fence`.
    pub fn new(fence: Fence, owner: OwnerId) -> Self {
        Self { fence, owner }
    }

    /// Whether a resource that has admitted `highest` admits this one.
    pub(crate) fn follows(&self, highest: &Self) -> bool {
        self.fence > highest.fence || self == highest
    }
}
