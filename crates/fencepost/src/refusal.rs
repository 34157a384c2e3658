//! Why a fenced [`resource`](crate::resource) did not serve a holder.

use std::fmt;

use crate::error::Error;
use crate::fence::Fence;

/// A resource refused a credential, because somebody else has held the lock since.
///
/// The fields are complete on purpose, so that resources outside this crate can create it: a new field would be a breaking change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The fence of the refused credential.
    pub offered: Fence,
    /// The highest fence that the resource has seen.
    pub highest: Fence,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offered, highest } = self;
        if offered < highest {
            write!(f, "fence {offered} is lower than {highest} already seen")
        } else {
            write!(f, "fence {offered} was already seen from another owner")
        }
    }
}

impl std::error::Error for Refused {}

/// Why a fenced operation failed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum FencedError {
    /// The credential is stale. Nothing was read or written.
    Refused(Refused),
    /// The resource failed or could not be reached. [`Error::effect`] says whether it may have been changed nevertheless.
    Failed(Error),
}

impl fmt::Display for FencedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FencedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(_) => None,
            Self::Failed(error) => error.source(),
        }
    }
}

impl From<Refused> for FencedError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<Error> for FencedError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
