//! A run whose command is watched: the supervision asks it for how long it is held.

use std::time::Duration;

use fencepost::clock::{BootClock, Clock, Moment};
use fencepost::kinds::once::Run;
use fencepost::{FailedRenewals, Fence, Lost};

use crate::supervision::Held;

/// How late a stop may begin because the machine is busy, and still be one because the time is over.
const SLACK: Duration = Duration::from_millis(100);

pub(super) struct TimedRun {
    pub(super) run: Run,
    /// When the run has taken as long as it may.
    pub(super) ends_at: Moment,
}

impl Held for TimedRun {
    fn fence(&self) -> Fence {
        self.run.fence()
    }

    fn valid_for(&self) -> Duration {
        self.run.valid_for()
    }

    fn failed_renewals(&self) -> Option<FailedRenewals> {
        self.run.failed_renewals()
    }

    async fn lost(&self) -> Lost {
        self.run.lost().await
    }

    fn is_over_time(&self, room: Duration) -> Option<Duration> {
        let left = self.ends_at.saturating_duration_since(BootClock.now());
        (left <= room + SLACK).then(|| self.run.at_most())
    }
}
