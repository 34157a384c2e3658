//! Measures how fast a server answers and how far its clock is from ours, with the rules for both.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fencepost_trial::text::numbers::{count, decimal};

use super::finding::Harm;
use super::rules::{Check, Rule};

pub(super) const ROUND_TRIP: &str = "round trip";
/// How many requests are measured.
pub(super) const TRIES: usize = 200;
/// The difference between two clocks from which it is a caution.
const APART_MS: f64 = 1_000.0;
/// The smallest step that counts as a jump. A clock that is slewed changes less than this during the measurement.
const STEP_MS: f64 = 100.0;

/// How long answers took, or why that is unknown.
pub(super) type RoundTrip = Result<Times, String>;

pub(super) const ROUND_TRIP_CHECKS: &[Check<RoundTrip>] = &[Check {
    topic: ROUND_TRIP,
    reads: "200 small requests",
    rules: &[
        Rule::<RoundTrip>::unknown()
            .finds(|read| read.as_ref().err().cloned()),
        Rule::<RoundTrip>::caution(
            Harm::Hampered,
            "p99 of 250 ms or more (`--slow`): slow answers use up a good part of a lease with the default TTL",
        )
        .when(|read| read.as_ref().is_ok_and(Times::is_slow))
        .say_with(|read| said(read, ""))
        .means("That much of a lease has passed before its holder hears of it, and a late renewal loses the lease.")
        .advise("use a TTL many times longer, or a server that is closer or less busy"),
        Rule::<RoundTrip>::fine().say_with(|read| said(read, "round trip ")),
    ],
    figures: |read| match read {
        Err(_) => Vec::new(),
        Ok(times) => vec![
            ("p50_ms", rounded(ms(times.median)).into()),
            ("p99_ms", rounded(ms(times.slowest)).into()),
            ("tries", times.tries.into()),
        ],
    },
}];

fn said(read: &RoundTrip, label: &str) -> String {
    let words = |times: &Times| {
        let (median, slowest) = (short(ms(times.median)), short(ms(times.slowest)));
        let tries = count(times.tries as i64);
        format!("{label}{median} ms (p99 {slowest} ms, {tries} tries)")
    };
    read.as_ref().map(words).unwrap_or_default()
}

/// How long answers took.
#[derive(Debug, Clone)]
pub(super) struct Times {
    median: Duration,
    /// The 99th percentile.
    slowest: Duration,
    tries: usize,
    /// The limit of `--slow`.
    slow: Duration,
}

impl Times {
    /// Summarises round trips. `times` must not be empty.
    pub(super) fn of(mut times: Vec<Duration>, slow: Duration) -> Self {
        times.sort();
        let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
        Self {
            median: at(0.5),
            slowest: at(0.99),
            tries: times.len(),
            slow,
        }
    }

    fn is_slow(&self) -> bool {
        rounded(ms(self.slowest)) >= ms(self.slow)
    }
}

/// What the measurements say about the server's clock.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    ahead_ms: f64,
    step_ms: f64,
    /// What ends leases by that clock, if anything does.
    keeper: Option<&'static str>,
}

pub(super) const CLOCK_CHECKS: &[Check<Clock>] = &[Check {
    topic: "clock",
    reads: "the server's time, 200 times",
    rules: &[
        Rule::<Clock>::caution(Harm::Vanishes, "it jumped during the measurement")
            .when(|clock| clock.keeper.is_some() && clock.step_ms.abs() >= STEP_MS)
            .say_with(|clock| {
                let step = signed(clock.step_ms);
                format!("the server's clock jumped by {step} ms during the measurement")
            })
            .means_with(|clock| {
                let keeper = clock.keeper.unwrap_or_default();
                format!("{keeper} ends leases by that clock: a jump forward ends them while they are held.")
            })
            .advise("let the time service slew the clock instead of setting it"),
        Rule::<Clock>::caution(Harm::Forgotten, "it is a second or more away from this machine's clock")
            .when(|clock| clock.keeper.is_some() && clock.ahead_ms.abs() >= APART_MS)
            .say_with(Clock::agrees)
            .means("If the clock is corrected in one step, leases end early or late. After a failover to a server with a different time, fences may fall.")
            .advise("run a time service that slews the clock on both machines; do not set the clock while locks are held"),
        Rule::<Clock>::fine().say_with(Clock::agrees),
    ],
    figures: |clock| {
        vec![
            ("ahead_ms", rounded(clock.ahead_ms).into()),
            ("step_ms", rounded(clock.step_ms).into()),
        ]
    },
}];

impl Clock {
    /// Compares the clocks in these samples. `keeper` is what ends leases by that clock, if anything does.
    pub(super) fn of(samples: &[Sample], keeper: Option<&'static str>) -> Self {
        // The fastest answer leaves the least room for error.
        let best = samples.iter().min_by_key(|sample| sample.round_trip);
        Self {
            ahead_ms: best.map_or(0.0, |sample| sample.ahead_ms),
            step_ms: step(samples),
            keeper,
        }
    }

    fn agrees(&self) -> String {
        let ahead = signed(self.ahead_ms);
        format!("server clock {ahead} ms from this machine's")
    }
}

/// Returns the round trips of these samples.
pub(super) fn times(samples: &[Sample], slow: Duration) -> Times {
    let times = samples.iter().map(|sample| sample.round_trip);
    Times::of(times.collect(), slow)
}

/// One reading of the server's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    round_trip: Duration,
    /// The server's clock minus this machine's, in the middle of the round trip.
    ahead_ms: f64,
    /// The server's clock minus a monotonic clock of this machine.
    against_steady_ms: f64,
}

/// A request for the server's time that is under way.
pub(super) struct Stopwatch {
    at: Instant,
    wall: SystemTime,
}

impl Stopwatch {
    pub(super) fn now() -> Self {
        Self {
            at: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// Completes the reading. `theirs` is the server's time since 1970; `start` is when the first request was sent.
    pub(super) fn answered(self, theirs: Duration, start: Instant) -> Sample {
        let round_trip = self.at.elapsed();
        let half = ms(round_trip) / 2.0;
        let ours = ms(self.wall.duration_since(UNIX_EPOCH).unwrap_or_default());
        Sample {
            round_trip,
            ahead_ms: ms(theirs) - ours - half,
            against_steady_ms: ms(theirs) - ms(self.at.duration_since(start)) - half,
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the largest jump of the server's clock between two samples, in ms, less the uncertainty that slow answers cause.
fn step(samples: &[Sample]) -> f64 {
    let pairs = samples.iter().zip(samples.iter().skip(1));
    let steps = pairs.map(|(one, next)| {
        let moved = next.against_steady_ms - one.against_steady_ms;
        let blur = (ms(one.round_trip) + ms(next.round_trip)) / 2.0;
        moved.signum() * (moved.abs() - blur).max(0.0)
    });
    let largest = steps.max_by(|one, other| one.abs().total_cmp(&other.abs()));
    largest.unwrap_or(0.0)
}

/// Formats a number of ms that may be too small for one decimal place.
fn short(ms: f64) -> String {
    match ms {
        ..0.05 => "under 0.1".to_owned(),
        _ => decimal(ms),
    }
}

/// Rounds to three decimal places, and turns −0 into 0.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3 + 0.0
}

/// Formats a number with its sign, like `+0.4` or `−1,200.0`.
fn signed(number: f64) -> String {
    let sign = if number <= -0.05 { '−' } else { '+' };
    format!("{sign}{}", decimal(number.abs()))
}

#[cfg(test)]
mod tests {
    use super::super::finding::{Finding, Severity};
    use super::super::rules::apply;
    use super::*;

    const SLOW: Duration = Duration::from_millis(250);

    fn samples(ahead: impl Fn(usize) -> f64) -> Vec<Sample> {
        let sample = |at| Sample {
            round_trip: Duration::from_micros(200 + at as u64),
            ahead_ms: ahead(at),
            against_steady_ms: ahead(at),
        };
        (0..TRIES).map(sample).collect()
    }

    fn clock(samples: &[Sample], keeper: Option<&'static str>) -> Finding {
        apply(CLOCK_CHECKS, &Clock::of(samples, keeper)).remove(0)
    }

    fn clock_of(samples: &[Sample]) -> Finding {
        clock(samples, Some("Redis"))
    }

    fn round_trip(samples: &[Sample]) -> Finding {
        apply(ROUND_TRIP_CHECKS, &Ok(times(samples, SLOW))).remove(0)
    }

    #[test]
    fn a_clock_that_no_lease_depends_on_is_only_told() {
        let found = clock(&samples(|_| -90_000.0), None);
        assert_eq!(found.severity, Severity::Fine);
        assert_eq!(found.what, "server clock −90,000.0 ms from this machine's");
    }

    #[test]
    fn clocks_that_agree_are_fine() {
        let found = clock_of(&samples(|at| 0.4 + at as f64 / 1e4));
        assert_eq!(found.severity, Severity::Fine);
        assert_eq!(found.what, "server clock +0.4 ms from this machine's");
    }

    #[test]
    fn a_clock_that_is_off_or_jumps_is_told() {
        let found = clock_of(&samples(|_| -90_000.0));
        assert_eq!(found.severity, Severity::Caution);
        assert_eq!(found.what, "server clock −90,000.0 ms from this machine's");
        let found = clock_of(&samples(|at| if at < 99 { 0.0 } else { 5_000.0 }));
        assert_eq!(found.severity, Severity::Caution);
        assert!(
            found.what.contains("jumped by +4,999.7 ms"),
            "{}",
            found.what
        );
    }

    #[test]
    fn one_slow_answer_is_no_step_and_no_slowness() {
        let mut samples = samples(|_| 0.0);
        samples[50].round_trip = Duration::from_secs(3);
        samples[50].against_steady_ms = 1_400.0;
        assert_eq!(clock_of(&samples).severity, Severity::Fine);
        assert_eq!(round_trip(&samples).severity, Severity::Fine);
        for sample in &mut samples[..10] {
            sample.round_trip = Duration::from_millis(300);
        }
        let slow = round_trip(&samples);
        assert_eq!(slow.severity, Severity::Caution);
        assert!(
            slow.what.starts_with("0.3 ms (p99 300.0 ms"),
            "{}",
            slow.what
        );
        assert_eq!(slow.figures["p99_ms"], 300.0);
    }

    #[test]
    fn a_round_trip_that_is_not_known_is_not_called_slow() {
        let unknown = Err("no answer in time".to_owned());
        let found = apply(ROUND_TRIP_CHECKS, &unknown).remove(0);
        assert_eq!(found, Finding::unknown(ROUND_TRIP, "no answer in time"));
    }
}
