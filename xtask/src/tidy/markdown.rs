//! Checks that links in Markdown files lead somewhere, and that quoted code matches the tested source.

use std::collections::{BTreeMap, HashSet};

use super::Finding;
use super::anchors::anchors;
use crate::tree::SourceFile;

pub(super) fn links_lead_somewhere(files: &[SourceFile]) -> Vec<Finding> {
    links_lead_to(files, |path| crate::tree::root().join(path).exists())
}

fn links_lead_to(files: &[SourceFile], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let pages = files.iter().filter(|file| file.is_markdown());
    let anchors: BTreeMap<&str, _> = pages
        .clone()
        .map(|page| (&*page.path, anchors(page)))
        .collect();
    let fault_of = |page: &SourceFile, target: &str| {
        let Some(path) = resolve(&page.path, target).filter(|path| exists(path)) else {
            return Some(format!("the link to {target} leads nowhere"));
        };
        let (_, anchor) = target.split_once('#')?;
        let known = anchors.get(&*path)?;
        (!known.contains(anchor)).then(|| format!("{path} has no heading #{anchor}"))
    };
    let mut findings = Vec::new();
    for page in pages {
        for (number, line) in prose(page) {
            let targets = link_targets(&line);
            let relative = targets.iter().filter(|target| is_relative(target));
            let faults = relative.filter_map(|target| fault_of(page, target));
            findings.extend(faults.map(|what| Finding::new(page, number, what)));
        }
    }
    findings
}

/// Returns the lines outside code blocks, without code spans.
fn prose(file: &SourceFile) -> impl Iterator<Item = (usize, String)> {
    let mut in_code = false;
    file.lines().filter_map(move |(number, line)| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return None;
        }
        let outside_spans: Vec<_> = line.split('`').step_by(2).collect();
        (!in_code).then(|| (number, outside_spans.join("`")))
    })
}

/// Returns the targets of `[text](target)`, `![picture](target "title")` and `[label]: target`.
fn link_targets(line: &str) -> Vec<String> {
    let inline = line.match_indices("](").filter_map(|(at, mark)| {
        let rest = &line[at + mark.len()..];
        Some(&rest[..rest.find(')')?])
    });
    let is_definition = line.trim_start().starts_with('[') && !line.trim_start().starts_with("[^");
    let definition = line
        .split_once("]: ")
        .filter(|_| is_definition)
        .map(|(_, target)| target);
    let first_word = |target: &str| {
        target
            .split_whitespace()
            .next()
            .map(|word| word.trim_matches(['<', '>']).to_owned())
    };
    inline.chain(definition).filter_map(first_word).collect()
}

fn is_relative(target: &str) -> bool {
    let has_scheme = target
        .split('/')
        .next()
        .is_some_and(|first| first.contains(':'));
    !has_scheme
}

/// Returns the path from the root that `target` means on the page `from`. `None` if it leads outside the project.
fn resolve(from: &str, target: &str) -> Option<String> {
    let target = target.split(['#', '?']).next().unwrap_or_default();
    if target.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// A marker on its own line before a code block. The block must appear in the named file, line by line.
const QUOTATION: &str = "<!-- quoted from ";

pub(super) fn quoted_code_is_tested_code(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in files.iter().filter(|file| file.is_markdown()) {
        for quote in quotations(page) {
            let source = files.iter().find(|file| file.path == quote.path);
            let what = match source {
                None => format!("quotes {}, which does not exist", quote.path),
                Some(_) if quote.code.is_empty() => "no code block follows".into(),
                Some(source) => match first_line_not_in(&quote.code, source) {
                    None => continue,
                    Some(line) => format!(
                        "{} does not contain this code; first at: {line}",
                        quote.path
                    ),
                },
            };
            findings.push(Finding::new(page, quote.line, what));
        }
    }
    findings
}

struct Quotation<'a> {
    line: usize,
    path: &'a str,
    code: Vec<&'a str>,
}

fn quotations(page: &SourceFile) -> Vec<Quotation<'_>> {
    let mut quotations = Vec::new();
    for (number, line) in page.lines() {
        let Some(rest) = line.strip_prefix(QUOTATION) else {
            continue;
        };
        let path = rest.trim_end_matches("-->").trim();
        let mut following = page
            .text
            .lines()
            .skip(number)
            .skip_while(|line| line.is_empty());
        let opens = following.next().is_some_and(|line| line.starts_with("```"));
        let code = following
            .take_while(|line| opens && !line.starts_with("```"))
            .collect();
        quotations.push(Quotation {
            line: number,
            path,
            code,
        });
    }
    quotations
}

/// Compares a quotation with its source. It may leave out lines between its paragraphs, but must not change any.
fn first_line_not_in<'a>(code: &[&'a str], source: &SourceFile) -> Option<&'a str> {
    let known: HashSet<&str> = source.text.lines().collect();
    let mut paragraphs = code.split(|line| line.is_empty());
    let lines = |paragraph: &[&str]| paragraph.join("\n");
    let altered = paragraphs.find(|paragraph| !source.text.contains(&lines(paragraph)))?;
    let line = altered.iter().find(|line| !known.contains(**line));
    line.or(altered.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    fn dead_links(page: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile {
            path: path.into(),
            text: text.into(),
        };
        let files = [
            file("docs/page.md", page),
            file("docs/other.md", "# Other\n\n## Part\n"),
            file("a.rs", ""),
        ];
        let exists = |path: &str| {
            ["docs/page.md", "docs/other.md", "README.md", "docs", "a.rs"].contains(&path)
        };
        let findings = links_lead_to(&files, exists);
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_are_left_alone() {
        let page = "# Here\n[a](other.md) and [b](./other.md#part), [up](../README.md) [root](/README.md)\n\
            ![picture](other.md \"title\") [folder](.) [here](#here) [line](/a.rs#L3) <https://example.org>\n\
            [web](https://example.org/no.md) [mail](mailto:a@example.org)\n\
            [label]: other.md\n[^note]: not a link\n\
            a code span `[x](gone.md)`\n\
            ```\n[y](gone.md)\n```";
        assert_eq!(dead_links(page), Vec::<String>::new());
    }

    #[test]
    fn dead_links_are_found() {
        let page =
            "fine\n[a](gone.md), [b](../other.md#x)\n[label]: missing.md\n[out](../../README.md)";
        assert_eq!(
            dead_links(page),
            [
                "docs/page.md:2: the link to gone.md leads nowhere",
                "docs/page.md:2: the link to ../other.md#x leads nowhere",
                "docs/page.md:3: the link to missing.md leads nowhere",
                "docs/page.md:4: the link to ../../README.md leads nowhere",
            ]
        );
    }

    #[test]
    fn links_to_headings_that_do_not_exist_are_found() {
        let page =
            "# Here\n[a](other.md#part) [b](other.md#parts)\n[c](#there)\n[d](./page.md#here)";
        assert_eq!(
            dead_links(page),
            [
                "docs/page.md:2: docs/other.md has no heading #parts",
                "docs/page.md:3: docs/page.md has no heading #there",
            ]
        );
    }

    const SOURCE: (&str, &str) = (
        "a.rs",
        "fn a() {\n    one();\n}\n\nfn hidden() {}\n\nfn b() {}\n",
    );

    fn quoting(path: &str, code: &str) -> Vec<String> {
        let page = format!("Text.\n\n{QUOTATION}{path} -->\n```rust\n{code}\n```\n");
        found(quoted_code_is_tested_code, &[("page.md", &page), SOURCE])
    }

    #[test]
    fn a_faithful_quotation_may_leave_out_paragraphs() {
        assert_eq!(
            quoting("a.rs", "fn a() {\n    one();\n}\n\nfn b() {}"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn changed_code_and_missing_sources_are_found() {
        let changed = quoting("a.rs", "fn a() {\n    two();\n}");
        assert_eq!(
            changed,
            ["page.md:3: a.rs does not contain this code; first at:     two();"]
        );
        assert_eq!(quoting("a.rs", "fn a() {\n}").len(), 1);
        assert_eq!(
            quoting("b.rs", "x"),
            ["page.md:3: quotes b.rs, which does not exist"]
        );
        let page = format!("{QUOTATION}a.rs -->\nno code");
        assert_eq!(
            found(quoted_code_is_tested_code, &[("page.md", &page), SOURCE]).len(),
            1
        );
    }
}
