//! Writes the HTML document: joins script and styles, escapes all outside data, and sets a content security policy.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::{Page, PageRun};

const TEMPLATE: &str = include_str!("assets/page.html");
const STYLE: &str = include_str!("assets/page.css");
/// The scripts in the order of their dependencies, after those of the viewer.
const SCRIPTS: [&str; 7] = [
    include_str!("assets/story.js"),
    include_str!("assets/matrix.js"),
    include_str!("assets/compare.js"),
    include_str!("assets/verdict.js"),
    include_str!("assets/charts.js"),
    include_str!("assets/retry.js"),
    include_str!("assets/main.js"),
];

impl Page<'_> {
    /// Renders the page as an HTML document. It loads nothing else, and its policy forbids it.
    pub fn render(&self) -> String {
        let (style, script) = (
            fencepost_viewer::style(STYLE),
            fencepost_viewer::script(&SCRIPTS),
        );
        let policy = format!(
            "default-src 'none'; style-src {}; script-src {}; img-src data:; base-uri 'none'; form-action 'none'",
            hash(&style),
            hash(&script)
        );
        fill(&[
            ("csp", &policy),
            ("version", env!("CARGO_PKG_VERSION")),
            ("title", &escape(&title(self))),
            ("style", &style),
            ("noscript", &without_script(self)),
            ("data", &self.data()),
            ("script", &script),
        ])
    }
}

/// Fills in the template in one pass, so that inserted text is never interpreted as a placeholder.
fn fill(values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(
        values.iter().map(|(_, value)| value.len()).sum::<usize>() + TEMPLATE.len(),
    );
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        text.push_str(before);
        let value = values.iter().find(|(known, _)| *known == name);
        text.push_str(value.map_or("", |(_, value)| value));
        rest = after;
    }
    text + rest
}

fn title(page: &Page<'_>) -> String {
    match page.runs.as_slice() {
        [run] => format!(
            "{}: {}, {} · Fencepost",
            run.verdict.outcome, run.header.strategy, run.scenario
        ),
        _ => format!("{} · Fencepost", page.title),
    }
}

/// Returns the content that is shown when scripts are disabled.
fn without_script(page: &Page<'_>) -> String {
    let line = |run: &PageRun<'_>| {
        format!(
            "<tr><th scope=\"row\">{}, {}</th><td>{}</td><td>{}</td></tr>",
            escape(&run.header.strategy),
            escape(&run.scenario),
            run.verdict.outcome,
            escape(&run.verdict.because)
        )
    };
    let rows: String = page.runs.iter().map(line).collect();
    format!(
        "<h1>{}</h1><table><caption>The verdicts. The drawings need the script that this page carries.</caption>{rows}</table>",
        escape(&page.title)
    )
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            _ => safe.push(letter),
        }
    }
    safe
}
