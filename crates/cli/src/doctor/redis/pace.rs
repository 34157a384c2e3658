//! How fast the server answers, and what time it thinks it is.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fencepost_trial::report::numbers::{count, decimal};

use super::super::finding::{Finding, Harm};
use super::server::{Gone, Server};

const TRIES: usize = 200;
/// From here on the slowest answers eat into leases of the usual length.
const SLOW: Duration = Duration::from_millis(250);
/// From here on two clocks disagree by more than people put up with.
const APART_MS: f64 = 1_000.0;
/// A clock that is slewed gains less than this while it is watched; one that is set does not.
const STEP_MS: f64 = 100.0;

/// One question for the time.
#[derive(Debug, Clone, Copy)]
struct Sample {
    round_trip: Duration,
    /// The server's clock minus this machine's, in the middle of the round trip.
    ahead_ms: f64,
    /// The same against a clock that is never set.
    against_steady_ms: f64,
}

pub(super) fn judge(server: &mut Server) -> Result<Vec<Finding>, Gone> {
    let start = Instant::now();
    let mut samples = Vec::with_capacity(TRIES);
    for _ in 0..TRIES {
        let asked = Instant::now();
        let wall = SystemTime::now();
        let Some((seconds, micros)) = server.ask::<(u64, u32)>(&["TIME"])?.said() else {
            return Ok(vec![Finding::unknown(
                "clock",
                "this user may not ask for the TIME",
            )]);
        };
        let round_trip = asked.elapsed();
        let theirs = ms(Duration::from_secs(seconds) + Duration::from_micros(micros.into()));
        let half = ms(round_trip) / 2.0;
        let ours = ms(wall.duration_since(UNIX_EPOCH).unwrap_or_default());
        samples.push(Sample {
            round_trip,
            ahead_ms: theirs - ours - half,
            against_steady_ms: theirs - ms(asked.duration_since(start)) - half,
        });
    }
    Ok(vec![round_trip(&samples), clock(&samples)])
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn round_trip(samples: &[Sample]) -> Finding {
    let mut times: Vec<Duration> = samples.iter().map(|sample| sample.round_trip).collect();
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    let (median, slowest) = (at(0.5), at(0.99));
    let said = format!(
        "{} ms (p99 {} ms, {} tries)",
        short(ms(median)),
        short(ms(slowest)),
        count(times.len() as i64)
    );
    let finding = if slowest < SLOW {
        Finding::fine("round trip", format!("round trip {said}"))
    } else {
        Finding::caution("round trip", Harm::Hampered, said)
            .means("So much of a lease is gone before its holder hears of it; a late renewal loses it.")
            .advice("a TTL of many times that; a server nearer by, or with less to do")
    };
    finding
        .figure("p50_ms", rounded(ms(median)))
        .figure("p99_ms", rounded(ms(slowest)))
        .figure("tries", times.len())
}

fn clock(samples: &[Sample]) -> Finding {
    // The fastest answer leaves the least room for error.
    let best = samples.iter().min_by_key(|sample| sample.round_trip);
    let ahead = best.map_or(0.0, |sample| sample.ahead_ms);
    let step = step(samples);
    let finding = if step.abs() >= STEP_MS {
        let what = format!("the server's clock jumped by {} ms meanwhile", signed(step));
        Finding::caution("clock", Harm::Vanishes, what)
            .means("Redis ends leases by that clock: a step forward ends them while they are held.")
            .advice("let the time service slew the clock instead of setting it")
    } else if ahead.abs() >= APART_MS {
        let what = format!("server clock {} ms from this machine's", signed(ahead));
        Finding::caution("clock", Harm::Forgotten, what)
            .means("When it is put right in one step, leases end early or late. After a failover to a server with another time, fences may fall.")
            .advice("a time service on both, which slews; not a step while locks are held")
    } else {
        let what = format!("server clock {} ms from this machine's", signed(ahead));
        Finding::fine("clock", what)
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
    use super::super::super::finding::Severity;
    use super::*;

    fn samples(ahead: impl Fn(usize) -> f64) -> Vec<Sample> {
        let sample = |at| Sample {
            round_trip: Duration::from_micros(200 + at as u64),
            ahead_ms: ahead(at),
            against_steady_ms: ahead(at),
        };
        (0..TRIES).map(sample).collect()
    }

    #[test]
    fn clocks_that_agree_are_fine() {
        let found = clock(&samples(|at| 0.4 + at as f64 / 1e4));
        assert_eq!(found.severity, Severity::Fine);
        assert_eq!(found.what, "server clock +0.4 ms from this machine's");
    }

    #[test]
    fn a_clock_that_is_off_or_jumps_is_told() {
        let found = clock(&samples(|_| -90_000.0));
        assert_eq!(found.severity, Severity::Caution);
        assert_eq!(found.what, "server clock −90,000.0 ms from this machine's");
        let found = clock(&samples(|at| if at < 99 { 0.0 } else { 5_000.0 }));
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
        assert_eq!(clock(&samples).severity, Severity::Fine);
        assert_eq!(round_trip(&samples).severity, Severity::Fine);
        for sample in &mut samples[..10] {
            sample.round_trip = Duration::from_millis(300);
        }
        assert_eq!(round_trip(&samples).severity, Severity::Caution);
    }
}
