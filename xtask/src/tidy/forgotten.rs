//! Checks that no test is left out by oversight.
//!
//! A test function that no list names, or that lacks `#[test]`, is dead code, which clippy refuses. This check refuses everything that
//! would hide dead code from the compiler: a file that no module declares, a lint that is switched off, a name that begins with an
//! underscore, an item that the root of a target exports, and a manifest that leaves out targets.

use super::Finding;
use crate::tree::SourceFile;

/// The only accepted reasons: helpers that several targets share may be unused in one of them, and contain no tests.
const REASONS: &[&str] = &[
    "shared with the tests of exec",
    "shared with the tests of serve",
    "each test target uses what it needs",
    "an example with a main of its own",
];

/// The lints that find dead code, and their group.
const LINTS: &[&str] = &["dead_code", "unused"];

/// Settings of a manifest that keep a test from being built or run.
const SETTINGS: &[&str] = &["autotests", "test = false"];

pub(super) fn no_test_is_forgotten(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        if file.path.ends_with("Cargo.toml") {
            findings.extend(left_out_by(file));
        }
        let Some(target) = target_of(file) else {
            continue;
        };
        findings.extend(hidden_from_the_compiler(file, is_root(file, target)));
        if !is_declared(file, target, files) {
            let what = "no module declares this file, so nothing in it runs";
            findings.push(Finding::new(file, 1, what));
        }
    }
    findings
}

fn left_out_by(manifest: &SourceFile) -> impl Iterator<Item = Finding> {
    manifest.lines().flat_map(move |(number, line)| {
        let found = SETTINGS
            .iter()
            .filter(move |setting| line.trim_start().starts_with(**setting));
        found.map(move |setting| {
            Finding::new(
                manifest,
                number,
                format!("`{setting}` may leave out a test"),
            )
        })
    })
}

/// Returns the folder of the target that a test file belongs to, with a slash at its end. For a target that is a single file, the folder of
/// all tests.
fn target_of(file: &SourceFile) -> Option<&str> {
    let is_test = file.is_rust() && file.path.split('/').any(|folder| folder == "tests");
    let (tests, _) = file.path.rsplit_once("/tests/").filter(|_| is_test)?;
    // A module called `tests` is in `src` or beside the unit that it tests.
    if tests.contains("/src") {
        return None;
    }
    let below = &file.path[tests.len() + "/tests/".len()..];
    let target = below.find('/').map_or(0, |slash| slash + 1);
    Some(&file.path[..file.path.len() - below.len() + target])
}

/// Returns whether the file is the root of a target.
fn is_root(file: &SourceFile, target: &str) -> bool {
    target.ends_with("/tests/") || &file.path[target.len()..] == "main.rs"
}

fn hidden_from_the_compiler(file: &SourceFile, is_root: bool) -> impl Iterator<Item = Finding> {
    file.lines().filter_map(move |(number, line)| {
        let line = line.trim_start();
        let is_attribute = line.starts_with("#[") || line.starts_with("#![");
        let what = if is_attribute && is_switched_off(&attribute_from(file, number)) {
            "dead code is allowed for another reason than those known: a forgotten test would pass"
        } else if line.split("fn _").nth(1).is_some() {
            "the compiler never says that such a function is unused"
        } else if is_root && line.starts_with("pub ") {
            "nobody imports from a test, but the compiler takes this for used"
        } else {
            return None;
        };
        Some(Finding::new(file, number, what))
    })
}

/// Returns the attribute that begins in this line, joined to one: rustfmt wraps a long one, and puts its words into the lines below.
fn attribute_from(file: &SourceFile, number: usize) -> String {
    let mut attribute = String::new();
    let (mut depth, mut is_quoted, mut is_escaped) = (0, false, false);
    let below = file.text.lines().skip(number - 1).map(str::trim);
    for letter in below.flat_map(str::chars) {
        attribute.push(letter);
        match letter {
            '"' if !is_escaped => is_quoted = !is_quoted,
            '[' if !is_quoted => depth += 1,
            ']' if !is_quoted => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    attribute
}

fn is_switched_off(attribute: &str) -> bool {
    let is_lint = |word: &str| LINTS.contains(&word);
    let is_named = attribute
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .any(is_lint);
    let is_level = attribute.contains("allow(") || attribute.contains("expect(");
    let reason = REASONS
        .iter()
        .any(|reason| attribute.contains(&format!("reason = \"{reason}\"")));
    is_level && is_named && !reason
}

/// Returns whether the file is a target of its own or a declared module of its target.
fn is_declared(file: &SourceFile, target: &str, files: &[SourceFile]) -> bool {
    if is_root(file, target) {
        return true;
    }
    let below = &file.path[target.len()..];
    // `tests/fixtures/mod.rs` is a module of every target that declares `mod fixtures`.
    let (name, target) = match below.strip_suffix("mod.rs") {
        Some(folder) => {
            let module = format!("{target}{folder}");
            let module = module.trim_end_matches('/').to_owned();
            let (parent, name) = module.rsplit_once('/').unwrap_or_default();
            (name.to_owned(), parent.to_owned())
        }
        None => {
            let name = below.rsplit('/').next().unwrap_or(below);
            (name.trim_end_matches(".rs").to_owned(), target.to_owned())
        }
    };
    let declaration = format!("mod {name};");
    let is_declaration = |line: &str| line.trim_start_matches("pub(crate) ") == declaration;
    let mut others = files.iter().filter(|other| {
        other.is_rust() && other.path != file.path && other.path.starts_with(&target)
    });
    others.any(|other| other.text.lines().any(|line| is_declaration(line.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    const MAIN: &str = "mod kills;\npub(crate) mod support;\n// mod gone;\nfn main() {}\n";

    fn findings_in(path: &str, text: &str) -> Vec<String> {
        let files = [("crates/a/tests/redis/main.rs", MAIN), (path, text)];
        found(no_test_is_forgotten, &files)
    }

    #[test]
    fn a_file_that_no_module_declares_is_found() {
        for declared in [
            "crates/a/tests/redis/kills.rs",
            "crates/a/tests/redis/support.rs",
            "crates/a/tests/alone.rs",
            "crates/a/src/unit/tests/far.rs",
        ] {
            assert_eq!(findings_in(declared, ""), [""; 0]);
        }
        for undeclared in ["gone", "never", "kill"] {
            let path = format!("crates/a/tests/redis/{undeclared}.rs");
            let expected = format!("{path}:1: no module declares this file, so nothing in it runs");
            assert_eq!(findings_in(&path, ""), [expected]);
        }
    }

    #[test]
    fn a_shared_folder_is_declared_by_its_name() {
        let path = "crates/a/tests/fixtures/mod.rs";
        assert_eq!(findings_in(path, "").len(), 1);
        let user = ("crates/a/tests/html.rs", "mod fixtures;\n");
        assert_eq!(found(no_test_is_forgotten, &[user, (path, "")]), [""; 0]);
    }

    #[test]
    fn allowing_dead_code_needs_a_known_reason() {
        let path = "crates/a/tests/redis/kills.rs";
        for bad in [
            "#![allow(dead_code)]",
            "#[expect(unused)]",
            "#[allow(clippy::all, dead_code, reason = \"later\")]",
            // As rustfmt wraps it.
            "#[allow(\n    dead_code,\n    reason = \"a [long] \\\" one\"\n)]\nfn forgotten() {}",
            "#![allow(\n    clippy::all,\n    unused\n)]",
            "#[allow(dead_code)] fn forgotten() {}\n// reason = \"shared with the tests of serve\"",
            "fn _forgotten() {}",
            "pub(crate) async fn _forgotten() {}",
        ] {
            assert_eq!(findings_in(path, bad).len(), 1, "{bad}");
        }
        for good in [
            "#[allow(dead_code, reason = \"shared with the tests of serve\")]",
            "#[allow(\n    dead_code,\n    reason = \"shared with the tests of serve\"\n)]",
            "#[allow(clippy::unused_unit)]",
            "#![allow(clippy::unwrap_used)]",
            "fn a_test_() {}",
        ] {
            assert_eq!(findings_in(path, good), [""; 0], "{good}");
        }
        // In other places there are other reasons for it.
        assert_eq!(
            findings_in("crates/a/src/b.rs", "#![allow(dead_code)]"),
            [""; 0]
        );
    }

    #[test]
    fn the_root_of_a_target_exports_nothing() {
        for bad in [
            "pub fn forgotten() {}",
            "pub mod kills;",
            "pub async fn f() {}",
        ] {
            assert_eq!(
                findings_in("crates/a/tests/alone.rs", bad).len(),
                1,
                "{bad}"
            );
            // Below the root of a target, the compiler still notices.
            assert_eq!(findings_in("crates/a/tests/redis/kills.rs", bad), [""; 0]);
        }
        let good = "pub(crate) fn shared() {}";
        assert_eq!(findings_in("crates/a/tests/alone.rs", good), [""; 0]);
    }

    #[test]
    fn a_manifest_that_leaves_targets_out_is_found() {
        let manifest = "[package]\nautotests = false\n\n[[test]]\nname = \"a\"\ntest = false\n";
        let found = findings_in("crates/a/Cargo.toml", manifest);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
