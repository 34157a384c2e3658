//! `cargo xtask doc`: builds the documentation and fails on any warning.

use anyhow::Result;

use crate::counts::Counts;
use crate::runner;
use crate::terminal;

const NAME: &str = "documentation-has-no-warning";

/// Builds the documentation, unless the filter excludes it.
pub(crate) fn run(filter: Option<&str>) -> Result<Counts> {
    if filter.is_some_and(|filter| !NAME.contains(filter)) {
        return Ok(Counts::SKIPPED);
    }
    let arguments = ["doc", "--workspace", "--all-features", "--no-deps"];
    let mut command = runner::cargo(arguments);
    command.env("RUSTDOCFLAGS", "-D warnings");
    // The flag does not affect cargo's own warnings, for instance about two crates that write the same page.
    let mut warned = false;
    let status = runner::run(&mut command, |line| warned |= line.starts_with("warning"))?;
    let good = status.success() && !warned;
    terminal::say(format!("{NAME} ... {}", if good { "ok" } else { "FAILED" }));
    Ok(if good { Counts::PASSED } else { Counts::FAILED })
}
