//! Chooses colours, glyphs and width of the output by the flags, the environment and the stream.

use std::io;

use fencepost_trial::text::ink::Ink;

use crate::values::BadValue;

/// The assumed width if the output is not a terminal.
const PIPE_COLUMNS: usize = 100;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// On a terminal, unless the environment asks for no colours.
    Auto,
    Always,
    Never,
}

impl Colour {
    pub(crate) fn parse(text: &str) -> Result<Self, BadValue> {
        match text {
            "auto" => Ok(Self::Auto),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            _ => Err(BadValue {
                what: format!("'{text}' is not a valid value for --color"),
                advice: "--color auto, always or never".into(),
            }),
        }
    }
}

/// Colours and glyphs for error messages. They are read before the command line is parsed, because parsing may be what fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutputStyle {
    pub(crate) colour: Colour,
    pub(crate) ascii: bool,
}

impl OutputStyle {
    /// Reads `--color` and `--ascii` from the command line. The last one counts; an invalid one is ignored.
    pub(crate) fn of(words: &[String]) -> Self {
        let mut style = Self {
            colour: Colour::Auto,
            ascii: false,
        };
        for (index, word) in words.iter().enumerate() {
            let value = match word.as_str() {
                "--ascii" => {
                    style.ascii = true;
                    continue;
                }
                "--color" => words.get(index + 1).map(String::as_str),
                word => word.strip_prefix("--color="),
            };
            style.colour = match value {
                Some("always") => Colour::Always,
                Some("never") => Colour::Never,
                _ => style.colour,
            };
        }
        style
    }
}

/// Returns the colours and glyphs for a stream.
pub(crate) fn ink(colour: Colour, ascii: bool, is_terminal: bool) -> Ink {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let colour = match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto if set("NO_COLOR") => false,
        Colour::Auto
            if std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| !v.is_empty() && v != "0") =>
        {
            true
        }
        Colour::Auto => is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
    };
    let columns = if is_terminal {
        self::columns()
    } else {
        PIPE_COLUMNS
    };
    Ink {
        colour,
        ascii: ascii || !locale_is_utf8(|name| std::env::var(name).ok()),
        columns,
    }
}

/// Returns the width of the terminal, or the default width if the output is not a terminal.
pub(crate) fn columns() -> usize {
    let size =
        terminal_size::terminal_size().or_else(|| terminal_size::terminal_size_of(io::stderr()));
    size.map_or(PIPE_COLUMNS, |(width, _)| width.0.into())
}

/// Returns whether the locale uses UTF-8. The first variable that is set decides, as POSIX specifies.
fn locale_is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable)
        .find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_is_read_as_every_program_reads_it() {
        let locale = |pairs: &'static [(&str, &str)]| {
            locale_is_utf8(|name| {
                pairs
                    .iter()
                    .find(|pair| pair.0 == name)
                    .map(|pair| pair.1.to_owned())
            })
        };
        assert!(locale(&[("LANG", "en_GB.UTF-8")]));
        assert!(locale(&[("LC_ALL", ""), ("LANG", "C.utf8")]));
        assert!(!locale(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]));
        assert!(!locale(&[]));
    }

    #[test]
    fn color_and_ascii_are_read_before_parsing() {
        let style = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            OutputStyle::of(&words)
        };
        let (colour, ascii) = (Colour::Never, true);
        assert_eq!(
            style("oversel --color never --ascii"),
            OutputStyle { colour, ascii }
        );
        assert_eq!(style("oversell --color=always").colour, Colour::Always);
        assert_eq!(style("oversell --color").colour, Colour::Auto);
    }
}
