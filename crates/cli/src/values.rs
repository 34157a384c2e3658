//! The values of flags: numbers within a range, durations, seeds, and the errors for values that are refused.

use std::fmt;
use std::time::Duration;

use fencepost_trial::holds::storm;
use fencepost_trial::text::numbers::count;

/// A value that a flag does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadValue {
    pub(crate) what: String,
    pub(crate) advice: String,
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for BadValue {}

/// A number that a flag does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutOfRange {
    pub(crate) what: String,
    /// What the flag accepts.
    pub(crate) range: String,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for OutOfRange {}

/// The numbers that a flag accepts, and how to speak of those that it refuses.
pub(crate) struct Range {
    least: u64,
    most: u64,
    /// Follows the range: its unit, or a remark.
    note: &'static str,
    /// The beginning of a sentence about a number, which replaces `N`.
    subject: &'static str,
    /// The ends of that sentence: below the range, and above it.
    faults: (&'static str, &'static str),
}

/// The unit of the times that a flag of a trial takes as plain numbers.
struct Unit {
    nanoseconds: u128,
    name: &'static str,
    /// Follows a range of such times.
    note: &'static str,
}

const MICROSECONDS: Unit = Unit {
    nanoseconds: 1_000,
    name: "microseconds",
    note: " µs, or with a unit: 50us, 5ms",
};
const MILLISECONDS: Unit = Unit {
    nanoseconds: 1_000_000,
    name: "milliseconds",
    note: " ms, or with a unit: 500ms, 2s",
};

const SIZE: (&str, &str) = ("too small", "too large");
const LENGTH: (&str, &str) = ("too short", "too long");
const NUMBER: (&str, &str) = ("too few", "too many");

pub(crate) const STOCK: Range = Range {
    least: 0,
    most: 1_000_000,
    note: "",
    subject: "a stock of N is",
    faults: SIZE,
};
pub(crate) const CONCURRENCY: Range = Range {
    least: 1,
    most: 1_000,
    note: ": each is a real process on this machine",
    subject: "N processes are",
    faults: NUMBER,
};
const DELAY: Range = Range {
    least: 0,
    most: 10_000_000,
    note: MICROSECONDS.note,
    subject: "a delay of N µs is",
    faults: LENGTH,
};
const WAIT: Range = Range {
    least: 0,
    most: 600_000,
    note: MILLISECONDS.note,
    subject: "a wait of N ms is",
    faults: LENGTH,
};
const RETRIES: Range = Range {
    least: 0,
    most: 1_000,
    note: "",
    subject: "N retries are",
    faults: NUMBER,
};
const TTL: Range = Range {
    least: 100,
    most: 600_000,
    note: MILLISECONDS.note,
    subject: "a TTL of N ms is",
    faults: LENGTH,
};
const BUDGET: Range = Range {
    least: 1,
    most: 600_000,
    note: MILLISECONDS.note,
    subject: "a budget of N ms is",
    faults: LENGTH,
};
const WORK: Range = Range {
    least: 0,
    most: 600_000,
    note: MILLISECONDS.note,
    subject: "work of N ms is",
    faults: LENGTH,
};
const RUNS: Range = Range {
    least: 1,
    most: 1_000,
    note: "",
    subject: "N runs are",
    faults: NUMBER,
};
const JOBS: Range = Range {
    least: 1,
    most: 64,
    note: "",
    subject: "N at once are",
    faults: NUMBER,
};
const STORM_PROCESSES: Range = Range {
    least: storm::PROCESSES_MIN as u64,
    most: storm::PROCESSES.len() as u64,
    note: "",
    subject: "N processes are",
    faults: NUMBER,
};
const STORM_NAMES: Range = Range {
    least: 1,
    most: storm::LOCKS.len() as u64,
    note: "",
    subject: "N names are",
    faults: NUMBER,
};
const SEED: Range = Range {
    least: 0,
    // Many JSON readers lose precision beyond 2^53.
    most: (1 << 53) - 1,
    note: "",
    subject: "a seed of N is",
    faults: SIZE,
};
const PORT: Range = Range {
    least: 0,
    most: u16::MAX as u64,
    note: "; 0 for any free port",
    subject: "port N is",
    faults: SIZE,
};
const AT_ONCE: Range = Range {
    least: 1,
    most: 100_000,
    note: "",
    subject: "N at once are",
    faults: NUMBER,
};

pub(crate) fn stock(text: &str) -> Result<u32, OutOfRange> {
    STOCK.parse(text)
}

pub(crate) fn concurrency(text: &str) -> Result<usize, OutOfRange> {
    CONCURRENCY.parse(text)
}

pub(crate) fn delay(text: &str) -> Result<u64, OutOfRange> {
    DELAY.parse_time(text, &MICROSECONDS)
}

pub(crate) fn wait(text: &str) -> Result<u64, OutOfRange> {
    WAIT.parse_time(text, &MILLISECONDS)
}

pub(crate) fn retries(text: &str) -> Result<u32, OutOfRange> {
    RETRIES.parse(text)
}

pub(crate) fn ttl(text: &str) -> Result<u64, OutOfRange> {
    TTL.parse_time(text, &MILLISECONDS)
}

pub(crate) fn budget(text: &str) -> Result<u64, OutOfRange> {
    BUDGET.parse_time(text, &MILLISECONDS)
}

pub(crate) fn work(text: &str) -> Result<u64, OutOfRange> {
    WORK.parse_time(text, &MILLISECONDS)
}

/// Parses how often each scenario is run.
pub(crate) fn runs(text: &str) -> Result<u64, OutOfRange> {
    RUNS.parse(text)
}

/// Parses how many trials run at the same time.
pub(crate) fn jobs(text: &str) -> Result<usize, OutOfRange> {
    JOBS.parse(text)
}

/// Parses how many processes take part in a storm.
pub(crate) fn storm_processes(text: &str) -> Result<usize, OutOfRange> {
    STORM_PROCESSES.parse(text)
}

/// Parses how many locks a storm has.
pub(crate) fn storm_names(text: &str) -> Result<usize, OutOfRange> {
    STORM_NAMES.parse(text)
}

pub(crate) fn seed(text: &str) -> Result<u64, OutOfRange> {
    SEED.parse(text)
}

pub(crate) fn port(text: &str) -> Result<u16, OutOfRange> {
    PORT.parse(text)
}

/// Parses a limit for concurrent requests or connections.
pub(crate) fn at_once(text: &str) -> Result<usize, OutOfRange> {
    AT_ONCE.parse(text)
}

/// Returns a random seed with few digits, so that it is easy to type again.
pub(crate) fn random_seed() -> u64 {
    // If the system has no source of randomness, every run uses seed 0.
    getrandom::u64().unwrap_or(0) % 10_000
}

/// The range as it is written for people: `1 to 1,000`.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |number: u64| count(number.min(i64::MAX as u64) as i64);
        write!(f, "{} to {}", show(self.least), show(self.most))
    }
}

impl Range {
    fn parse<T: TryFrom<u64>>(&self, text: &str) -> Result<T, OutOfRange> {
        match text.parse() {
            Ok(number) => self.accept(number, text),
            Err(_) => Err(self.refuse(format!("'{text}' is not a whole number"))),
        }
    }

    /// Parses a time and returns it in `unit`: a plain number counts in that unit, other times name theirs.
    fn parse_time(&self, text: &str, unit: &Unit) -> Result<u64, OutOfRange> {
        if let Ok(number) = text.parse() {
            return self.accept(number, text);
        }
        let Ok(time) = humantime::parse_duration(text) else {
            return Err(self.refuse(format!("'{text}' is not a duration")));
        };
        let nanoseconds = time.as_nanos();
        if !nanoseconds.is_multiple_of(unit.nanoseconds) {
            let what = format!("{text} is not a whole number of {}", unit.name);
            return Err(self.refuse(what));
        }
        self.accept((nanoseconds / unit.nanoseconds) as i128, text)
    }

    fn refuse(&self, what: String) -> OutOfRange {
        OutOfRange {
            what,
            range: format!("{self}{}", self.note),
        }
    }

    /// Returns the number if it is within the range. `text` is what was typed.
    fn accept<T: TryFrom<u64>>(&self, number: i128, text: &str) -> Result<T, OutOfRange> {
        let accepted = u64::try_from(number)
            .ok()
            .filter(|number| (self.least..=self.most).contains(number))
            .and_then(|number| T::try_from(number).ok());
        accepted.ok_or_else(|| {
            let shown = i64::try_from(number).map_or_else(|_| text.to_owned(), count);
            let (below, above) = self.faults;
            let fault = if number < self.least.into() {
                below
            } else {
                above
            };
            self.refuse(format!("{} {fault}", self.subject.replacen('N', &shown, 1)))
        })
    }
}

/// Parses a duration; zero is allowed.
pub(crate) fn duration(text: &str) -> Result<Duration, BadValue> {
    humantime::parse_duration(text).map_err(|_| BadValue {
        what: format!("'{text}' is not a duration"),
        advice: "a number with its unit: 500ms, 30s, 5m, 1h30m".into(),
    })
}

/// Returns the name that is most similar to `text`, or `None` if no name is similar.
pub(crate) fn nearest<'a>(text: &str, names: &[&'a str]) -> Option<&'a str> {
    let like = names.iter().map(|name| (strsim::jaro(text, name), *name));
    like.filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_named_in_words() {
        let said = |result: Result<usize, OutOfRange>| result.unwrap_err();
        let many = said(concurrency("100000"));
        assert_eq!(many.what, "100,000 processes are too many");
        assert_eq!(
            many.range,
            "1 to 1,000: each is a real process on this machine"
        );
        assert_eq!(said(concurrency("0")).what, "0 processes are too few");
        assert_eq!(stock("-1").unwrap_err().what, "a stock of −1 is too small");
        assert_eq!(
            stock("ten").unwrap_err().what,
            "'ten' is not a whole number"
        );
        assert_eq!(
            stock("99999999999999999999").unwrap_err().what,
            "a stock of 99999999999999999999 is too large"
        );
        assert_eq!((stock("0"), stock("1000000")), (Ok(0), Ok(1_000_000)));
        assert_eq!(seed("9007199254740991"), Ok((1 << 53) - 1));
    }

    #[test]
    fn times_of_trials_may_have_a_unit() {
        assert_eq!((ttl("500"), ttl("500ms")), (Ok(500), Ok(500)));
        assert_eq!((wait("2s"), work("1s 500ms")), (Ok(2_000), Ok(1_500)));
        assert_eq!(budget("10m"), Ok(600_000));
        assert_eq!((delay("50"), delay("50us")), (Ok(50), Ok(50)));
        assert_eq!((delay("5ms"), delay("0s")), (Ok(5_000), Ok(0)));
        let refused = ttl("2h").unwrap_err();
        assert_eq!(refused.what, "a TTL of 7,200,000 ms is too long");
        assert_eq!(
            refused.range,
            "100 to 600,000 ms, or with a unit: 500ms, 2s"
        );
        assert_eq!(
            ttl("2 parsecs").unwrap_err().what,
            "'2 parsecs' is not a duration"
        );
        let refused = delay("1ns").unwrap_err();
        assert_eq!(refused.what, "1ns is not a whole number of microseconds");
        assert_eq!(
            refused.range,
            "0 to 10,000,000 µs, or with a unit: 50us, 5ms"
        );
        assert_eq!(stock("2s").unwrap_err().what, "'2s' is not a whole number");
    }

    #[test]
    fn a_duration_has_a_unit() {
        assert_eq!(duration("1m 500ms"), Ok(Duration::from_millis(60_500)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for wrong in ["", "30", "-1s", "soon", "99999999999999999999s"] {
            let error = duration(wrong).unwrap_err();
            assert_eq!(error.what, format!("'{wrong}' is not a duration"));
        }
    }
}
