//! Text from outside that is only kept and shown: bounded, on one line.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The most characters of a text.
pub const MAX_TEXT: usize = 200;

/// At most 200 characters, none of them a control character. (A database may refuse those, and a log line would break.)
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$", example = "Desk lamp")]
pub struct Text(String);

/// What is no such text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a text has at most 200 characters, and no control characters")]
pub struct NotAText;

impl Text {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Text {
    type Error = NotAText;

    fn try_from(text: String) -> Result<Self, NotAText> {
        match text.chars().count() <= MAX_TEXT && !text.contains(char::is_control) {
            true => Ok(Self(text)),
            false => Err(NotAText),
        }
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_no_control_characters_and_an_end() {
        for wrong in ["a\0b", "line\nline", "\u{7f}", &"x".repeat(201)] {
            assert_eq!(Text::try_from(wrong.to_owned()), Err(NotAText));
        }
        for right in ["", "Größe 40 «extra»", &"ü".repeat(200)] {
            assert!(Text::try_from(right.to_owned()).is_ok());
        }
    }
}
