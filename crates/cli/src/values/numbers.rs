//! Parses the numbers of flags and checks their ranges.

use std::fmt;

pub(crate) fn stock(text: &str) -> Result<u32, OutOfRange> {
    let range = Range {
        least: 0,
        most: 1_000_000,
        note: "",
    };
    range
        .parse(
            text,
            |n| format!("a stock of {n} is"),
            ("too small", "too large"),
        )
        .map(|n| n as u32)
}

pub(crate) fn concurrency(text: &str) -> Result<usize, OutOfRange> {
    let range = Range {
        least: 1,
        most: 1_000,
        note: ": each is a real process on this machine",
    };
    range
        .parse(
            text,
            |n| format!("{n} processes are"),
            ("too few", "too many"),
        )
        .map(|n| n as usize)
}

pub(crate) fn delay(text: &str) -> Result<u64, OutOfRange> {
    let range = Range {
        least: 0,
        most: 10_000_000,
        note: " µs",
    };
    range.parse(
        text,
        |n| format!("a delay of {n} µs is"),
        ("too short", "too long"),
    )
}

pub(crate) fn wait(text: &str) -> Result<u64, OutOfRange> {
    let range = Range {
        least: 0,
        most: 600_000,
        note: " ms",
    };
    range.parse(
        text,
        |n| format!("a wait of {n} ms is"),
        ("too short", "too long"),
    )
}

pub(crate) fn retries(text: &str) -> Result<u32, OutOfRange> {
    let range = Range {
        least: 0,
        most: 1_000,
        note: "",
    };
    range
        .parse(
            text,
            |n| format!("{n} retries are"),
            ("too few", "too many"),
        )
        .map(|n| n as u32)
}

pub(crate) fn ttl(text: &str) -> Result<u64, OutOfRange> {
    let range = Range {
        least: 100,
        most: 600_000,
        note: " ms",
    };
    range.parse(
        text,
        |n| format!("a TTL of {n} ms is"),
        ("too short", "too long"),
    )
}

pub(crate) fn budget(text: &str) -> Result<u64, OutOfRange> {
    let range = Range {
        least: 1,
        most: 600_000,
        note: " ms",
    };
    range.parse(
        text,
        |n| format!("a budget of {n} ms is"),
        ("too short", "too long"),
    )
}

pub(crate) fn work(text: &str) -> Result<u64, OutOfRange> {
    let range = Range {
        least: 0,
        most: 600_000,
        note: " ms",
    };
    range.parse(
        text,
        |n| format!("work of {n} ms is"),
        ("too short", "too long"),
    )
}

pub(crate) fn seed(text: &str) -> Result<u64, OutOfRange> {
    // Many JSON readers lose precision beyond 2^53.
    let range = Range {
        least: 0,
        most: (1 << 53) - 1,
        note: "",
    };
    range.parse(
        text,
        |n| format!("a seed of {n} is"),
        ("too small", "too large"),
    )
}

/// A random seed with few digits, so that it is easy to type again.
pub(crate) fn random_seed() -> u64 {
    // If the system has no source of randomness, every run uses seed 0.
    getrandom::u64().unwrap_or(0) % 10_000
}

pub(crate) fn port(text: &str) -> Result<u16, OutOfRange> {
    let range = Range {
        least: 0,
        most: u64::from(u16::MAX),
        note: "; 0 for any free port",
    };
    range
        .parse(text, |n| format!("port {n} is"), ("too small", "too large"))
        .map(|n| n as u16)
}

/// A limit for concurrent requests or connections.
pub(crate) fn at_once(text: &str) -> Result<usize, OutOfRange> {
    let range = Range {
        least: 1,
        most: 100_000,
        note: "",
    };
    range
        .parse(
            text,
            |n| format!("{n} at once are"),
            ("too few", "too many"),
        )
        .map(|n| n as usize)
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

/// The numbers that a flag accepts.
struct Range {
    least: u64,
    most: u64,
    note: &'static str,
}

impl Range {
    fn parse(
        &self,
        text: &str,
        name: impl Fn(String) -> String,
        (below, above): (&str, &str),
    ) -> Result<u64, OutOfRange> {
        use fencepost_trial::text::numbers::count;
        let show = |number: u64| count(number.min(i64::MAX as u64) as i64);
        let range = format!("{} to {}{}", show(self.least), show(self.most), self.note);
        let Ok(number) = text.parse::<i128>() else {
            return Err(OutOfRange {
                what: format!("'{text}' is not a whole number"),
                range,
            });
        };
        match u64::try_from(number) {
            Ok(number) if (self.least..=self.most).contains(&number) => Ok(number),
            _ => {
                let shown = i64::try_from(number).map_or_else(|_| text.to_owned(), count);
                let fault = if number < self.least.into() {
                    below
                } else {
                    above
                };
                Err(OutOfRange {
                    what: format!("{} {fault}", name(shown)),
                    range,
                })
            }
        }
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
