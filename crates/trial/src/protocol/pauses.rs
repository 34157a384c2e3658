//! Names and descriptions of the ways of waiting, and the library schedule that each corresponds to.

use std::time::Duration;

use fencepost::random::{Random, SeededRandom};
use fencepost::retry::Schedule;

use super::{Pauses, Retry};

impl Pauses {
    /// The ways that are compared, in order.
    pub const ALL: [Self; 4] = [
        Self::Fixed { pause_ms: 100 },
        Self::Exponential {
            base_ms: 100,
            cap_ms: 5_000,
        },
        Self::FullJitter {
            base_ms: 100,
            cap_ms: 5_000,
        },
        Self::Line,
    ];

    /// Returns the name for tables.
    pub fn name(self) -> String {
        match self {
            Self::Fixed { pause_ms } => format!("fixed {pause_ms} ms"),
            Self::Exponential { base_ms, cap_ms } => {
                format!("exponential {base_ms}·2ⁿ, cap {} s", cap_ms / 1_000)
            }
            Self::FullJitter { .. } => "exponential + full jitter".into(),
            Self::Line => "waiting line".into(),
        }
    }

    /// Returns a one-word name.
    pub fn short(self) -> &'static str {
        match self {
            Self::Fixed { .. } => "fixed",
            Self::Exponential { .. } => "exponential",
            Self::FullJitter { .. } => "jitter",
            Self::Line => "line",
        }
    }

    /// Returns a description that fits into a sentence.
    pub fn in_a_sentence(self) -> &'static str {
        match self {
            Self::Fixed { .. } => "fixed",
            Self::Exponential { .. } => "plain exponential",
            Self::FullJitter { .. } => "jitter",
            Self::Line => "the waiting line",
        }
    }

    /// Returns the corresponding schedule of the library; `None` for the line, which has no pauses.
    pub(crate) fn schedule(self) -> Option<Schedule> {
        let ms = Duration::from_millis;
        match self {
            Self::Fixed { pause_ms } => Some(Schedule::fixed(ms(pause_ms))),
            Self::Exponential { base_ms, cap_ms } => {
                Some(Schedule::exponential(ms(base_ms), ms(cap_ms)))
            }
            Self::FullJitter { base_ms, cap_ms } => {
                Some(Schedule::full_jitter(ms(base_ms), ms(cap_ms)))
            }
            Self::Line => None,
        }
    }
}

impl Retry {
    /// Returns the same with a separate seed per process. With a shared seed, all processes would make the same choices.
    pub(crate) fn of_process(self, index: usize) -> Self {
        let random = SeededRandom::new(self.seed ^ ((index as u64 + 1) << 32));
        Self {
            seed: random.next_u64(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_report() {
        assert_eq!(
            Pauses::ALL.map(Pauses::name),
            [
                "fixed 100 ms",
                "exponential 100·2ⁿ, cap 5 s",
                "exponential + full jitter",
                "waiting line"
            ]
        );
    }

    #[test]
    fn every_process_chooses_for_itself_and_a_seed_repeats_the_choices() {
        let retry = |seed| Retry {
            pauses: Pauses::ALL[2],
            max_retries: 15,
            budget_ms: 8_000,
            seed,
        };
        let chosen = |retry: Retry| {
            let random = SeededRandom::new(retry.seed);
            retry.pauses.schedule().unwrap().delay(4, &random)
        };
        let all: Vec<Duration> = (0..20).map(|i| chosen(retry(7).of_process(i))).collect();
        let again: Vec<Duration> = (0..20).map(|i| chosen(retry(7).of_process(i))).collect();
        assert_eq!(all, again);
        let mut different = all;
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 20);
        assert_ne!(
            chosen(retry(8).of_process(0)),
            chosen(retry(7).of_process(0))
        );
    }
}
