//! The files of the live page, joined with the viewer that it shares with the lab's reports and built into the program.

const DOCUMENT: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
/// Each script comes after those that it uses; the viewer's come first.
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
    fencepost_viewer::script(&SCRIPTS)
}

/// All of its styles.
pub(crate) fn style() -> String {
    fencepost_viewer::style(STYLE)
}
