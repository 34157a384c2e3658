//! Text from clients that is only stored and shown: bounded, and on one line.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The most characters of a text.
pub(crate) const MAX_TEXT: usize = 200;

/// At most 200 characters, none of them a control character. (A database may refuse those, and a log line would break.)
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$", example = "Desk lamp")]
pub struct Text(String);

/// The error for an invalid text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a text has at most 200 characters, and no control characters")]
pub struct NotAText;

impl Text {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Text {
    type Error = NotAText;

    fn try_from(text: String) -> Result<Self, NotAText> {
        if text.chars().count() <= MAX_TEXT && !text.contains(char::is_control) {
            Ok(Self(text))
        } else {
            Err(NotAText)
        }
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

/// Characters that change the text direction or break the line, so that a name would look different from what it is.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A name for people: a [`Text`] that is not only white space and has no characters that change the text direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, min_length = 1, max_length = 200, example = "Desk lamp",
    pattern = "^[^\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]*[^\\s\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069][^\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]*$")]
pub struct Name(Text);

/// The error for an invalid name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name has 1 to 200 characters, not only white space, no control characters and none that change the direction of text"
)]
pub struct NotAName;

impl Name {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl TryFrom<String> for Name {
    type Error = NotAName;

    fn try_from(text: String) -> Result<Self, NotAName> {
        let is_blank = text.trim().is_empty();
        match Text::try_from(text) {
            Ok(text) if !is_blank && !text.as_str().contains(turns_text) => Ok(Self(text)),
            _ => Err(NotAName),
        }
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_short_and_has_no_control_characters() {
        for wrong in ["a\0b", "line\nline", "\u{7f}", &"x".repeat(201)] {
            assert_eq!(Text::try_from(wrong.to_owned()), Err(NotAText));
        }
        for right in ["", "Größe 40 «extra»", &"ü".repeat(200)] {
            assert!(Text::try_from(right.to_owned()).is_ok());
        }
    }

    #[test]
    fn a_name_is_not_blank_and_is_what_it_shows() {
        let turned = [
            "\u{61c}", "\u{200e}", "\u{200f}", "\u{2028}", "\u{2029}", "\u{202a}", "\u{202e}",
            "\u{2066}", "\u{2069}",
        ];
        for wrong in turned.map(|turn| format!("lamp {turn}pmal")) {
            assert_eq!(Name::try_from(wrong.clone()), Err(NotAName), "{wrong:?}");
        }
        for wrong in ["", " ", "\u{a0}\u{3000}", "a\tb", "a\0", &"x".repeat(201)] {
            assert_eq!(Name::try_from(wrong.to_owned()), Err(NotAName), "{wrong:?}");
        }
        // Right-to-left languages need none of these characters. Joiners are allowed, because some scripts and emoji need them.
        for right in [
            "Desk lamp",
            "מנורה 7",
            "مصباح",
            "👩\u{200d}🔧",
            "²",
            " lamp ",
        ] {
            assert!(Name::try_from(right.to_owned()).is_ok(), "{right:?}");
        }
    }
}
