//! Pages drawn from histories that were written by hand. They lie in the target folder afterwards, to be looked at.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "fixtures/mod.rs"]
mod fixtures;

use std::fs;
use std::path::Path;

use fencepost_trial::history::{Event, What};
use fencepost_trial::report::html::{Page, render};
use serde_json::Value;

use fixtures::FIXTURES;

fn keep(name: &str, page: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), page).unwrap();
}

/// The data of a page, as its script reads it.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once(r#"<script type="application/json" id="data">"#).unwrap();
    let (text, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(text).unwrap()
}

fn story(run: &Value) -> Vec<String> {
    let beats = run["story"].as_array().unwrap();
    beats.iter().map(|beat| beat["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_fixture_is_on_the_page_with_its_verdict_and_its_events() {
    let fixtures = fixtures::all();
    let mut page = fixtures::page(&fixtures);
    page.retry = Some(fixtures::retry());
    let text = render(&page);
    keep("fixtures.html", &text);
    let data = data(&text);
    for (fixture, run) in fixtures.iter().zip(data["runs"].as_array().unwrap()) {
        assert_eq!(run["id"], fixture.name.as_str());
        assert_eq!(run["outcome"], fixture.verdict.outcome.to_string());
        assert_eq!(run["because"], fixture.verdict.because.as_str());
        assert_eq!(run["events"]["rows"].as_array().unwrap().len(), fixture.events.len());
    }
    assert_eq!(data["columns"].as_array().unwrap().len(), 4);
    assert_eq!(data["rows"].as_array().unwrap().len(), 4);
}
