//! Runs as a single, self-contained HTML page that needs no server, network or other file.
//!
//! A [`Page`] borrows what was recorded and judged, and [`Page::render`] turns it into text. The page only draws: its script lays out
//! the events on a time axis, and all verdicts come from the checks. The script and the styles are in `html/assets`, one file
//! per topic, and are joined with those of the [viewer](fencepost_viewer) when the page is written.

mod comparison;
mod data;
mod document;
mod events;
mod page;
mod saved;

pub use comparison::{ComparisonRow, ComparisonTable, Turn};
pub use page::{Page, PageRun};
