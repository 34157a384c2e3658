//! Builds the program of an earlier commit. Tests run it beside the current one on the same store: both must be safe, or one is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::runner;
use crate::terminal::say;
use crate::tree;

/// The last commit with a different storage layout: fences in coarser units, and in Postgres from transaction ids.
const COMMIT: &str = "3b62ae0";

/// The environment variable that tells the tests the path of the program.
const VARIABLE: &str = "FENCEPOST_OLDER";

/// The test program that runs the older program.
const PROGRAM: &str = "older";

/// Its tests.
const TESTS: [&str; 6] = [
    "sqlite::together",
    "redis::together",
    "redis::without_the_counter",
    "redlock::together",
    "postgres::together",
    "postgres_table::together",
];

/// The path of the older program; `None` if its tests are skipped, because the clone lacks the commit or the filter excludes them.
pub(crate) struct Older(Option<PathBuf>);

impl Older {
    /// Builds the program, unless an earlier run did or the filter excludes its tests. A failure is only reported, since the tests that
    /// need the program fail anyway.
    pub(crate) fn build(filter: Option<&str>) -> Self {
        if !is_needed(filter) {
            return Self(None);
        }
        let folder = tree::root().join("target/older");
        let program = folder.join(format!("fencepost-{COMMIT}"));
        if program.is_file() {
            return Self(Some(program));
        }
        if !has_commit() {
            say(format!(
                "note: this clone lacks commit {COMMIT}; the tests beside its program are skipped"
            ));
            return Self(None);
        }
        if let Err(error) = build_in(&folder, &program) {
            say(format!(
                "the program of commit {COMMIT} could not be built: {error:#}"
            ));
        }
        Self(Some(program))
    }

    /// Passes the path of the program to a command.
    pub(crate) fn set_env(&self, command: &mut Command) {
        if let Some(program) = &self.0 {
            command.env(VARIABLE, program);
        }
    }
}

fn is_needed(filter: Option<&str>) -> bool {
    // The name of their test program selects all of them.
    filter.is_none_or(|filter| filter == PROGRAM || TESTS.iter().any(|test| test.contains(filter)))
}

fn has_commit() -> bool {
    let mut git = Command::new("git");
    let commit = format!("{COMMIT}^{{commit}}");
    git.args(["-c", "safe.directory=*", "cat-file", "-e", &commit])
        .current_dir(tree::root())
        .stderr(Stdio::null());
    git.status().is_ok_and(|status| status.success())
}

fn build_in(folder: &Path, program: &Path) -> Result<()> {
    let source = folder.join("source");
    if source.exists() {
        std::fs::remove_dir_all(&source)?;
    }
    std::fs::create_dir_all(&source)?;
    unpack(&source)?;
    let built = folder.join("build");
    build(&source, &built)?;
    // Copied last, so that an interrupted build is repeated.
    let part = folder.join("part");
    std::fs::copy(built.join("debug/fencepost"), &part)?;
    std::fs::rename(&part, program)?;
    // The rest of the build is large and no longer needed.
    std::fs::remove_dir_all(&source)?;
    std::fs::remove_dir_all(&built)?;
    Ok(())
}

fn unpack(folder: &Path) -> Result<()> {
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "archive", "--format=tar", COMMIT])
        .current_dir(tree::root())
        .stdout(Stdio::piped());
    let mut git = git.spawn().context("git could not be started")?;
    let archive = git.stdout.take().context("its output")?;
    let mut tar = Command::new("tar");
    tar.args(["-x", "-f", "-", "-C"]).arg(folder).stdin(archive);
    let unpacked = tar.status().context("tar could not be started")?;
    if !git.wait()?.success() || !unpacked.success() {
        bail!("git cannot provide the files of the commit");
    }
    Ok(())
}

/// Builds the program of that commit, with the stores whose layout has changed since then.
fn build(source: &Path, target: &Path) -> Result<()> {
    let mut cargo = runner::cargo(["build", "--quiet", "--locked", "--package", "fencepost-cli"]);
    cargo
        .args(["--features", "postgres,redlock", "--target-dir"])
        .arg(target)
        .current_dir(source);
    let status = runner::run(&mut cargo, |_| {})?;
    if !status.success() {
        bail!("it does not build ({status})");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_built_only_for_its_tests() {
        assert!(is_needed(None));
        assert!(is_needed(Some("older")));
        assert!(is_needed(Some("together")));
        assert!(is_needed(Some("redlock::")));
        assert!(!is_needed(Some("after_a_stop")));
    }

    #[test]
    fn its_tests_are_known_by_their_names() {
        let table = tree::root().join(format!("crates/cli/tests/{PROGRAM}/main.rs"));
        let table = std::fs::read_to_string(table).unwrap();
        let named = TESTS
            .iter()
            .filter(|test| table.contains(&format!("\"{test}\"")));
        assert_eq!(named.count(), TESTS.len());
        assert_eq!(table.matches("crowd::on_").count(), TESTS.len());
    }
}
