//! Models of the store protocols: what the servers store, what the clients know, and every move that either can make.
//!
//! Each model is a test target in `tests/`. The tests search every reachable state for one that breaks a promise. They form a
//! package of their own because they compute a lot: of the workspace's packages, it is the only one that a development build optimises.
//!
//! Each model has a table that says what its parts are in the store. It is kept by hand; [`assert_names_exist`] finds names in
//! it that are out of date.

use std::fs;
use std::path::{Path, PathBuf};

/// The fewest rows that a table has.
const ROWS: usize = 8;

/// Asserts that every name in the table of `tests/MODEL/main.rs` exists: those of the first column in the code of the model,
/// those of the second in the code of the library below these paths of `crates/fencepost/src`.
///
/// A name is text between backticks. It must occur as a word of the code, outside comments. Of `A::b`, `b` must be defined, as a function, a
/// field, a type, a constant or a variant, in a file that defines or implements `A` or is called `A.rs`. A name like `requests.rs` is that
/// of a file.
///
/// # Panics
/// Panics if a name does not exist, or if there is no table.
pub fn assert_names_exist(model: &str, paths: &[&str]) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = package.join("tests").join(model);
    let page = fs::read_to_string(folder.join("main.rs")).expect("the model's main file");
    let rows: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("//! | `"))
        .collect();
    assert!(rows.len() >= ROWS, "{} rows in the table", rows.len());
    let library = package.join("../fencepost/src");
    let in_model = Code::read([folder]);
    let in_store = Code::read(paths.iter().map(|path| library.join(path)));
    let mut unknown = Vec::new();
    for row in rows {
        let row = format!("`{row}");
        let (model, store) = row.split_once(" | ").expect("two columns");
        for (cell, code, side) in [(model, &in_model, "model"), (store, &in_store, "store")] {
            let missing = quoted(cell).filter(|name| !code.has(name));
            unknown.extend(missing.map(|name| format!("{name} in the {side}")));
        }
    }
    assert!(unknown.is_empty(), "there is no {}", unknown.join(", no "));
}

/// Returns the texts between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The code of one side.
struct Code(Vec<SourceFile>);

struct SourceFile {
    name: String,
    /// All lines that are not comments, without indentation.
    lines: Vec<String>,
}

impl Code {
    fn read(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut code = Self(Vec::new());
        paths.into_iter().for_each(|path| code.add(&path));
        code
    }

    fn add(&mut self, path: &Path) {
        if path.is_dir() {
            let entries = fs::read_dir(path).expect("a folder of sources");
            entries.for_each(|entry| self.add(&entry.expect("an entry").path()));
            return;
        }
        let name = path.file_name().expect("a file name").to_string_lossy();
        let source = fs::read_to_string(path).expect("a source file");
        self.0.push(SourceFile::of(&name, &source));
    }

    fn has(&self, name: &str) -> bool {
        if name.ends_with(".rs") || name.ends_with(".lua") {
            return self.0.iter().any(|file| file.name == name);
        }
        match name.rsplit_once("::") {
            Some((of, member)) => {
                let of = of.rsplit("::").next().unwrap_or(of);
                let mut files = self.0.iter().filter(|file| file.is_about(of));
                files.any(|file| file.lines.iter().any(|line| defines(line, member)))
            }
            None => {
                let mut lines = self.0.iter().flat_map(|file| &file.lines);
                lines.any(|line| words(line).any(|word| word == name))
            }
        }
    }
}

impl SourceFile {
    fn of(name: &str, source: &str) -> Self {
        let lines = source.lines().map(str::trim);
        let code = lines.filter(|line| !line.starts_with("//") && !line.starts_with("--"));
        Self {
            name: name.to_owned(),
            lines: code.map(str::to_owned).collect(),
        }
    }

    /// Returns whether this file defines the type, implements something for it, or is the module of that name.
    fn is_about(&self, name: &str) -> bool {
        let is_about = |line: &String| {
            let definition = without_visibility(line);
            let mut words = words(definition);
            words.next().is_some_and(|first| TYPES.contains(&first))
                && words.any(|word| word == name)
        };
        self.name.strip_suffix(".rs") == Some(name) || self.lines.iter().any(is_about)
    }
}

/// What a line about a type begins with.
const TYPES: &[&str] = &["struct", "enum", "trait", "impl", "type"];

/// What stands before the name in a definition, in any order.
const KEYWORDS: &[&str] = &["async", "fn", "struct", "enum", "const", "static"];

/// Returns whether this line of code defines a function, a type, a constant, a field or a variant of this name.
fn defines(line: &str, member: &str) -> bool {
    let definition = without_visibility(line);
    let mut words = words(definition).peekable();
    let is_item = words.next_if(|word| KEYWORDS.contains(word)).is_some();
    while words.next_if(|word| KEYWORDS.contains(word)).is_some() {}
    if words.next() != Some(member) {
        return false;
    }
    if is_item {
        return true;
    }
    let Some(after) = definition.strip_prefix(member) else {
        return false;
    };
    let is_field = after.starts_with(':') && !after.starts_with("::");
    let is_variant = member.starts_with(char::is_uppercase)
        && [",", " {", "("].iter().any(|mark| after.starts_with(mark))
        && [",", "{", "("].iter().any(|mark| after.ends_with(mark));
    is_field || is_variant
}

/// Removes `pub`, `pub(super)` and the like.
fn without_visibility(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else {
        return line;
    };
    match rest.strip_prefix('(') {
        Some(inside) => inside.split_once(") ").map_or(line, |(_, rest)| rest),
        None => rest.strip_prefix(' ').unwrap_or(line),
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_no_letter = |c: char| !c.is_alphanumeric() && c != '_';
    line.split(is_no_letter).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code() -> Code {
        let line = "pub(super) struct Line {\n    pub(super) first: u64,\n    last: u64,\n    public: u64,\n}\n\
                    impl Line {\n    pub(super) async fn join(&self) {\n        advance(self.first);\n        \
                    told = told;\n        Missing::new();\n    }\n}\n";
        let phase = "enum Phase {\n    Waits,\n    Holds { since: u64 },\n    Asks(u64),\n    // Gone,\n}\n\
                     fn advance(first: u64) {}\nconst LONGEST: u64 = 1;\n";
        Code(vec![
            SourceFile::of("line.rs", line),
            SourceFile::of("phase.rs", phase),
        ])
    }

    #[test]
    fn what_is_defined_is_found() {
        for name in [
            "Line::first",
            "Line::last",
            "Line::public",
            "Line::join",
            "Phase::Waits",
            "Phase::Holds",
            "Phase::Asks",
            "phase::advance",
            "phase::LONGEST",
            "LONGEST",
            "phase.rs",
        ] {
            assert!(code().has(name), "{name}");
        }
    }

    #[test]
    fn a_call_a_stale_name_and_a_member_of_another_type_are_not() {
        for name in [
            "Line::advance",
            "Line::told",
            "Line::Missing",
            "Line::gone",
            "Phase::Gone",
            "Phase::join",
            "Phase::first",
            "Gone::join",
            "gone",
            "gone.rs",
        ] {
            assert!(!code().has(name), "{name}");
        }
    }
}
