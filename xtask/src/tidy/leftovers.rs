//! Checks for markers of unfinished work.

use super::Finding;
use crate::tree::SourceFile;

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
