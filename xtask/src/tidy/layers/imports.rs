//! Finds out from the source which modules of a crate, or of one of its folders, import which others.
//!
//! The syntax tree tells which code is test code and which module a line is in. Within an item, every path that starts with `crate` or
//! `super` counts, including those in macro calls.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, Meta, UseTree};

use crate::tree::SourceFile;

/// One place where a module imports another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) path: String,
    pub(super) line: usize,
}

/// The source of one crate, seen from one of its modules: the parent of those whose imports are of interest.
pub(super) struct Source<'a> {
    /// The path of the parent; empty for the root of the crate.
    parent: Vec<String>,
    /// The children of the parent, without those that only tests have.
    pub(super) modules: BTreeSet<String>,
    /// Names that the parent re-exports, each with the child that it comes from.
    reexports: BTreeMap<String, String>,
    files: Vec<(Vec<String>, &'a SourceFile, syn::File)>,
    test_modules: BTreeSet<Vec<String>>,
}

impl<'a> Source<'a> {
    /// Reads the imports between the children of a module. `root` is the crate's source folder, with a slash at its end. `parent` is the
    /// path of the module, such as `stores`, or empty for the root.
    pub(super) fn read(
        root: &str,
        parent: &str,
        files: &'a [SourceFile],
    ) -> Result<Self, (&'a SourceFile, syn::Error)> {
        let mut source = Self {
            parent: parent.split_terminator("::").map(str::to_owned).collect(),
            modules: BTreeSet::new(),
            reexports: BTreeMap::new(),
            files: Vec::new(),
            test_modules: BTreeSet::new(),
        };
        let of_crate = files.iter().filter(|file| file.is_rust());
        for file in of_crate {
            let Some(inner) = file.path.strip_prefix(root) else {
                continue;
            };
            let parsed = syn::parse_file(&file.text).map_err(|error| (file, error))?;
            source.files.push((module_path(inner), file, parsed));
        }
        for (path, _, parsed) in &source.files {
            note_test_modules(path, &parsed.items, &mut source.test_modules);
        }
        source.read_parent();
        Ok(source)
    }

    fn read_parent(&mut self) {
        for (path, _, parsed) in &self.files {
            if *path != self.parent {
                continue;
            }
            for item in &parsed.items {
                match item {
                    Item::Mod(module) if !is_for_tests(&module.attrs) => {
                        self.modules.insert(module.ident.to_string());
                    }
                    Item::Use(import) => reexported(&import.tree, None, &mut self.reexports),
                    _ => {}
                }
            }
        }
        let modules = &self.modules;
        self.reexports.retain(|_, from| modules.contains(from));
    }

    pub(super) fn imports(&self) -> Vec<Import> {
        let mut found = Vec::new();
        for (path, file, parsed) in &self.files {
            let is_test = |test: &Vec<String>| path.starts_with(test);
            if self.child_on(path).is_some() && !self.test_modules.iter().any(is_test) {
                self.of_items(path, file, &parsed.items, &mut found);
            }
        }
        found
    }

    /// Returns the child of the parent to which this path leads; `None` if it leads elsewhere.
    fn child_on<'p>(&self, path: &'p [String]) -> Option<&'p String> {
        path.strip_prefix(self.parent.as_slice())?.first()
    }

    fn of_items(
        &self,
        path: &[String],
        file: &SourceFile,
        items: &[Item],
        found: &mut Vec<Import>,
    ) {
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            match item {
                Item::Mod(module) => {
                    let Some((_, items)) = &module.content else {
                        continue;
                    };
                    let inner = child(path, &module.ident.to_string());
                    self.of_items(&inner, file, items, found);
                }
                other => self.of_tokens(path, file, other.to_token_stream(), found),
            }
        }
    }

    fn of_tokens(
        &self,
        path: &[String],
        file: &SourceFile,
        tokens: TokenStream,
        found: &mut Vec<Import>,
    ) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if let TokenTree::Group(group) = &tokens[at] {
                self.of_tokens(path, file, group.stream(), found);
            }
            let Some((level, next)) = start_of_path(path, &tokens, at) else {
                at += 1;
                continue;
            };
            let line = tokens[at].span().start().line;
            for segments in paths_at(&tokens, next) {
                let absolute = [&path[..level], &segments].concat();
                self.note(path, &absolute, file, line, found);
            }
            at = next;
        }
    }

    /// Notes that the module `path` names `absolute`, if that is an import of another child.
    fn note(
        &self,
        path: &[String],
        absolute: &[String],
        file: &SourceFile,
        line: usize,
        found: &mut Vec<Import>,
    ) {
        let (Some(from), Some(name)) = (self.child_on(path), self.child_on(absolute)) else {
            return;
        };
        let to = if self.modules.contains(name) {
            name
        } else {
            match self.reexports.get(name) {
                Some(module) => module,
                None => return,
            }
        };
        if from != to {
            found.push(Import {
                from: from.clone(),
                to: to.clone(),
                path: file.path.clone(),
                line,
            });
        }
    }
}

/// Returns the path of a module: that of `stores/redis/session.rs` is `stores::redis::session`; the root of the crate is the empty path.
fn module_path(inner: &str) -> Vec<String> {
    let mut path: Vec<String> = inner
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if path.last().is_some_and(|last| last == "mod") {
        path.pop();
    }
    match path.as_slice() {
        [only] if only == "lib" || only == "main" => Vec::new(),
        _ => path,
    }
}

fn child(path: &[String], name: &str) -> Vec<String> {
    let mut path = path.to_vec();
    path.push(name.to_owned());
    path
}

fn note_test_modules(path: &[String], items: &[Item], found: &mut BTreeSet<Vec<String>>) {
    for item in items {
        if let Item::Mod(module) = item {
            let inner = child(path, &module.ident.to_string());
            match (&module.content, is_for_tests(&module.attrs)) {
                (_, true) => drop(found.insert(inner)),
                (Some((_, items)), false) => note_test_modules(&inner, items, found),
                (None, false) => {}
            }
        }
    }
}

/// Returns whether the attributes contain `#[cfg(test)]`, `#[cfg(doctest)]`, or an `all` condition with one of them.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition == "doctest" || condition.starts_with("all (test")
        }
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Collects the names that a `use` in the parent imports, each with the first segment of its path.
fn reexported(tree: &UseTree, from: Option<&str>, found: &mut BTreeMap<String, String>) {
    match tree {
        UseTree::Path(path) => {
            let segment = path.ident.to_string();
            let from = match from {
                None if segment == "crate" || segment == "self" => None,
                None => Some(segment.as_str()),
                Some(from) => Some(from),
            };
            reexported(&path.tree, from, found);
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                reexported(tree, from, found);
            }
        }
        UseTree::Name(name) => note_reexport(name.ident.to_string(), from, found),
        UseTree::Rename(name) => note_reexport(name.rename.to_string(), from, found),
        UseTree::Glob(_) => {}
    }
}

fn note_reexport(name: String, from: Option<&str>, found: &mut BTreeMap<String, String>) {
    if let Some(from) = from {
        found.insert(name, from.to_owned());
    }
}

/// If a path with `crate` or `super` begins at this token, returns the depth in the module tree at which its next segment is looked up, and
/// the position of that segment.
fn start_of_path(path: &[String], tokens: &[TokenTree], at: usize) -> Option<(usize, usize)> {
    // One colon only separates a name from its type.
    let is_continued = at >= 2 && is_colon(&tokens[at - 1]) && is_colon(&tokens[at - 2]);
    let TokenTree::Ident(first) = &tokens[at] else {
        return None;
    };
    if is_continued {
        return None;
    }
    let mut level = match first.to_string().as_str() {
        "crate" => 0,
        "super" => path.len() - 1,
        _ => return None,
    };
    let mut next = after_colons(tokens, at + 1)?;
    while matches!(tokens.get(next), Some(TokenTree::Ident(name)) if name == "super") {
        level = level.checked_sub(1)?;
        next = after_colons(tokens, next + 1)?;
    }
    Some((level, next))
}

fn is_colon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(mark) if mark.as_char() == ':')
}

fn after_colons(tokens: &[TokenTree], at: usize) -> Option<usize> {
    let are_there = tokens.get(at..at + 2)?.iter().all(is_colon);
    are_there.then_some(at + 2)
}

/// Returns the paths that continue at this position: a single one, or one for each part of a group in braces.
fn paths_at(tokens: &[TokenTree], at: usize) -> Vec<Vec<String>> {
    match tokens.get(at) {
        Some(TokenTree::Ident(name)) => {
            let rest = match after_colons(tokens, at + 1) {
                Some(next) => paths_at(tokens, next),
                None => Vec::new(),
            };
            let first = name.to_string();
            if rest.is_empty() {
                return vec![vec![first]];
            }
            let joined = |rest: Vec<String>| [vec![first.clone()], rest].concat();
            rest.into_iter().map(joined).collect()
        }
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let parts = inner
                .split(|token| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ','));
            parts.flat_map(|part| paths_at(part, 0)).collect()
        }
        _ => Vec::new(),
    }
}
