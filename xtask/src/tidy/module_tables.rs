//! Checks that the tables of modules in ARCHITECTURE.md name every top-level module of their crate, and nothing else.

use std::collections::BTreeSet;

use super::Finding;
use crate::tree::SourceFile;

const PAGE: &str = "ARCHITECTURE.md";
/// How a table of modules begins; the folder of the crate follows.
const HEADING: &str = "| module of `";

/// Checks every table of modules. A finding is at the heading of the table, or at the row that names what does not exist.
pub(super) fn architecture_names_every_module(files: &[SourceFile]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return Vec::new();
    };
    let headings = page.lines().filter_map(|(number, line)| {
        let (root, _) = line.strip_prefix(HEADING)?.split_once('`')?;
        Some((number, root))
    });
    headings
        .flat_map(|(number, root)| in_table(page, number, root, files))
        .collect()
}

fn in_table(page: &SourceFile, heading: usize, root: &str, files: &[SourceFile]) -> Vec<Finding> {
    let modules = modules_of(root, files);
    let rows = page.lines().skip(heading);
    let rows = rows.take_while(|(_, line)| line.starts_with('|'));
    let mut findings = Vec::new();
    let mut named = BTreeSet::new();
    for (number, row) in rows {
        for name in names_in(row) {
            if modules.contains(name) {
                named.insert(name);
            } else {
                let what = format!("`{name}` is no module of {root}");
                findings.push(Finding::new(page, number, what));
            }
        }
    }
    let missing = modules.iter().filter(|module| !named.contains(**module));
    findings.extend(missing.map(|module| {
        let what = format!("no row of this table names `{module}` of {root} in its first cell");
        Finding::new(page, heading, what)
    }));
    findings
}

/// Returns the top-level modules of a crate. What is not compiled into it (tests, other binaries) is no module.
fn modules_of<'a>(root: &str, files: &'a [SourceFile]) -> BTreeSet<&'a str> {
    let folder = format!("{root}/src/");
    let below = files
        .iter()
        .filter(|file| file.is_rust())
        .filter_map(|file| file.path.strip_prefix(&*folder));
    let top = below.filter_map(|path| match path.split_once('/') {
        Some((module, _)) => Some(module),
        None => path.strip_suffix(".rs"),
    });
    top.filter(|module| !["lib", "main", "bin"].contains(module))
        .collect()
}

/// Returns the modules that a row names in its first cell: a path stands for the module that it begins with. `main.rs` is none.
fn names_in(row: &str) -> impl Iterator<Item = &str> {
    let cell = row.split('|').nth(1).unwrap_or_default();
    let quoted = cell.split('`').skip(1).step_by(2);
    let heads = quoted.map(|name| name.split('/').next().unwrap_or(name));
    heads.filter(|name| !name.ends_with(".rs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    fn findings(table: &str) -> Vec<String> {
        let page =
            format!("# A\n\n| module of `crates/a` | what |\n|---|---|\n{table}\nmore `b`\n");
        found(
            architecture_names_every_module,
            &[
                (PAGE, &page),
                ("crates/a/src/main.rs", ""),
                ("crates/a/src/serve.rs", ""),
                ("crates/a/src/serve/lab/x.rs", ""),
                ("crates/a/src/elect.rs", ""),
                ("crates/a/src/page.css", ""),
                ("crates/b/src/other.rs", ""),
            ],
        )
    }

    #[test]
    fn a_table_with_every_module_is_fine() {
        for table in [
            "| `serve`, `elect` | commands |",
            "| `main.rs`, `elect` | the `list` |\n| `serve/lab/` | more |",
        ] {
            assert_eq!(findings(table), [""; 0], "{table}");
        }
    }

    #[test]
    fn a_module_that_is_forgotten_and_one_that_is_gone_are_found() {
        assert_eq!(
            findings("| `serve` | with `elect` |"),
            ["ARCHITECTURE.md:3: no row of this table names `elect` of crates/a in its first cell"]
        );
        assert_eq!(
            findings("| `serve`, `elect` | |\n| `once` | |"),
            ["ARCHITECTURE.md:6: `once` is no module of crates/a"]
        );
    }
}
