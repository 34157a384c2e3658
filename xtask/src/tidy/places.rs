//! Checks that no file contains an absolute path of one machine or the address of a package server.

use super::Finding;
use crate::tree::SourceFile;

/// The top folders of paths that exist only on a particular machine.
const FOLDERS: &[&str] = &[
    // The home folders of users.
    "home", "root",
    // Where containers and build machines usually have their checkouts and their tools.
    "work", "farm",
];

pub(super) fn no_path_of_one_machine(files: &[SourceFile]) -> Vec<Finding> {
    each_line(files, |_, line| {
        let has_path = FOLDERS.iter().any(|folder| contains_path(line, folder));
        has_path.then(|| "an absolute path of one machine".into())
    })
}

/// Returns whether the line contains this folder at the root of a path, not as a later part of a path or an address.
fn contains_path(line: &str, folder: &str) -> bool {
    let continues = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let text = format!("/{folder}/");
    line.match_indices(&text)
        .any(|(at, _)| !line[..at].ends_with(continues))
}

/// Servers of package managers. Which one to use is up to the settings of each machine. The names are split, so that this
/// file does not match.
const SERVERS: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("registry.", "npmjs.org"),
    concat!("files.", "pythonhosted.org"),
    concat!("pypi.", "org/simple"),
    concat!("deb.", "debian.org"),
];

/// Settings that choose such a server.
const SETTINGS: &[&str] = &[
    concat!("index", "-url"),
    concat!("sparse", "+http"),
    concat!("[source", "."),
    concat!("replace", "-with"),
    concat!("[reg", "istries"),
    concat!("reg", "istry=http"),
];

/// The name of the default registry in Cargo.lock, whatever the machine uses instead.
const USUAL_LOCK_SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn no_registry_is_named(files: &[SourceFile]) -> Vec<Finding> {
    each_line(files, |file, line| {
        let text = SERVERS
            .iter()
            .chain(SETTINGS)
            .find(|text| line.contains(**text));
        let locked_elsewhere = file.path.ends_with("Cargo.lock")
            && line.starts_with("source = ")
            && line != format!("source = \"{USUAL_LOCK_SOURCE}\"");
        match text {
            Some(text) => Some(format!("names a package server: {text}")),
            None => locked_elsewhere.then(|| format!("locked to an unusual place: {line}")),
        }
    })
}

fn each_line(
    files: &[SourceFile],
    check: impl Fn(&SourceFile, &str) -> Option<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let found = |(number, line)| Some(Finding::new(file, number, check(file, line)?));
        findings.extend(file.lines().filter_map(found));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    #[test]
    fn paths_of_one_machine_are_found_and_others_are_not() {
        for folder in FOLDERS {
            for before in ["", "cd ", "\"", "file://", "("] {
                let line = format!("{before}/{folder}/someone");
                let findings = found(no_path_of_one_machine, &[("a.toml", &line)]);
                assert_eq!(
                    findings,
                    ["a.toml:1: an absolute path of one machine"],
                    "{line}"
                );
            }
            for before in ["https://example.org", "..", "docs", "a_"] {
                let line = format!("{before}/{folder}/someone and /{folder}");
                assert!(
                    found(no_path_of_one_machine, &[("a.toml", &line)]).is_empty(),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn package_servers_are_found() {
        for text in SERVERS.iter().chain(SETTINGS) {
            let line = format!("\nx {text} y");
            let findings = found(no_registry_is_named, &[("a.md", &line)]);
            assert_eq!(
                findings,
                [format!("a.md:2: names a package server: {text}")]
            );
        }
    }

    #[test]
    fn a_lock_file_names_the_usual_place_only() {
        let usual = format!("source = \"{USUAL_LOCK_SOURCE}\"");
        assert!(found(no_registry_is_named, &[("x/Cargo.lock", &usual)]).is_empty());
        let fork = "source = \"git+https://example.org/fork\"";
        assert_eq!(
            found(no_registry_is_named, &[("Cargo.lock", fork)]).len(),
            1
        );
    }
}
