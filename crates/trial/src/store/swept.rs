//! A ground for one trial, left as it was found.

use fencepost_rig::TempDir;

use super::{Ground, TrialStore};
use crate::protocol::Failure;

/// A ground that is made ready for one trial and left as it was found, also on the way out of trouble.
pub(crate) struct Swept {
    pub(crate) ground: Ground,
    /// A folder of the trial's own, gone with it.
    pub(crate) folder: TempDir,
}

impl Swept {
    /// A ground at this place, ready.
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
        // A server that is gone cannot be tidied up.
        let _ = self.ground.clear();
    }
}
