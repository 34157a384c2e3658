//! The failure of an attempt: what went wrong, and whether something may have been bought.

use std::fmt;

/// An attempt that failed without an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Whether it is certain that nothing was bought.
    pub definite: bool,
    /// What went wrong.
    pub message: String,
}

impl Failure {
    /// Creates a failure after which certainly nothing was bought.
    pub fn definite(error: impl fmt::Display) -> Self {
        Self {
            definite: true,
            message: error.to_string(),
        }
    }

    /// Creates a failure after which something may have been bought.
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
