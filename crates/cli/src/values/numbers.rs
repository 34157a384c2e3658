//! Parses the numbers of flags and checks their ranges.

use std::fmt;

use fencepost_trial::holds::storm;
use fencepost_trial::text::numbers::count;

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
    note: " µs",
    subject: "a delay of N µs is",
    faults: LENGTH,
};
const WAIT: Range = Range {
    least: 0,
    most: 600_000,
    note: " ms",
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
    note: " ms",
    subject: "a TTL of N ms is",
    faults: LENGTH,
};
const BUDGET: Range = Range {
    least: 1,
    most: 600_000,
    note: " ms",
    subject: "a budget of N ms is",
    faults: LENGTH,
};
const WORK: Range = Range {
    least: 0,
    most: 600_000,
    note: " ms",
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
    DELAY.parse(text)
}

pub(crate) fn wait(text: &str) -> Result<u64, OutOfRange> {
    WAIT.parse(text)
}

pub(crate) fn retries(text: &str) -> Result<u32, OutOfRange> {
    RETRIES.parse(text)
}

pub(crate) fn ttl(text: &str) -> Result<u64, OutOfRange> {
    TTL.parse(text)
}

pub(crate) fn budget(text: &str) -> Result<u64, OutOfRange> {
    BUDGET.parse(text)
}

pub(crate) fn work(text: &str) -> Result<u64, OutOfRange> {
    WORK.parse(text)
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

/// A random seed with few digits, so that it is easy to type again.
pub(crate) fn random_seed() -> u64 {
    // If the system has no source of randomness, every run uses seed 0.
    getrandom::u64().unwrap_or(0) % 10_000
}

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

/// The range as it is written for people: `1 to 1,000`.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |number: u64| count(number.min(i64::MAX as u64) as i64);
        write!(f, "{} to {}", show(self.least), show(self.most))
    }
}

impl Range {
    fn parse<T: TryFrom<u64>>(&self, text: &str) -> Result<T, OutOfRange> {
        let refused = |what: String| OutOfRange {
            what,
            range: format!("{self}{}", self.note),
        };
        let Ok(number) = text.parse::<i128>() else {
            return Err(refused(format!("'{text}' is not a whole number")));
        };
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
            refused(format!("{} {fault}", self.subject.replacen('N', &shown, 1)))
        })
    }
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
}
