//! [`Credential`]: the fence and owner that a holder presents to a fenced resource.

use crate::claim::OwnerId;
use crate::fence::Fence;

/// What a holder presents to a fenced [`resource`](crate::resource): its fence and its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Credential {
    /// The fence of the hold.
    pub fence: Fence,
    /// The owner of the lease that the hold belongs to.
    pub owner: OwnerId,
}

impl Credential {
    /// Creates the credential of `owner`, which holds the lock with `fence`.
    pub fn new(fence: Fence, owner: OwnerId) -> Self {
        Self { fence, owner }
    }

    /// Returns whether a resource that has admitted `highest` admits this credential.
    pub(crate) fn follows(&self, highest: &Self) -> bool {
        self.fence > highest.fence || self == highest
    }
}
