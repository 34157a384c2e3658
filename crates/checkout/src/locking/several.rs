//! Several locks at once, until the library has them.

use std::time::{Duration, Instant};

use fencepost::{Guard, Locker};

pub(super) struct Several(Vec<Guard>);

impl Several {
    /// `names` are sorted.
    pub(super) async fn acquire_all_within(
        locker: &Locker,
        names: &[String],
        patience: Duration,
    ) -> fencepost::Result<Option<Self>> {
        let until = Instant::now() + patience;
        let mut guards = Vec::with_capacity(names.len());
        for name in names {
            let left = until.saturating_duration_since(Instant::now());
            match locker.acquire_within(name.as_str(), left).await? {
                Some(guard) => guards.push(guard),
                None => return Ok(None),
            }
        }
        Ok(Some(Self(guards)))
    }

    pub(super) async fn try_acquire_all(
        locker: &Locker,
        names: &[String],
    ) -> fencepost::Result<Option<Self>> {
        Self::acquire_all_within(locker, names, Duration::ZERO).await
    }

    pub(super) fn guards(&self) -> &[Guard] {
        &self.0
    }

    pub(super) fn fences(&self) -> Vec<String> {
        self.0.iter().map(|guard| guard.fence().to_string()).collect()
    }

    pub(super) async fn release(self) {
        for guard in self.0 {
            let _ = guard.release().await;
        }
    }
}
