//! Checks that ARCHITECTURE.md shows the layers that the code has.

use super::super::Finding;
use super::picture;
use crate::tree::SourceFile;

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Layers";

/// Checks the block below the heading "Layers". The finding contains the lines that differ, and says how to renew the block.
pub(in crate::tidy) fn architecture_shows_the_layers(files: &[SourceFile]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return Vec::new();
    };
    let Some((first_line, shown)) = block(page) else {
        let what = format!("no ```text block with the layers below \"{HEADING}\"; {RENEW}");
        return vec![Finding::new(page, 1, what)];
    };
    let picture = picture(files);
    let computed: Vec<&str> = picture.lines().collect();
    let differs = difference(&shown, &computed);
    let found = differs.map(|(at, lines)| {
        let what = format!("these are not the layers of the code; {RENEW}{lines}");
        Finding::new(page, first_line + at, what)
    });
    found.into_iter().collect()
}

const RENEW: &str = "replace the block by what `cargo xtask tidy --layers` prints";

/// Returns the lines of the block, and the number of the first one.
fn block(page: &SourceFile) -> Option<(usize, Vec<&str>)> {
    let mut lines = page.lines().skip_while(|(_, line)| *line != HEADING);
    let (fence, _) = lines.find(|(_, line)| *line == "```text")?;
    let inside = lines.take_while(|(_, line)| *line != "```");
    Some((fence + 1, inside.map(|(_, line)| line).collect()))
}

/// Returns the lines between the common beginning and the common end, with `-` if the page has them and `+` if the code has them; and how
/// many lines the common beginning has. `None` if both are equal.
fn difference(shown: &[&str], computed: &[&str]) -> Option<(usize, String)> {
    if shown == computed {
        return None;
    }
    let pairs = shown.iter().zip(computed);
    let start = pairs.take_while(|(a, b)| a == b).count();
    let (shown, computed) = (&shown[start..], &computed[start..]);
    let pairs = shown.iter().rev().zip(computed.iter().rev());
    let end = pairs.take_while(|(a, b)| a == b).count();
    let old = shown[..shown.len() - end].iter().map(|line| ('-', line));
    let new = computed[..computed.len() - end]
        .iter()
        .map(|line| ('+', line));
    let lines = old
        .chain(new)
        .map(|(sign, line)| format!("\n    {sign} {line}"));
    Some((start, lines.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    fn findings(block: &str) -> Vec<String> {
        let page = format!("# A\n```text\nother\n```\n{HEADING}\n\n{block}\n## End\n");
        found(
            architecture_shows_the_layers,
            &[
                (PAGE, &page),
                ("crates/x/src/lib.rs", "mod a; mod b;"),
                ("crates/x/src/a.rs", "use crate::b;"),
                ("crates/x/src/b.rs", ""),
                ("xtask/src/main.rs", "mod jobs;"),
                ("xtask/src/jobs.rs", ""),
            ],
        )
    }

    #[test]
    fn a_page_with_the_layers_of_the_code_is_fine() {
        let block = "```text\ncrates/x\n  a\n  b\nxtask\n  jobs\n```";
        assert_eq!(findings(block), [] as [&str; 0]);
    }

    #[test]
    fn layers_that_the_code_does_not_have_are_found() {
        for (block, line, difference) in [
            (
                "crates/x\n  a  b\nxtask\n  jobs\n",
                9,
                "-   a  b|+   a|+   b",
            ),
            ("crates/x\n  a\n  b\n", 11, "+ xtask|+   jobs"),
            (
                "crates/x\n  a\n  b\ncrates/y\n  c\nxtask\n  jobs\n",
                11,
                "- crates/y|-   c",
            ),
        ] {
            let findings = findings(&format!("```text\n{block}```"));
            let lines = difference.replace('|', "\n    ");
            let what = format!("these are not the layers of the code; {RENEW}\n    {lines}");
            assert_eq!(findings, [format!("{PAGE}:{line}: {what}")]);
        }
    }

    #[test]
    fn a_page_without_layers_is_found() {
        let findings = findings("```mermaid\nflowchart\n```");
        assert!(findings[0].contains("no ```text block"), "{findings:?}");
    }
}
