//! Checks that the top modules of every crate, and those of the folders in [`FOLDERS`], form layers: a module imports only from layers
//! below its own.

mod graph;
mod imports;
mod page;

use std::collections::BTreeSet;

pub(super) use page::architecture_shows_the_layers;

use self::graph::{Graph, cycles, layers};
use self::imports::{Import, Source};
use super::Finding;
use crate::tree::SourceFile;

/// Folders whose modules form layers of their own: the source folder of a crate, and a module of that crate.
const FOLDERS: &[(&str, &str)] = &[
    ("crates/fencepost/src/", "stores"),
    ("crates/fencepost/src/", "stores::etcd"),
    ("crates/fencepost/src/", "stores::memory"),
    ("crates/fencepost/src/", "stores::postgres"),
    ("crates/fencepost/src/", "stores::postgres_table"),
    ("crates/fencepost/src/", "stores::redis"),
    ("crates/fencepost/src/", "stores::redlock"),
    ("crates/fencepost/src/", "stores::sqlite"),
    ("crates/fencepost/src/", "stores::zookeeper"),
];

/// Checks that no module is part of a cycle. Reports one finding for each pair of modules in a cycle, at the first import.
pub(super) fn modules_form_layers(files: &[SourceFile]) -> Vec<Finding> {
    parents(files)
        .iter()
        .flat_map(|(root, parent)| match Source::read(root, parent, files) {
            Ok(source) => in_cycles(&source),
            Err((file, error)) => vec![Finding::new(
                file,
                error.span().start().line,
                error.to_string(),
            )],
        })
        .collect()
}

/// Returns the layers of every crate and folder, as ARCHITECTURE.md shows them, except for those with a cycle.
pub(super) fn picture(files: &[SourceFile]) -> String {
    let mut picture = String::new();
    for (root, parent) in parents(files) {
        let Ok(source) = Source::read(&root, parent, files) else {
            continue;
        };
        let graph = graph_of(&source, &source.imports());
        if graph.is_empty() || !cycles(&graph).is_empty() {
            continue;
        }
        picture += &format!("{}\n", name_of(&root, parent));
        for layer in layers(&graph).iter().rev() {
            picture += &format!("  {}\n", layer.join("  "));
        }
    }
    picture
}

/// Returns the name of a layer picture: `crates/fencepost` for a crate, and `crates/fencepost/src/stores` for a folder.
fn name_of(root: &str, parent: &str) -> String {
    if parent.is_empty() {
        root.trim_end_matches("/src/").to_owned()
    } else {
        format!("{root}{}", parent.replace("::", "/"))
    }
}

fn in_cycles(source: &Source<'_>) -> Vec<Finding> {
    let imports = source.imports();
    let graph = graph_of(source, &imports);
    let mut findings = Vec::new();
    for cycle in cycles(&graph) {
        let is_inside =
            |import: &&Import| cycle.contains(&import.from) && cycle.contains(&import.to);
        let mut seen = BTreeSet::new();
        for import in imports.iter().filter(is_inside) {
            if seen.insert((&import.from, &import.to)) {
                findings.push(Finding {
                    path: import.path.clone(),
                    line: import.line,
                    what: format!(
                        "{} imports {}, in a cycle of {} modules",
                        import.from,
                        import.to,
                        cycle.len()
                    ),
                });
            }
        }
    }
    findings
}

fn graph_of(source: &Source<'_>, imports: &[Import]) -> Graph {
    let mut graph: Graph = source
        .modules
        .iter()
        .map(|name| (name.clone(), BTreeSet::new()))
        .collect();
    for import in imports {
        if let Some(targets) = graph.get_mut(&import.from) {
            targets.insert(import.to.clone());
        }
    }
    graph
}

/// Returns the modules whose children have to form layers: the root of every crate, and after it the folders of that crate.
fn parents(files: &[SourceFile]) -> BTreeSet<(String, &'static str)> {
    let root = |file: &SourceFile| {
        let (folder, name) = file.path.rsplit_once('/')?;
        let is_root = folder.ends_with("src") && (name == "lib.rs" || name == "main.rs");
        is_root.then(|| format!("{folder}/"))
    };
    let roots: BTreeSet<String> = files.iter().filter_map(root).collect();
    let folders = FOLDERS
        .iter()
        .filter(|(root, _)| roots.contains(*root))
        .map(|(root, folder)| ((*root).to_owned(), *folder));
    let folders: Vec<_> = folders.collect();
    let crates = roots.into_iter().map(|root| (root, ""));
    crates.chain(folders).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    const ROOT: (&str, &str) = (
        "crates/x/src/lib.rs",
        "mod a; mod b; #[cfg(test)] mod c; pub use b::Thing;",
    );

    #[test]
    fn two_modules_that_import_each_other_are_found() {
        for back in [
            "use crate::a::A;",
            "use crate::{a, b};",
            "fn f() -> crate::a::A { loop {} }",
            "fn f(a: crate::a::A) {}",
            "struct S { a: crate::a::A }",
            "fn f() { println!(\"{}\", crate::a::NAME); }",
            "mod inner { use super::super::a::A; }",
            "use super::a;",
        ] {
            let findings = found(
                modules_form_layers,
                &[
                    ROOT,
                    ("crates/x/src/a.rs", "\nuse crate::Thing;"),
                    ("crates/x/src/b.rs", back),
                ],
            );
            assert_eq!(findings.len(), 2, "{back}: {findings:?}");
            assert_eq!(
                findings[0],
                "crates/x/src/a.rs:2: a imports b, in a cycle of 2 modules"
            );
        }
    }

    #[test]
    fn what_tests_import_does_not_count() {
        for back in [
            "#[cfg(test)] mod tests { use crate::a::A; }",
            "#[cfg(test)] use crate::a::A;",
            "mod inner { use super::a; }",
            "/// See [`crate::a`].\nfn f() {}",
        ] {
            let findings = found(
                modules_form_layers,
                &[
                    ROOT,
                    ("crates/x/src/a.rs", "use crate::b;"),
                    ("crates/x/src/b.rs", back),
                    ("crates/x/src/c.rs", "use crate::a; use crate::b;"),
                ],
            );
            assert!(findings.is_empty(), "{back}: {findings:?}");
        }
    }

    const STORES: [(&str, &str); 2] = [
        ("crates/fencepost/src/lib.rs", "mod error; mod stores;"),
        (
            "crates/fencepost/src/stores.rs",
            "mod kit; mod one; mod two; pub use one::Thing;",
        ),
    ];

    #[test]
    fn two_modules_of_a_folder_that_import_each_other_are_found() {
        for back in [
            "use crate::stores::one::session;",
            "use crate::stores::Thing;",
            "use crate::{error::Error, stores::{kit, one::Thing}};",
            "use super::super::one;",
        ] {
            let findings = found(
                modules_form_layers,
                &[
                    STORES[0],
                    STORES[1],
                    ("crates/fencepost/src/stores/one.rs", "\nuse super::two;"),
                    ("crates/fencepost/src/stores/two/hub.rs", back),
                ],
            );
            assert_eq!(findings.len(), 2, "{back}: {findings:?}");
            assert_eq!(
                findings[0],
                "crates/fencepost/src/stores/one.rs:2: one imports two, in a cycle of 2 modules"
            );
        }
    }

    #[test]
    fn two_modules_of_a_store_that_import_each_other_are_found() {
        let findings = found(
            modules_form_layers,
            &[
                ("crates/fencepost/src/lib.rs", "mod stores;"),
                ("crates/fencepost/src/stores.rs", "mod sqlite;"),
                (
                    "crates/fencepost/src/stores/sqlite.rs",
                    "mod schema; mod session;",
                ),
                (
                    "crates/fencepost/src/stores/sqlite/schema.rs",
                    "use super::session::Database;",
                ),
                (
                    "crates/fencepost/src/stores/sqlite/session.rs",
                    "use crate::stores::sqlite::schema;",
                ),
            ],
        );
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(
            findings[0].contains("schema imports session"),
            "{findings:?}"
        );
    }

    #[test]
    fn modules_of_a_folder_may_import_downwards_and_from_elsewhere() {
        let findings = found(
            modules_form_layers,
            &[
                STORES[0],
                STORES[1],
                (
                    "crates/fencepost/src/stores/one.rs",
                    "use super::two; use crate::stores::kit;",
                ),
                (
                    "crates/fencepost/src/stores/two.rs",
                    "use crate::error; use super::kit; mod one; use one::Own;",
                ),
                (
                    "crates/fencepost/src/stores/two/one.rs",
                    "use super::Own; use super::one;",
                ),
            ],
        );
        assert!(findings.is_empty(), "{findings:?}");
    }

    #[test]
    fn the_layers_are_shown_from_the_top() {
        let file = |path: &str, text: &str| SourceFile {
            path: path.into(),
            text: text.into(),
        };
        let files = [
            file(ROOT.0, ROOT.1),
            file("crates/x/src/a.rs", "use crate::b;"),
            file("crates/x/src/b.rs", ""),
        ];
        assert_eq!(picture(&files), "crates/x\n  a\n  b\n");
        let files = [
            file(STORES[0].0, STORES[0].1),
            file(STORES[1].0, STORES[1].1),
            file("crates/fencepost/src/stores/one.rs", "use super::kit;"),
        ];
        assert_eq!(
            picture(&files),
            "crates/fencepost\n  error  stores\ncrates/fencepost/src/stores\n  one\n  kit  two\n"
        );
    }
}
