//! Formats numbers for people: `1,524.1`, `−9`, `nine updates`.

/// Formats a count with thousands separators and a true minus sign.
pub fn count(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    if number < 0 {
        text.push('−');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a nonnegative number with one decimal and thousands separators.
pub fn decimal(number: f64) -> String {
    let tenths = (number * 10.0).round().max(0.0) as i64;
    format!("{}.{}", count(tenths / 10), tenths % 10)
}

/// Formats nanoseconds as milliseconds.
pub fn ms(ns: u64) -> String {
    decimal(ns as f64 / 1e6)
}

/// Formats a duration as number and unit: milliseconds below 10 s, then seconds, then minutes.
pub fn duration(ns: u64) -> (String, &'static str) {
    let seconds = ns as f64 / 1e9;
    match seconds {
        ..10.0 => (ms(ns), "ms"),
        10.0..120.0 => (decimal(seconds), "s"),
        _ => (count((seconds / 60.0).round() as i64), "min"),
    }
}

/// Shortens long fences by the prefix that all of a run have in common.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShortFences<'a> {
    first: &'a str,
    /// The length of the prefix that all have in common.
    shared: usize,
    /// The number of digits of each, if all have the same number.
    digits: Option<usize>,
}

impl<'a> ShortFences<'a> {
    /// The digits at the end that are kept.
    const KEPT: usize = 3;

    /// Looks at all fences of a run.
    pub fn among(fences: &[&'a str]) -> Self {
        let Some(first) = fences.first() else {
            return Self::default();
        };
        let own = digits(first);
        let is_even = fences.iter().all(|other| digits(other) == own);
        let shared = fences.iter().map(|other| common(first, other)).min();
        Self {
            first,
            shared: shared.unwrap_or(0),
            digits: is_even.then_some(own),
        }
    }

    /// Returns the end of this fence, or all of it if it is short or the fences have nothing in common.
    pub fn shorten(&self, fence: &str) -> String {
        let own = digits(fence);
        if own <= 2 * Self::KEPT || self.digits != Some(own) {
            return fence.to_owned();
        }
        let shared = common(fence, self.first).min(self.shared);
        match fence.split_at_checked(shared.min(own - Self::KEPT)) {
            Some((cut, rest)) if !cut.is_empty() => format!("…{rest}"),
            _ => fence.to_owned(),
        }
    }
}

fn digits(fence: &str) -> usize {
    fence.split('.').next().unwrap_or_default().len()
}

/// Returns the length of the beginning that two fences have in common.
fn common(one: &str, other: &str) -> usize {
    let pairs = one.bytes().zip(other.bytes());
    pairs.take_while(|(one, other)| one == other).count()
}

/// Formats a count with its noun: `1 order`, `2 orders`.
pub fn plural(number: usize, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        count(number as i64),
        if number == 1 { one } else { many }
    )
}

/// Formats a count with its noun, with small numbers in words: `nine updates`.
pub fn in_words(number: i64, one: &str, many: &str) -> String {
    format!("{} {}", word(number), if number == 1 { one } else { many })
}

/// Formats small counts in words, others in digits.
pub fn word(number: i64) -> String {
    const WORDS: [&str; 13] = [
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    let small = usize::try_from(number)
        .ok()
        .and_then(|index| WORDS.get(index));
    small.map_or_else(|| count(number), |word| (*word).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(
            [0, 999, 1000, 1_000_000, -9, -1234].map(count),
            ["0", "999", "1,000", "1,000,000", "−9", "−1,234"]
        );
        assert_eq!(
            [0.0, 0.04, 9.96, 1524.06].map(decimal),
            ["0.0", "0.0", "10.0", "1,524.1"]
        );
        assert_eq!(duration(9_400_000), ("9.4".into(), "ms"));
        assert_eq!(duration(41_234_000_000), ("41.2".into(), "s"));
        assert_eq!(duration(720_000_000_000), ("12".into(), "min"));
        assert_eq!(in_words(9, "update", "updates"), "nine updates");
        assert_eq!(in_words(40, "update", "updates"), "40 updates");
    }

    #[test]
    fn long_fences_are_told_by_their_ends_and_stay_in_order() {
        let short =
            |fences: [&str; 2]| fences.map(|fence| ShortFences::among(&fences).shorten(fence));
        assert_eq!(short(["1.0", "2.0"]), ["1.0", "2.0"]);
        assert_eq!(
            short(["1450759757219.0", "1450759757220.0"]),
            ["…219.0", "…220.0"]
        );
        assert_eq!(
            short(["1450759757999.0", "1450759758000.3"]),
            ["…7999.0", "…8000.3"]
        );
        assert_eq!(short(["999999999.0", "1000000000.0"])[1], "1000000000.0");
        assert_eq!(ShortFences::among(&[]).shorten("none"), "none");
        assert_eq!(short(["ααααααα1", "ααααααα2"]), ["…α1", "…α2"]);
        assert_eq!(
            short(["ααα€00", "ααα€‚0"])[0],
            "ααα€00",
            "no cut in a letter"
        );
    }
}
