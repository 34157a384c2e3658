//! The files of the live page, built into the program together with the viewer that the lab's reports also use.

const DOCUMENT: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
/// The scripts in order of dependency; those of the viewer come first.
const SCRIPTS: [&str; 6] = [
    include_str!("page/keyed.js"),
    include_str!("page/activity.js"),
    include_str!("page/trial.js"),
    include_str!("page/samples.js"),
    include_str!("page/stream.js"),
    include_str!("page/main.js"),
];

/// Returns the HTML document.
pub(crate) fn document() -> String {
    DOCUMENT.into()
}

/// Returns all scripts in one.
pub(crate) fn script() -> String {
    fencepost_viewer::script(&SCRIPTS)
}

/// Returns all styles in one.
pub(crate) fn style() -> String {
    fencepost_viewer::style(STYLE)
}
