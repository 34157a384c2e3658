//! Checks that the top modules of every crate form layers: a module imports only from layers below its own.

mod graph;
mod imports;
mod page;

use std::collections::BTreeSet;

pub(super) use page::architecture_shows_the_layers;

use self::graph::{Graph, cycles, layers};
use self::imports::{Import, Source};
use super::Finding;
use crate::tree::SourceFile;

/// Checks that no module is part of a cycle. Reports one finding for each pair of modules in a cycle, at the first import.
pub(super) fn modules_form_layers(files: &[SourceFile]) -> Vec<Finding> {
    crates(files)
        .iter()
        .flat_map(|root| match Source::read(root, files) {
            Ok(source) => in_cycles(&source),
            Err((file, error)) => vec![Finding::new(
                file,
                error.span().start().line,
                error.to_string(),
            )],
        })
        .collect()
}

/// The layers of every crate, as ARCHITECTURE.md shows them, except for crates with a cycle.
pub(crate) fn picture(files: &[SourceFile]) -> String {
    let mut picture = String::new();
    for root in crates(files) {
        let Ok(source) = Source::read(&root, files) else {
            continue;
        };
        let graph = graph_of(&source, &source.imports());
        if graph.is_empty() || !cycles(&graph).is_empty() {
            continue;
        }
        let name = root.trim_end_matches("/src/");
        picture += &format!("{name}\n");
        for layer in layers(&graph).iter().rev() {
            picture += &format!("  {}\n", layer.join("  "));
        }
    }
    picture
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

/// The source folders of all crates.
fn crates(files: &[SourceFile]) -> BTreeSet<String> {
    let root = |file: &SourceFile| {
        let (folder, name) = file.path.rsplit_once('/')?;
        let is_root = folder.ends_with("src") && (name == "lib.rs" || name == "main.rs");
        is_root.then(|| format!("{folder}/"))
    };
    files.iter().filter_map(root).collect()
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
    }
}
