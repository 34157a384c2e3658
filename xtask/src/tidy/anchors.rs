//! The anchors of a Markdown page: what a link may name after its `#`. They are made from the headings, by GitHub's rules.

use std::collections::BTreeSet;

use crate::tree::SourceFile;

/// Returns the anchors of a page.
pub(super) fn anchors(page: &SourceFile) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut in_code = false;
    for (_, line) in page.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if let Some(heading) = heading(line).filter(|_| !in_code) {
            let name = anchor(heading);
            // Of headings with the same words, the second ends with -1.
            let repeated = (1..).map(|number| format!("{name}-{number}"));
            let mut names = std::iter::once(name.clone()).chain(repeated);
            anchors.extend(names.find(|name| !anchors.contains(name)));
        }
    }
    anchors
}

/// Returns the words of a heading; `None` if the line is not one.
fn heading(line: &str) -> Option<&str> {
    let words = line.trim_start_matches('#');
    let depth = line.len() - words.len();
    ((1..=6).contains(&depth) && words.starts_with(' ')).then(|| words.trim())
}

/// Returns the anchor of a heading: its letters, digits, hyphens and underscores in lower case, with hyphens for blanks.
fn anchor(heading: &str) -> String {
    let kept = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    };
    let text = without_link_targets(heading).to_lowercase();
    text.chars().filter_map(kept).collect()
}

/// Replaces `[text](target)` by `[text]`.
fn without_link_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| {
        let after = part.split_once(')').map_or("", |(_, after)| after);
        format!("{before}]{after}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_made_as_github_makes_them() {
        let text = "# The checkout\n\n## `--lab`, and [more](x.md#y) of it\n### Why?\n#### Why?\n\
            ```sh\n# a comment\n```\n#no heading\n####### nor this\n## Ünit_2: a – b\n";
        let page = SourceFile {
            path: "page.md".into(),
            text: text.into(),
        };
        let expected = [
            "--lab-and-more-of-it",
            "the-checkout",
            "why",
            "why-1",
            "ünit_2-a--b",
        ];
        assert_eq!(anchors(&page), expected.map(str::to_owned).into());
    }
}
