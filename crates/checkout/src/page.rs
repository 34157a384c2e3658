//! The page's files: written here, joined with the viewer that it shares with the lab's reports, carried by the program.

use fencepost_trial::report::viewer;

const DOCUMENT: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
/// In the order in which they need each other, after the viewer's.
const SCRIPTS: [&str; 6] = [
    include_str!("page/keyed.js"),
    include_str!("page/board.js"),
    include_str!("page/trial.js"),
    include_str!("page/samples.js"),
    include_str!("page/stream.js"),
    include_str!("page/main.js"),
];

/// The document.
pub(crate) fn document() -> String {
    DOCUMENT.into()
}

/// All of its script.
pub(crate) fn script() -> String {
    viewer::script(&SCRIPTS)
}

/// All of its styles.
pub(crate) fn style() -> String {
    viewer::style(STYLE)
}
