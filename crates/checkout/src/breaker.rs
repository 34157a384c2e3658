//! A circuit breaker for the lock store: after several failures in a row, requests are refused at once for a while.
//!
//! *Closed*: all requests pass. *Open*: all requests are refused until a certain time. *Half open*: one request passes as a probe, and its
//! outcome closes the breaker or opens it again.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use utoipa::ToSchema;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// How many failures in a row open the breaker.
    pub failures: u32,
    /// How long the breaker stays open before a probe.
    pub open_for: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            failures: 5,
            open_for: Duration::from_secs(2),
        }
    }
}

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// All requests pass.
    Closed,
    /// All requests are refused.
    Open,
    /// One request passes as a probe, or is under way.
    HalfOpen,
}

impl BreakerState {
    /// Returns the name of this state, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// The circuit breaker.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant },
    HalfOpen { probe: Probe },
}

/// A probe under way, known by the time at which it passed: another one passes only later, or after this one has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Probe {
    since: Instant,
}

/// Permission to send a request to the store. Report its outcome. Dropping the permission reports neither success nor failure; if the
/// request was the probe, the next one may pass at once.
#[derive(Debug)]
#[must_use]
pub struct Permit<'a> {
    breaker: &'a Breaker,
    /// The probe that this permit is for; `None` for a request that passed while the breaker was closed.
    probe: Option<Probe>,
    is_reported: bool,
}

impl Breaker {
    /// Creates a closed breaker.
    pub fn new(settings: BreakerSettings) -> Self {
        Self {
            settings,
            state: Mutex::new(State::Closed { failures: 0 }),
        }
    }

    /// Asks for permission to send a request.
    ///
    /// # Errors
    /// Returns how long to wait if the breaker is open.
    pub fn try_pass(&self, now: Instant) -> Result<Permit<'_>, Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Created only if it is returned: dropping it here would lock the state a second time.
        let permit = |probe| Permit {
            breaker: self,
            probe,
            is_reported: false,
        };
        match *state {
            State::Closed { .. } => Ok(permit(None)),
            State::Open { until } if now < until => Err(until - now),
            // A probe without an answer must not keep the breaker half open forever.
            State::HalfOpen { probe } if now < probe.since + self.settings.open_for => {
                Err(probe.since + self.settings.open_for - now)
            }
            State::Open { .. } | State::HalfOpen { .. } => {
                let probe = Probe { since: now };
                *state = State::HalfOpen { probe };
                Ok(permit(Some(probe)))
            }
        }
    }

    /// Returns the state.
    pub fn state(&self, now: Instant) -> BreakerState {
        match *self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { until } if now < until => BreakerState::Open,
            State::Open { .. } | State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    fn change(&self, change: impl FnOnce(State) -> State) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = change(*state);
    }
}

impl Permit<'_> {
    fn is_for(&self, probe: Probe) -> bool {
        self.probe == Some(probe)
    }

    /// Reports that the store answered. Returns whether that closed the breaker: an answer to any request shows that the store is back.
    pub fn answered(mut self) -> bool {
        self.is_reported = true;
        let mut closed = false;
        self.breaker.change(|state| {
            closed = !matches!(state, State::Closed { .. });
            State::Closed { failures: 0 }
        });
        closed
    }

    /// Reports that the store failed. Returns whether that opened the breaker.
    pub fn failed(mut self, now: Instant) -> bool {
        self.is_reported = true;
        let settings = self.breaker.settings;
        let open = State::Open {
            until: now + settings.open_for,
        };
        let (mut opened, permit) = (false, &self);
        permit.breaker.change(|state| match state {
            State::Closed { failures } if failures + 1 < settings.failures => State::Closed {
                failures: failures + 1,
            },
            // A late failure of a request that was sent before the breaker opened, or of a probe that was replaced.
            State::Open { .. } => state,
            State::HalfOpen { probe } if !permit.is_for(probe) => state,
            State::Closed { .. } | State::HalfOpen { .. } => {
                opened = true;
                open
            }
        });
        opened
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if !self.is_reported {
            self.breaker.change(|state| match state {
                // The probe was called off: the next one may go at once.
                State::HalfOpen { probe } if self.is_for(probe) => {
                    State::Open { until: probe.since }
                }
                state => state,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_FOR: Duration = Duration::from_secs(2);

    fn opened(now: Instant) -> Breaker {
        let breaker = Breaker::new(BreakerSettings {
            failures: 3,
            open_for: OPEN_FOR,
        });
        for last in [false, false, true] {
            assert_eq!(breaker.try_pass(now).unwrap().failed(now), last);
        }
        breaker
    }

    #[test]
    fn an_answer_between_failures_keeps_it_closed() {
        let (now, breaker) = (Instant::now(), Breaker::new(BreakerSettings::default()));
        for _ in 0..10 {
            for _ in 0..4 {
                assert!(!breaker.try_pass(now).unwrap().failed(now));
            }
            assert!(!breaker.try_pass(now).unwrap().answered());
        }
        assert_eq!(breaker.state(now), BreakerState::Closed);
    }

    #[test]
    fn an_open_one_refuses_at_once_and_says_for_how_long() {
        let now = Instant::now();
        let breaker = opened(now);
        assert_eq!(breaker.try_pass(now).unwrap_err(), OPEN_FOR);
        let later = now + Duration::from_millis(1_500);
        assert_eq!(
            breaker.try_pass(later).unwrap_err(),
            Duration::from_millis(500)
        );
        assert_eq!(breaker.state(later), BreakerState::Open);
    }

    #[test]
    fn one_probe_decides() {
        let now = Instant::now();
        let breaker = opened(now);
        let later = now + OPEN_FOR;
        let probe = breaker.try_pass(later).unwrap();
        assert!(breaker.try_pass(later).is_err(), "never two probes");
        assert!(probe.failed(later));
        assert!(breaker.try_pass(later + OPEN_FOR / 2).is_err());
        assert!(breaker.try_pass(later + OPEN_FOR).unwrap().answered());
        assert!(!breaker.try_pass(later + OPEN_FOR).unwrap().answered());
        assert_eq!(breaker.state(later + OPEN_FOR), BreakerState::Closed);
    }

    #[test]
    fn a_probe_that_is_called_off_or_lost_never_blocks_the_next() {
        let now = Instant::now();
        let breaker = opened(now);
        let later = now + OPEN_FOR;
        drop(breaker.try_pass(later).unwrap());
        let lost = breaker.try_pass(later).unwrap();
        assert!(breaker.try_pass(later + OPEN_FOR).is_ok());
        std::mem::forget(lost);
    }

    #[test]
    fn only_the_probe_decides_whether_another_one_may_pass() {
        let (now, settings) = (
            Instant::now(),
            BreakerSettings {
                failures: 1,
                open_for: OPEN_FOR,
            },
        );
        let breaker = Breaker::new(settings);
        let [called_off, failed] = [(); 2].map(|()| breaker.try_pass(now).unwrap());
        assert!(breaker.try_pass(now).unwrap().failed(now));
        let later = now + OPEN_FOR;
        let probe = breaker.try_pass(later).unwrap();
        drop(called_off);
        assert!(
            breaker.try_pass(later).is_err(),
            "the probe is still under way"
        );
        assert!(
            !failed.failed(later),
            "it was sent before the breaker opened"
        );
        assert_eq!(breaker.state(later), BreakerState::HalfOpen);
        assert!(probe.answered());
    }

    #[test]
    fn a_probe_that_another_one_has_replaced_decides_nothing_more() {
        let now = Instant::now();
        let breaker = opened(now);
        let first = breaker.try_pass(now + OPEN_FOR).unwrap();
        let later = now + OPEN_FOR * 2;
        let second = breaker.try_pass(later).unwrap();
        drop(first);
        assert!(
            breaker.try_pass(later).is_err(),
            "the second is still under way"
        );
        drop(second);
        assert!(breaker.try_pass(later).is_ok());
    }
}
