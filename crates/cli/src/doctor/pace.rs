//! How fast a server answers, and what time it thinks it is.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fencepost_trial::text::numbers::{count, decimal};
use serde_json::Value;

use super::finding::{Finding, Harm};

pub(super) const ROUND_TRIP: &str = "round trip";
/// How often a server is asked.
pub(super) const TRIES: usize = 200;
/// From here on two clocks disagree by more than people put up with.
const APART_MS: f64 = 1_000.0;
/// A clock that is slewed gains less than this while it is watched; one that is set does not.
const STEP_MS: f64 = 100.0;

/// One question for the time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    round_trip: Duration,
    /// The server's clock minus this machine's, in the middle of the round trip.
    ahead_ms: f64,
    /// The same against a clock that is never set.
    against_steady_ms: f64,
}

/// A question that is under way.
pub(super) struct Asked {
    at: Instant,
    wall: SystemTime,
}

impl Asked {
    pub(super) fn now() -> Self {
        Self {
            at: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// The server says that this much has passed since 1970; `start` is when the first was asked.
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

/// What `samples` say; `keeper` is who ends leases by that clock, if anybody does.
pub(super) fn judge(samples: &[Sample], keeper: Option<&str>) -> Vec<Finding> {
    let times: Vec<Duration> = samples.iter().map(|sample| sample.round_trip).collect();
    vec![round_trip(&times), clock(samples, keeper)]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Whether it is slow is for [`weigh`] to say. `times` must not be empty.
pub(super) fn round_trip(times: &[Duration]) -> Finding {
    let mut times = times.to_vec();
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    let (median, slowest) = (at(0.5), at(0.99));
    let said = format!(
        "{} ms (p99 {} ms, {} tries)",
        short(ms(median)),
        short(ms(slowest)),
        count(times.len() as i64)
    );
    Finding::fine(ROUND_TRIP, format!("{ROUND_TRIP} {said}"))
        .figure("p50_ms", rounded(ms(median)))
        .figure("p99_ms", rounded(ms(slowest)))
        .figure("tries", times.len())
}

/// Makes a caution of a round trip whose slowest answers take `slow` or longer; others stay what they are.
pub(super) fn weigh(finding: Finding, slow: Duration) -> Finding {
    let p99 = finding.figures.get("p99_ms").and_then(Value::as_f64);
    if finding.topic != ROUND_TRIP || p99.is_none_or(|p99| p99 < ms(slow)) {
        return finding;
    }
    let said = finding.what.trim_start_matches(ROUND_TRIP).trim_start();
    let mut slow = Finding::caution(ROUND_TRIP, Harm::Hampered, said)
        .means("So much of a lease is gone before its holder hears of it; a late renewal loses it.")
        .advice("a TTL of many times that; a server nearer by, or with less to do");
    slow.figures = finding.figures;
    slow
}

fn clock(samples: &[Sample], keeper: Option<&str>) -> Finding {
    // The fastest answer leaves the least room for error.
    let best = samples.iter().min_by_key(|sample| sample.round_trip);
    let ahead = best.map_or(0.0, |sample| sample.ahead_ms);
    let step = step(samples);
    let agrees = format!("server clock {} ms from this machine's", signed(ahead));
    let finding = if let Some(keeper) = keeper.filter(|_| step.abs() >= STEP_MS) {
        let what = format!("the server's clock jumped by {} ms meanwhile", signed(step));
        Finding::caution("clock", Harm::Vanishes, what)
            .means(format!(
                "{keeper} ends leases by that clock: a step forward ends them while they are held."
            ))
            .advice("let the time service slew the clock instead of setting it")
    } else if keeper.is_some() && ahead.abs() >= APART_MS {
        Finding::caution("clock", Harm::Forgotten, agrees)
            .means("When it is put right in one step, leases end early or late. After a failover to a server with another time, fences may fall.")
            .advice("a time service on both, which slews; not a step while locks are held")
    } else {
        Finding::fine("clock", agrees)
    };
    finding
        .figure("ahead_ms", rounded(ahead))
        .figure("step_ms", rounded(step))
}

/// How much the server's clock moved more than time did, from one sample to the next, at most; slow answers blur it.
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

/// For figures that may be too small for a decimal.
fn short(ms: f64) -> String {
    match ms {
        ..0.05 => "under 0.1".to_owned(),
        _ => decimal(ms),
    }
}

/// Without a zero that is less than nothing.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3 + 0.0
}

/// As `+0.4` or `−1,200.0`.
fn signed(number: f64) -> String {
    let sign = if number <= -0.05 { '−' } else { '+' };
    format!("{sign}{}", decimal(number.abs()))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
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

    fn clock_of(samples: &[Sample]) -> Finding {
        clock(samples, Some("Redis"))
    }

    fn times(samples: &[Sample]) -> Vec<Duration> {
        samples.iter().map(|sample| sample.round_trip).collect()
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
        let weighed = |samples: &[Sample]| weigh(round_trip(&times(samples)), SLOW);
        assert_eq!(weighed(&samples).severity, Severity::Fine);
        for sample in &mut samples[..10] {
            sample.round_trip = Duration::from_millis(300);
        }
        let slow = weighed(&samples);
        assert_eq!(slow.severity, Severity::Caution);
        assert!(
            slow.what.starts_with("0.3 ms (p99 300.0 ms"),
            "{}",
            slow.what
        );
        assert_eq!(slow.figures["p99_ms"], 300.0);
    }

    #[test]
    fn only_round_trips_are_weighed() {
        let other = Finding::fine("clock", "").figure("p99_ms", 1e9);
        assert_eq!(weigh(other.clone(), SLOW), other);
        let unknown = Finding::unknown(ROUND_TRIP, "no answer in time");
        assert_eq!(weigh(unknown.clone(), Duration::ZERO), unknown);
    }
}
