//! Checks the length of Rust files, because a long file usually holds two ideas, and of the lines of comments.

use super::Finding;
use crate::tree::SourceFile;

const LINES_MAX: usize = 500;
const COLUMNS_MAX: usize = 150;

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

/// Leaves out tables and drawings, whose lines cannot be wrapped.
pub(super) fn comment_lines_are_short(files: &[SourceFile]) -> Vec<Finding> {
    let rust = files.iter().filter(|file| file.is_rust());
    let is_long = |line: &str| {
        let text = line.trim_start();
        let is_drawing =
            text.contains('─') || text.starts_with("//! |") || text.starts_with("/// |");
        text.starts_with("//") && !is_drawing && line.chars().count() > COLUMNS_MAX
    };
    rust.flat_map(|file| {
        let long = file.lines().filter(|(_, line)| is_long(line));
        long.map(|(number, line)| {
            let columns = line.chars().count();
            let what = format!("a comment of {columns} columns, more than {COLUMNS_MAX}");
            Finding::new(file, number, what)
        })
    })
    .collect()
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
    fn a_long_comment_is_found_and_a_long_table_or_literal_is_not() {
        let comment =
            |columns: usize| format!("fn lock() {{}}\n    //{}\n", "ü".repeat(columns - 6));
        let (fits, long) = (comment(150), comment(151));
        let table = format!("//! | {} |\n//!   {}\n", "cell".repeat(40), "──".repeat(80));
        let literal = format!("const TEXT: &str = \"{}\";\n", "word ".repeat(40));
        let files = [
            ("fits.rs", fits.as_str()),
            ("long.rs", &long),
            ("table.rs", &table),
            ("literal.rs", &literal),
        ];
        assert_eq!(
            found(comment_lines_are_short, &files),
            ["long.rs:2: a comment of 151 columns, more than 150"]
        );
    }
}
