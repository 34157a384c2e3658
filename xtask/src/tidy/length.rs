//! Checks the length of Rust files: a long file usually holds two ideas.

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
}
