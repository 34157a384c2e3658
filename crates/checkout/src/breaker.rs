//! A circuit breaker: when a store has failed several times in a row, it is left alone for a while, and whoever asks is refused at once.
//!
//! *Closed*: everybody may ask. *Open*: nobody may, until a time. *Half open*: one may, as a probe; its answer closes the breaker or
//! opens it again.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct BreakerSettings {
    /// So many failures in a row open it.
    pub failures: u32,
    /// So long it stays open before a probe.
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

/// Counts failures in a row.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    /// A probe is on its way, since then.
    HalfOpen {
        since: Instant,
    },
}

/// Leave to ask the store. Say how it went; dropped, it went no way at all.
#[derive(Debug)]
#[must_use]
pub struct Leave<'a> {
    breaker: &'a Breaker,
    is_told: bool,
}

impl Breaker {
    /// A closed one.
    pub fn new(settings: BreakerSettings) -> Self {
        Self {
            settings,
            state: Mutex::new(State::Closed { failures: 0 }),
        }
    }

    /// Leave to ask the store.
    ///
    /// # Errors
    /// How long to stay away.
    pub fn ask(&self, now: Instant) -> Result<Leave<'_>, Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Made only where it is given: dropped here, it would want the state that is locked.
        let leave = || Leave {
            breaker: self,
            is_told: false,
        };
        match *state {
            State::Closed { .. } => Ok(leave()),
            State::Open { until } if now < until => Err(until - now),
            // A probe that never came back does not keep it half open for ever.
            State::HalfOpen { since } if now < since + self.settings.open_for => {
                Err(since + self.settings.open_for - now)
            }
            State::Open { .. } | State::HalfOpen { .. } => {
                *state = State::HalfOpen { since: now };
                Ok(leave())
            }
        }
    }

    /// `closed`, `open` or `half_open`.
    pub fn word(&self, now: Instant) -> &'static str {
        match *self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Closed { .. } => "closed",
            State::Open { until } if now < until => "open",
            State::Open { .. } | State::HalfOpen { .. } => "half_open",
        }
    }

    fn change(&self, change: impl FnOnce(State) -> State) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = change(*state);
    }
}

impl Leave<'_> {
    /// The store answered. Whether that closed the breaker.
    pub fn answered(mut self) -> bool {
        self.is_told = true;
        let mut closed = false;
        self.breaker.change(|state| {
            closed = !matches!(state, State::Closed { .. });
            State::Closed { failures: 0 }
        });
        closed
    }

    /// The store failed. Whether that opened the breaker.
    pub fn failed(mut self, now: Instant) -> bool {
        self.is_told = true;
        let settings = self.breaker.settings;
        let open = State::Open {
            until: now + settings.open_for,
        };
        let mut opened = false;
        self.breaker.change(|state| match state {
            State::Closed { failures } if failures + 1 < settings.failures => State::Closed {
                failures: failures + 1,
            },
            // A late answer of somebody who asked before it opened.
            State::Open { .. } => state,
            State::Closed { .. } | State::HalfOpen { .. } => {
                opened = true;
                open
            }
        });
        opened
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            // The probe was called off: the next one may go at once.
            self.breaker.change(|state| match state {
                State::HalfOpen { since } => State::Open { until: since },
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
            assert_eq!(breaker.ask(now).unwrap().failed(now), last);
        }
        breaker
    }

    #[test]
    fn an_answer_between_failures_keeps_it_closed() {
        let (now, breaker) = (Instant::now(), Breaker::new(BreakerSettings::default()));
        for _ in 0..10 {
            for _ in 0..4 {
                assert!(!breaker.ask(now).unwrap().failed(now));
            }
            assert!(!breaker.ask(now).unwrap().answered());
        }
        assert_eq!(breaker.word(now), "closed");
    }

    #[test]
    fn an_open_one_refuses_at_once_and_says_for_how_long() {
        let now = Instant::now();
        let breaker = opened(now);
        assert_eq!(breaker.ask(now).unwrap_err(), OPEN_FOR);
        let later = now + Duration::from_millis(1_500);
        assert_eq!(breaker.ask(later).unwrap_err(), Duration::from_millis(500));
        assert_eq!(breaker.word(later), "open");
    }

    #[test]
    fn one_probe_decides() {
        let now = Instant::now();
        let breaker = opened(now);
        let later = now + OPEN_FOR;
        let probe = breaker.ask(later).unwrap();
        assert!(breaker.ask(later).is_err(), "never two probes");
        assert!(probe.failed(later));
        assert!(breaker.ask(later + OPEN_FOR / 2).is_err());
        assert!(breaker.ask(later + OPEN_FOR).unwrap().answered());
        assert!(!breaker.ask(later + OPEN_FOR).unwrap().answered());
        assert_eq!(breaker.word(later + OPEN_FOR), "closed");
    }

    #[test]
    fn a_probe_that_is_called_off_or_lost_never_blocks_the_next() {
        let now = Instant::now();
        let breaker = opened(now);
        let later = now + OPEN_FOR;
        drop(breaker.ask(later).unwrap());
        let lost = breaker.ask(later).unwrap();
        assert!(breaker.ask(later + OPEN_FOR).is_ok());
        std::mem::forget(lost);
    }
}
