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

/// Shortens a fence by the prefix that long fences have in common.
pub fn shorten(fence: &str, among: &[&str]) -> String {
    const KEPT: usize = 3;
    let digits = |fence: &str| fence.split('.').next().unwrap_or_default().len();
    let own = digits(fence);
    if own <= 2 * KEPT || among.iter().any(|other| digits(other) != own) {
        return fence.to_owned();
    }
    let common = |other: &&str| {
        let pairs = fence.chars().zip(other.chars());
        pairs.take_while(|(one, other)| one == other).count()
    };
    let shared = among.iter().map(common).min().unwrap_or(0);
    match shared.min(own - KEPT) {
        0 => fence.to_owned(),
        cut => format!("…{}", &fence[cut..]),
    }
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
        let short = |fences: [&str; 2]| fences.map(|fence| shorten(fence, &fences));
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
        assert_eq!(shorten("none", &[]), "none");
    }
}
