//! The locks that a purchase in the scratch shop can ask for.

use serde::Deserialize;
use utoipa::ToSchema;

/// A way to lock.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum LockStrategy {
    /// Not at all.
    None,
    /// Set if absent, then an expiry, then a blind delete.
    Naive,
    /// With a token and a TTL.
    #[default]
    Safe,
    /// `safe`, and its lease is renewed.
    Watchdog,
    /// `safe`, and the stock refuses late writers by their fence.
    Fenced,
}

impl LockStrategy {
    /// Every way.
    pub(super) const ALL: [Self; 5] = [
        Self::None,
        Self::Naive,
        Self::Safe,
        Self::Watchdog,
        Self::Fenced,
    ];

    /// Returns its name in requests, and among the strategies of the lab.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Naive => "naive",
            Self::Safe => "safe",
            Self::Watchdog => "watchdog",
            Self::Fenced => "fenced",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_trial::strategy;
    use utoipa::PartialSchema;

    #[test]
    fn every_way_that_a_request_can_name_is_a_strategy_of_the_lab() {
        let schema = serde_json::to_value(LockStrategy::schema()).unwrap();
        let names = LockStrategy::ALL.map(LockStrategy::name);
        assert_eq!(schema["enum"], serde_json::json!(names));
        for name in names {
            assert!(strategy::find(name).is_some(), "{name}");
        }
    }
}
