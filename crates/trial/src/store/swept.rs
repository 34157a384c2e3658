//! A ground that is prepared for one trial and cleared when it is dropped.

use fencepost_rig::TempDir;

use super::{Ground, TrialStore};
use crate::protocol::Failure;

/// A ground that is prepared for one trial and cleared when it is dropped, even after a failure.
pub(crate) struct Swept {
    pub(crate) ground: Ground,
    /// A temporary folder of the trial.
    pub(crate) folder: TempDir,
}

impl Swept {
    /// Prepares a ground in this store.
    pub(crate) fn prepare(place: &TrialStore) -> Result<Self, Failure> {
        let folder = fencepost_rig::folder();
        let folder =
            folder.map_err(|error| Failure::definite(format!("no temporary folder: {error}")))?;
        let ground = place.ground(folder.path());
        let swept = Self { ground, folder };
        swept.ground.prepare()?;
        Ok(swept)
    }
}

impl Drop for Swept {
    fn drop(&mut self) {
        // A server that is gone cannot be cleared.
        let _ = self.ground.clear();
    }
}
