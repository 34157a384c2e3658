//! Checks for files that are too long, and for markers of unfinished work.

use super::Finding;
use crate::tree::SourceFile;

const LINES_MAX: usize = 500;

pub(super) fn rust_files_are_short(files: &[SourceFile]) -> Vec<Finding> {
    let rust = files.iter().filter(|file| file.is_rust());
    let length = |file: &SourceFile| file.text.lines().count();
    rust.filter(|file| length(file) > LINES_MAX)
        .map(|file| {
            Finding::new(
                file,
                LINES_MAX + 1,
                format!("{} lines, more than {LINES_MAX}", length(file)),
            )
        })
        .collect()
}

/// The markers are split, so that this file does not match.
const MACROS: &[&str] = &[
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("db", "g!("),
    concat!("#[", "ignore"),
];
const WORDS: &[&str] = &[concat!("FIX", "ME"), concat!("X", "XX")];

pub(super) fn nothing_is_unfinished(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in file.lines() {
            let macros = MACROS
                .iter()
                .filter(|text| file.is_rust() && line.contains(**text));
            let words = WORDS.iter().filter(|word| contains_word(line, word));
            findings.extend(
                macros
                    .chain(words)
                    .map(|text| Finding::new(file, number, *text)),
            );
        }
    }
    findings
}

/// Returns whether the line contains the marker as a whole word, and not as part of, say, the placeholder in the name of a temporary file.
fn contains_word(line: &str, word: &str) -> bool {
    let belongs_to_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(belongs_to_word)
            && !line[at + word.len()..].starts_with(belongs_to_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    #[test]
    fn a_long_rust_file_is_found_and_a_long_page_is_not() {
        let (fits, long) = ("line\n".repeat(500), "line\n".repeat(501));
        let files = [
            ("fits.rs", fits.as_str()),
            ("long.rs", &long),
            ("long.md", &long),
        ];
        assert_eq!(
            found(rust_files_are_short, &files),
            ["long.rs:501: 501 lines, more than 500"]
        );
    }

    #[test]
    fn unfinished_work_is_found_where_it_is() {
        for text in MACROS {
            let source = format!("fn f() {{\n    {text})\n}}");
            assert_eq!(
                found(nothing_is_unfinished, &[("a.rs", &source)]),
                [format!("a.rs:2: {text}")]
            );
            assert!(found(nothing_is_unfinished, &[("a.md", &source)]).is_empty());
        }
        for word in WORDS {
            let source = format!("# {word}: later\nprefix{word}\n{word}{word}");
            assert_eq!(
                found(nothing_is_unfinished, &[("run", &source)]),
                [format!("run:1: {word}")]
            );
        }
    }
}
