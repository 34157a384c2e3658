//! Colour with meaning, and glyphs for every terminal.

use super::wrap::is_unit;

/// What a piece of text is. A word or glyph always says the same as its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Something broke.
    Bad,
    /// Something waits for ever.
    Stuck,
    /// Something held.
    Good,
    /// Nothing is certain, or not as expected.
    Unsure,
    /// Labels, headings, units.
    Label,
    /// What can be pasted.
    Command,
}

/// How to write on this screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink {
    /// Whether colours are shown.
    pub colour: bool,
    /// Whether only ASCII can be shown.
    pub ascii: bool,
    /// The width in columns.
    pub columns: usize,
}

impl Ink {
    /// As in a pipe: no colour, 100 columns.
    pub const PLAIN: Self = Self {
        colour: false,
        ascii: false,
        columns: 100,
    };

    /// The text in the colour of its role.
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

    /// A line with a label in a field of ten, two columns from the margin.
    pub fn labelled(self, label: &str, text: &str) -> String {
        format!(
            "  {}{text}\n",
            self.paint(Role::Label, format_args!("{label:<10}"))
        )
    }

    /// The same for a sentence, which goes on below its beginning when the screen is too narrow for it.
    pub fn sentence(self, label: &str, text: &str) -> String {
        let mut lines = self.fold(text, 12).into_iter();
        let first = self.labelled(label, &lines.next().unwrap_or_default());
        lines.fold(first, |text, line| text + &self.labelled("", &line))
    }

    /// The words on as many lines as it takes beside a margin.
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

    /// The text in glyphs this screen has.
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

/// The words; a number and its unit are one.
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
