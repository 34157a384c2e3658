//! The viewer: swim-lanes, and the look of everything around them. The report and the live page of the shop draw with the same
//! source, which lies in `viewer`, a file for each idea.
//!
//! [`script`] and [`style`] join it with what a page has of its own.

const LIGHT: &str = include_str!("viewer/light.css");
const DARK: &str = include_str!("viewer/dark.css");
const BASE: &str = include_str!("viewer/base.css");
const LANES: &str = include_str!("viewer/lanes.css");
/// In the order in which they need each other.
const SCRIPTS: [&str; 16] = [
    include_str!("viewer/dom.js"),
    include_str!("viewer/format.js"),
    include_str!("viewer/theme.js"),
    include_str!("viewer/decode.js"),
    include_str!("viewer/fold.js"),
    include_str!("viewer/words.js"),
    include_str!("viewer/describe.js"),
    include_str!("viewer/view.js"),
    include_str!("viewer/palette.js"),
    include_str!("viewer/paint-frame.js"),
    include_str!("viewer/paint-bars.js"),
    include_str!("viewer/paint-marks.js"),
    include_str!("viewer/overview.js"),
    include_str!("viewer/input.js"),
    include_str!("viewer/lanes.js"),
    include_str!("viewer/legend.js"),
];

/// The styles of the viewer with those of a page between the shared ones and the lanes.
pub fn style(own: &str) -> String {
    format!(
        ":root {{\n{LIGHT}}}\n:root[data-theme=dark] {{\n{DARK}}}\n\
         @media (prefers-color-scheme: dark) {{ :root:not([data-theme]) {{\n{DARK}}} }}\n{BASE}{own}{LANES}"
    )
}

/// The script of the viewer, then that of a page. `import` and `export` are for editors; here everything becomes one script,
/// so no two may define the same name, and an `import` takes one line.
pub fn script(own: &[&str]) -> String {
    let mut text = String::from("\n");
    for line in SCRIPTS.iter().chain(own).flat_map(|script| script.lines()) {
        if line.starts_with("import ") {
            continue;
        }
        text.push_str(line.strip_prefix("export ").unwrap_or(line));
        text.push('\n');
    }
    text
}
