//! Finds the root of the project and lists its files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Returns the root of the repository.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Returns the folder with the project's own tools, ignored by git. Its `bin` comes before the system's PATH. Our tests name another folder
/// in `FENCEPOST_TOOLS`.
pub(crate) fn tools() -> PathBuf {
    let other = std::env::var_os("FENCEPOST_TOOLS");
    other.map_or_else(|| root().join(".tools"), PathBuf::from)
}

/// A file of the project.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    /// The path relative to the root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(crate) fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    /// Returns its lines, numbered from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line))
    }
}

/// Returns every text file that git tracks or would track.
pub(crate) fn files() -> Result<Vec<SourceFile>> {
    let mut git = Command::new("git");
    // The checkout may belong to a different user, as in many CI containers, and git refuses that by default.
    git.args(["-c", "safe.directory=*", "ls-files", "-z"]);
    git.args(["--cached", "--others", "--exclude-standard"]);
    git.current_dir(root());
    let listing = git
        .output()
        .context("git lists the files to check, and could not be started")?;
    if !listing.status.success() {
        bail!(
            "git ls-files failed: {}",
            String::from_utf8_lossy(&listing.stderr).trim()
        );
    }
    let listing = String::from_utf8(listing.stdout).context("a file name that is not UTF-8")?;
    let mut files: Vec<_> = listing
        .split_terminator('\0')
        .filter_map(read_text)
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.dedup_by(|a, b| a.path == b.path);
    Ok(files)
}

/// Reads a file; `None` if it is not text, or was deleted but the deletion is not committed yet.
fn read_text(path: &str) -> Option<SourceFile> {
    let text = fs::read_to_string(root().join(path)).ok()?;
    Some(SourceFile {
        path: path.into(),
        text,
    })
}
