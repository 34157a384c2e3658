//! Stand-in.
use crate::{Fence, OwnerId};
/// Pass
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// fence
    pub fence: Fence,
    /// owner
    pub owner: OwnerId,
}
impl Pass {
    /// new
    pub fn new(fence: Fence, owner: OwnerId) -> Self {
        Self { fence, owner }
    }
}
