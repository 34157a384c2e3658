//! Models of the store protocols: what the servers store, what the clients know, and every move that either can make.
//!
//! Each model is a test target in `tests/`. The tests search every reachable state for one that breaks a promise. They form a
//! separate package because they are compute-intensive: the workspace compiles this package, and no other, with optimisation.
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
/// A name is text between backticks. It must occur as a word of the code, outside comments; of `A::b`, `A` must occur, and `b`
/// must be a function, a field, a type or a variant. A name like `requests.rs` is that of a file.
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
#[derive(Default)]
struct Code {
    files: Vec<String>,
    /// All lines that are not comments.
    text: String,
}

impl Code {
    fn read(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut code = Self::default();
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
        let is_comment = |line: &&str| {
            let line = line.trim_start();
            line.starts_with("//") || line.starts_with("--")
        };
        self.text.extend(
            source
                .lines()
                .filter(|line| !is_comment(line))
                .flat_map(|line| [line, "\n"]),
        );
        self.files.push(name.into_owned());
    }

    fn has(&self, name: &str) -> bool {
        if name.ends_with(".rs") || name.ends_with(".lua") {
            return self.files.iter().any(|file| file == name);
        }
        match name.rsplit_once("::") {
            Some((of, member)) => {
                of.split("::").all(|part| self.occurs(part)) && self.defines(member)
            }
            None => self.occurs(name),
        }
    }

    fn occurs(&self, word: &str) -> bool {
        self.text.split(is_no_letter).any(|other| other == word)
    }

    /// Returns whether a line begins with this word, apart from keywords, as the definition of a member does.
    fn defines(&self, member: &str) -> bool {
        self.text.lines().any(|line| {
            let mut words = line.split(is_no_letter).filter(|word| !word.is_empty());
            words.find(|word| !KEYWORDS.contains(word)) == Some(member)
        })
    }
}

/// What stands before the name in a definition.
const KEYWORDS: &[&str] = &[
    "pub", "crate", "super", "async", "fn", "struct", "enum", "const", "static",
];

fn is_no_letter(c: char) -> bool {
    !c.is_alphanumeric() && c != '_'
}
