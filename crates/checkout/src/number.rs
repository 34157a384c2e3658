//! Reads whole numbers from JSON: `2` and `2.0` are the same number, and `1.5` is not a whole number.

use serde_json::Number;

/// Beyond this, floating point numbers cannot represent every whole number.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The whole number that a JSON number stands for, or `None` if it is not whole or too large.
pub fn whole(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|float| float.fract() == 0.0);
    let exact = float.filter(|float| float.abs() < EXACT);
    number.as_i64().or(exact.map(|float| float as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_a_whole_number_is_one() {
        let read = |text: &str| whole(&serde_json::from_str(text).unwrap());
        assert_eq!(read("2"), Some(2));
        assert_eq!(read("2.0"), Some(2));
        assert_eq!(read("-0.0"), Some(0));
        assert_eq!(read("9223372036854775807"), Some(i64::MAX));
        for none in [
            "1.5",
            "9223372036854775808",
            "1e300",
            "18446744073709551615",
        ] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
