//! Why an attempt came to no outcome.

use std::fmt;

/// An attempt came to no outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Whether it is certain that nothing was bought.
    pub definite: bool,
    /// What went wrong.
    pub message: String,
}

impl Failure {
    /// Nothing was bought.
    pub fn definite(error: impl fmt::Display) -> Self {
        Self {
            definite: true,
            message: error.to_string(),
        }
    }

    /// Something may have been bought.
    pub fn indefinite(error: impl fmt::Display) -> Self {
        Self {
            definite: false,
            message: error.to_string(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
