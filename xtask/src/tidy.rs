//! `cargo xtask tidy`: checks the tree for rules of the project that a program can verify.
//!
//! Each check is a function from the files of the project to findings. To add one, add an entry to the table below.

mod anchors;
mod commits;
mod contracts;
mod forgotten;
mod layers;
mod leftovers;
mod length;
mod markdown;
mod module_tables;
mod places;

use std::fmt;

use anyhow::Result;

use crate::counts::Counts;
use crate::terminal::{green, red, say};
use crate::tree::{self, SourceFile};

type Check = fn(&[SourceFile]) -> Vec<Finding>;

const CHECKS: &[(&str, Check)] = &[
    ("modules-form-layers", layers::modules_form_layers),
    (
        "architecture-shows-the-layers",
        layers::architecture_shows_the_layers,
    ),
    (
        "architecture-names-every-module",
        module_tables::architecture_names_every_module,
    ),
    ("rust-files-are-short", length::rust_files_are_short),
    ("comment-lines-are-short", length::comment_lines_are_short),
    ("no-test-is-forgotten", forgotten::no_test_is_forgotten),
    ("nothing-is-unfinished", leftovers::nothing_is_unfinished),
    ("no-path-of-one-machine", places::no_path_of_one_machine),
    ("no-registry-is-named", places::no_registry_is_named),
    (
        "markdown-links-lead-somewhere",
        markdown::links_lead_somewhere,
    ),
    (
        "quoted-code-is-tested-code",
        markdown::quoted_code_is_tested_code,
    ),
    (
        "async-functions-state-cancel-safety",
        contracts::async_functions_state_cancel_safety,
    ),
    ("named-commits-exist", commits::named_commits_exist),
];

/// A violation of a rule, and where it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(file: &SourceFile, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: file.path.clone(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Prints the layers of the modules, as ARCHITECTURE.md shows them.
pub(crate) fn print_layers() -> Result<()> {
    say(layers::picture(&tree::files()?).trim_end());
    Ok(())
}

/// Runs the checks whose name contains the filter.
pub(crate) fn run(filter: Option<&str>) -> Result<Counts> {
    let files = tree::files()?;
    let mut counts = Counts::default();
    for (name, check) in CHECKS {
        if filter.is_some_and(|filter| !name.contains(filter)) {
            counts += Counts::SKIPPED;
            continue;
        }
        let findings = check(&files);
        let good = findings.is_empty();
        counts += if good { Counts::PASSED } else { Counts::FAILED };
        say(format!(
            "{name} ... {}",
            if good { green("ok") } else { red("FAILED") }
        ));
        findings
            .iter()
            .for_each(|finding| say(format!("  {finding}")));
    }
    Ok(counts)
}

#[cfg(test)]
fn found(check: Check, files: &[(&str, &str)]) -> Vec<String> {
    let file = |(path, text): &(&str, &str)| SourceFile {
        path: (*path).into(),
        text: (*text).into(),
    };
    let files: Vec<_> = files.iter().map(file).collect();
    check(&files).iter().map(Finding::to_string).collect()
}
