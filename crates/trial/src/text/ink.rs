//! Colours by meaning, and glyphs with ASCII replacements.

use super::wrap::is_unit;

/// The meaning of a piece of text. A word or glyph always says the same as the colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Something broke.
    Bad,
    /// Something waits forever.
    Stuck,
    /// Something held.
    Good,
    /// Something is uncertain, or not as expected.
    Unsure,
    /// Labels, headings, units.
    Label,
    /// A command to paste.
    Command,
}

/// The capabilities of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink {
    /// Whether to use colours.
    pub colour: bool,
    /// Whether to use only ASCII.
    pub ascii: bool,
    /// The width in columns.
    pub columns: usize,
}

impl Ink {
    /// The settings for a pipe: no colour, 100 columns.
    pub const PLAIN: Self = Self {
        colour: false,
        ascii: false,
        columns: 100,
    };

    /// Returns the text in the colour of its role.
    pub fn paint(self, role: Role, text: impl std::fmt::Display) -> String {
        if !self.colour {
            return text.to_string();
        }
        let code = match role {
            Role::Bad => "1;31",
            Role::Stuck => "1;35",
            Role::Good => "32",
            Role::Unsure => "33",
            Role::Label => "2",
            Role::Command => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Formats a line with a label in a field of ten columns, indented by two.
    pub fn labelled(self, label: &str, text: &str) -> String {
        format!(
            "  {}{text}\n",
            self.paint(Role::Label, format_args!("{label:<10}"))
        )
    }

    /// Formats a labelled sentence, which continues below its beginning if the screen is too narrow.
    pub fn sentence(self, label: &str, text: &str) -> String {
        let mut lines = self.fold(text, 12).into_iter();
        let first = self.labelled(label, &lines.next().unwrap_or_default());
        lines.fold(first, |text, line| text + &self.labelled("", &line))
    }

    /// Breaks the text into lines that fit beside a margin.
    pub fn fold(self, text: &str, margin: usize) -> Vec<String> {
        let width = self.columns.saturating_sub(margin).max(20);
        let mut lines: Vec<String> = Vec::new();
        for word in words(text) {
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                    line.push(' ');
                    line.push_str(&word);
                }
                _ => lines.push(word),
            }
        }
        lines
    }

    /// Replaces glyphs that the screen does not have.
    pub fn glyphs(self, text: &str) -> String {
        if !self.ascii {
            return text.to_owned();
        }
        let mut plain = String::with_capacity(text.len());
        for glyph in text.chars() {
            plain.push_str(match glyph {
                '✓' => "+",
                '✗' | '×' => "x",
                '■' | '█' => "#",
                '–' | '−' | '─' => "-",
                '→' => ">",
                '…' => "...",
                '⋮' => ":",
                '━' => "=",
                'µ' => "u",
                '·' => "|",
                'σ' => "sd",
                'ⁿ' => "^n",
                '\0'..='\x7f' => {
                    plain.push(glyph);
                    continue;
                }
                _ => "?",
            });
        }
        plain
    }
}

/// Splits the text into words. A number and its unit count as one word.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let unit = word.trim_end_matches([',', '.', ';', ':']);
        match words.last_mut() {
            Some(number) if number.ends_with(|c: char| c.is_ascii_digit()) && is_unit(unit) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_only_where_it_is_wanted() {
        assert_eq!(Ink::PLAIN.paint(Role::Bad, "BROKEN"), "BROKEN");
        let ink = Ink {
            colour: true,
            ..Ink::PLAIN
        };
        assert_eq!(ink.paint(Role::Bad, "BROKEN"), "\x1b[1;31mBROKEN\x1b[0m");
    }

    #[test]
    fn a_sentence_that_is_too_long_goes_on_below() {
        let ink = Ink {
            columns: 40,
            ..Ink::PLAIN
        };
        assert_eq!(
            ink.sentence("why", "one two three four five six seven eight"),
            "  why       one two three four five six\n            seven eight\n"
        );
        assert_eq!(
            ink.sentence("why", "one two three four five 9 ms, ten"),
            "  why       one two three four five\n            9 ms, ten\n"
        );
        assert_eq!(ink.sentence("why", "short"), "  why       short\n");
    }

    #[test]
    fn ascii_says_the_same() {
        let ink = Ink {
            ascii: true,
            ..Ink::PLAIN
        };
        assert_eq!(
            ink.glyphs("✗ sold  1 → 0, 1 − 10 = −9 … 5 µs é"),
            "x sold  1 > 0, 1 - 10 = -9 ... 5 us ?"
        );
    }
}
