//! The code in the pages of this project, compiled as documentation tests. It is a crate of its own because the library's package does not
//! contain the pages.

/// Declares an item for each page. Its documentation is the page, whose Rust code therefore becomes documentation tests.
macro_rules! pages {
    ($($name:ident = $path:literal)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../../../", $path))]
            pub struct $name;
        )*

        #[cfg(test)]
        const PAGES: &[&str] = &[$($path),*];
    };
}

pages! {
    Readme = "README.md"
    PackageReadme = "crates/fencepost/README.md"
    Cron = "docs/cron-on-many-machines.md"
    Election = "docs/election.md"
    Etcd = "docs/backends/etcd.md"
    Postgres = "docs/backends/postgres.md"
    PostgresTable = "docs/backends/postgres-table.md"
    PostgresTransactions = "docs/backends/postgres-transactions.md"
    Redis = "docs/backends/redis.md"
    Redlock = "docs/backends/redlock.md"
    SemaphoresAndRwLocks = "docs/semaphores-and-rw-locks.md"
    Sqlite = "docs/backends/sqlite.md"
    Zookeeper = "docs/backends/zookeeper.md"
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::PAGES;

    /// The folders whose pages may contain Rust code.
    const FOLDERS: [&str; 4] = [".", "docs", "docs/backends", "docs/decisions"];

    #[test]
    fn every_page_with_rust_code_is_compiled() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for folder in FOLDERS {
            for entry in fs::read_dir(root.join(folder)).expect(folder) {
                let name = entry
                    .expect(folder)
                    .file_name()
                    .into_string()
                    .expect(folder);
                let path = format!("{folder}/{name}");
                let path = path.trim_start_matches("./");
                if path.ends_with(".md") && has_rust(&root.join(path)) {
                    assert!(PAGES.contains(&path), "add {path} to the list of pages");
                }
            }
        }
    }

    /// Code that is quoted from a tested file of another crate is marked `ignore`; `cargo xtask tidy` compares it with that file.
    fn has_rust(page: &Path) -> bool {
        let text = fs::read_to_string(page).expect("a page");
        let mut lines = text.lines().map(str::trim_start);
        lines.any(|line| line.starts_with("```rust") && line != "```rust,ignore")
    }
}
