//! Parses the durations of flags: `500ms`, `30s`, `1h 30m`.

use std::time::Duration;

use super::BadValue;

/// Parses a duration; zero is allowed.
pub(crate) fn duration(text: &str) -> Result<Duration, BadValue> {
    humantime::parse_duration(text).map_err(|_| BadValue {
        what: format!("'{text}' is not a duration"),
        advice: "a number with its unit: 500ms, 30s, 5m, 1h30m".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
