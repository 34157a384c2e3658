//! The failure of a request: what went wrong, and whether it may have had an effect.

use std::fmt;

/// A request that failed without an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Whether the request certainly had no effect.
    pub definite: bool,
    /// What went wrong.
    pub message: String,
}

impl Failure {
    /// Creates the failure of a request that certainly had no effect.
    pub fn definite(error: impl fmt::Display) -> Self {
        Self {
            definite: true,
            message: error.to_string(),
        }
    }

    /// Creates the failure of a request that may have had an effect.
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
