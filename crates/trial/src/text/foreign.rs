//! Text from outside: what a subject says, and what stands in a history file.
//!
//! Such text may contain line breaks and escape codes, with which a program could pose as the lab or take over the terminal. It is made
//! harmless here, where it enters; so everything that the lab records, prints and draws is harmless too.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// How many characters of a line are quoted.
const QUOTE_CHARS: usize = 120;

/// Parses one line of JSON, with all its text made harmless.
///
/// # Errors
/// Returns the reason, which may quote the line and is harmless too.
pub(crate) fn parse<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    // Without an escape in it, the line contains its text as it is.
    let parsed = if !line.contains('\\') && line.chars().all(is_harmless) {
        serde_json::from_str(line)
    } else {
        serde_json::from_str(line).and_then(|mut value: Value| {
            make_harmless(&mut value);
            serde_json::from_value(value)
        })
    };
    parsed.map_err(|error| harmless(&error.to_string()))
}

fn make_harmless(value: &mut Value) {
    match value {
        Value::String(text) => *text = harmless(text),
        Value::Array(values) => values.iter_mut().for_each(make_harmless),
        Value::Object(fields) => fields.values_mut().for_each(make_harmless),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces everything that a terminal would not just print: line breaks, escape codes, invisible characters, changes of direction.
pub fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_harmless(letter) {
            safe.push(letter);
        } else {
            safe.extend(letter.escape_debug());
        }
    }
    safe
}

fn is_harmless(letter: char) -> bool {
    // Quotation marks and backslashes are escaped only in Rust.
    matches!(letter, '\'' | '"' | '\\') || letter.escape_debug().len() == 1
}

/// Quotes the beginning of a line so that it is safe to print.
pub(crate) fn quote(line: &str) -> String {
    let beginning: String = line.chars().take(QUOTE_CHARS).collect();
    let more = if beginning.len() < line.len() {
        "…"
    } else {
        ""
    };
    format!("'{}{more}'", harmless(&beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        assert_eq!(
            harmless("a\nb\r\tc\x1b[2J\u{9b}\0"),
            r"a\nb\r\tc\u{1b}[2J\u{9b}\0"
        );
        assert_eq!(
            harmless("\u{202e}\u{2066}\u{2028}\u{200b}\u{a0}\u{feff}"),
            r"\u{202e}\u{2066}\u{2028}\u{200b}\u{a0}\u{feff}"
        );
        let plain = r#"can't open "C:\ü": 5 µs – 鎖 ✗"#;
        assert_eq!(harmless(plain), plain);
    }

    #[test]
    fn all_text_of_a_line_is_made_harmless() {
        let value: Value = parse(r#"{"a":["x\n"],"b":{"c":"\u001b"},"d":1,"e":"it's"}"#).unwrap();
        let expected = serde_json::json!({"a":["x\\n"],"b":{"c":"\\u{1b}"},"d":1,"e":"it's"});
        assert_eq!(value, expected);
        let error = parse::<u8>(r#""x\nHELD""#).unwrap_err();
        assert!(error.contains("HELD") && !error.contains('\n'), "{error}");
        assert!(parse::<u8>("\"\u{1b}\"").is_err());
        assert_eq!(parse::<f64>("0.1"), Ok(0.1));
        assert_eq!(parse::<u64>(&u64::MAX.to_string()), Ok(u64::MAX));
    }
}
