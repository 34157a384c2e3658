//! Checks that the commits that documents name are part of the history, so that readers of a clone can find them.

use std::process::Command;

use super::Finding;
use crate::tree::{self, SourceFile};

/// The shortest abbreviation of a commit.
const MIN_DIGITS: usize = 7;

/// Checks nothing without the whole history: in a shallow clone, or if there is no repository.
pub(super) fn named_commits_exist(files: &[SourceFile]) -> Vec<Finding> {
    match history() {
        Some(history) => not_in(&history, files),
        None => Vec::new(),
    }
}

/// Returns the commits that lead to this one, newest first.
fn history() -> Option<Vec<String>> {
    let is_shallow = git(&["rev-parse", "--is-shallow-repository"])?;
    let commits = git(&["rev-list", "HEAD"])?;
    (is_shallow.trim() == "false").then(|| commits.lines().map(str::to_owned).collect())
}

fn git(arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    // The checkout may belong to a different user.
    git.args(["-c", "safe.directory=*"]).args(arguments);
    let output = git.current_dir(tree::root()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

fn not_in(history: &[String], files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_checked(file)) {
        for (number, line) in file.lines() {
            let spans = line.split('`').skip(1).step_by(2);
            let missing = spans
                .filter(|span| is_commit(span))
                .filter(|name| !history.iter().any(|commit| commit.starts_with(*name)));
            findings.extend(missing.map(|name| {
                let what = format!("the history has no commit {name}");
                Finding::new(file, number, what)
            }));
        }
    }
    findings
}

fn is_checked(file: &SourceFile) -> bool {
    let is_named = ["ROADMAP.md", "CHANGELOG.md"].contains(&&*file.path);
    is_named || file.is_markdown() && file.path.starts_with("docs/")
}

fn is_commit(span: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (MIN_DIGITS..=40).contains(&span.len()) && span.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(path: &str, text: &str) -> Vec<String> {
        let file = SourceFile {
            path: path.into(),
            text: text.into(),
        };
        let commit = "3b62ae0c81d94cdb3a6a2a1c1f0f3a0c5d7e9f10";
        let findings = not_in(&[commit.into()], &[file]);
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_commit_that_does_not_exist_is_found() {
        let text = "since `3b62ae0`\n\n| `3b62ae1`, `0c5fb87` | done |\n";
        let expected = |path: &str| {
            ["3b62ae1", "0c5fb87"].map(|name| format!("{path}:3: the history has no commit {name}"))
        };
        for path in ["ROADMAP.md", "CHANGELOG.md", "docs/decisions/0001.md"] {
            assert_eq!(missing(path, text), expected(path));
        }
        assert_eq!(missing("subjects/README.md", text), [""; 0]);
    }

    #[test]
    fn other_code_is_no_commit() {
        let text = "`abcdef` `safe` `0x3b62ae1` `3b62ae1-dirty` 3b62ae1 `3B62AE1`";
        assert_eq!(missing("ROADMAP.md", text), [""; 0]);
    }
}
