//! Times in addresses: `500ms`, `30s`, `90m`, `24h`, `7d`.

use std::time::Duration;

/// Returns `None` if the text is not a whole number with a unit, or the time is too long to be counted.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|symbol: char| symbol.is_ascii_alphabetic());
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number)?;
    Some(Duration::from_millis(number.checked_mul(unit_ms)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_known() {
        for (text, ms) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("90m", 5_400_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_time_is_refused() {
        for text in [
            "",
            "s",
            "30",
            "30 s",
            "1.5s",
            "+3s",
            "-3s",
            "3S",
            "3w",
            "99999999999999999d",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
