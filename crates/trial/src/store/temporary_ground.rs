//! A ground that is prepared for one trial and cleared when it is dropped.

use fencepost_rig::TempDir;

use super::{Ground, TrialStore};
use crate::protocol::Failure;

/// A ground that is prepared for one trial and cleared when it is dropped, even after a failure.
#[derive(Debug)]
pub struct TemporaryGround {
    /// The prepared ground.
    pub ground: Ground,
    /// A temporary folder of the trial.
    pub(crate) folder: TempDir,
}

impl TemporaryGround {
    /// Prepares a ground in this store.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no temporary folder, or if the store cannot be reached or prepared.
    pub fn prepare(store: &TrialStore) -> Result<Self, Failure> {
        let folder = fencepost_rig::folder();
        let folder =
            folder.map_err(|error| Failure::definite(format!("no temporary folder: {error}")))?;
        let ground = store.ground(folder.path());
        let temporary = Self { ground, folder };
        temporary.ground.prepare()?;
        Ok(temporary)
    }
}

impl Drop for TemporaryGround {
    fn drop(&mut self) {
        // A server that is gone cannot be cleared.
        let _ = self.ground.clear();
    }
}
