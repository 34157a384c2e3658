//! Tests of HTML pages drawn from handwritten histories. The pages stay in the target folder for inspection.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "fixtures/mod.rs"]
mod fixtures;

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fencepost_trial::history::Event;
use fencepost_trial::report::html::Page;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use fixtures::{FIXTURES, Fixture, HOSTILE, hostile, long};

fn keep(name: &str, page: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), page).unwrap();
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).unwrap();
    rest.split_once(end).unwrap().0
}

/// Returns the data of a page, as its script reads it.
fn data(page: &str) -> Value {
    let start = r#"<script type="application/json" id="data">"#;
    serde_json::from_str(between(page, start, "</script>")).unwrap()
}

fn single(fixture: &Fixture) -> Page<'_> {
    fixtures::page(std::slice::from_ref(fixture))
}

#[test]
fn every_fixture_is_on_the_page_with_its_verdict_and_its_events() {
    let fixtures = fixtures::all();
    let mut page = fixtures::page(&fixtures);
    page.retry = Some(fixtures::retry());
    let text = page.render();
    keep("fixtures.html", &text);
    let data = data(&text);
    for (fixture, run) in fixtures.iter().zip(data["runs"].as_array().unwrap()) {
        assert_eq!(run["id"], fixture.name.as_str());
        assert_eq!(run["outcome"], fixture.verdict.outcome.to_string());
        assert_eq!(run["because"], fixture.verdict.because.as_str());
        assert_eq!(
            run["evidence"].as_array().unwrap().len(),
            fixture.verdict.evidence.len()
        );
        assert_eq!(unpacked(&data, run), fixture.events);
    }
    assert_eq!(data["columns"].as_array().unwrap().len(), 4);
    assert_eq!(data["rows"].as_array().unwrap().len(), 4);
    assert_eq!(data["lead"], "safe.ttl-edge");
}

/// A page that looks for two holders itself would find some where the checks find none: in the bars, which are longer than what a process
/// certainly believed.
#[test]
fn a_page_draws_the_overlaps_that_the_checks_found_and_no_others() {
    for (name, expected) in [
        ("safe.ttl-edge", json!([[2, 7, 2_011_200, 2_012_100]])),
        ("watchdog.pause", json!([])),
        ("safe.crash", json!([])),
    ] {
        let fixture = fixtures::load(name);
        let data = data(&single(&fixture).render());
        assert_eq!(data["runs"][0]["overlaps"], expected, "{name}");
    }
}

/// Returns the events of a run, unpacked from its rows.
fn unpacked(data: &Value, run: &Value) -> Vec<Event> {
    let mut at_us = 0;
    let rows = run["events"]["rows"].as_array().unwrap();
    let event = |(index, row): (usize, &Value)| {
        at_us += row[0].as_u64().unwrap();
        let shape = data["shapes"][row[2].as_u64().unwrap() as usize]
            .as_array()
            .unwrap();
        let word = |place: &Value| data["words"][place.as_u64().unwrap() as usize].clone();
        let mut event = serde_json::Map::from_iter([
            ("n".to_owned(), Value::from(index as u64 + 1)),
            ("at_ns".to_owned(), Value::from(at_us * 1000)),
            ("event".to_owned(), shape[0].clone()),
        ]);
        if row[1].as_i64() != Some(-1) {
            event.insert("who".into(), word(&row[1]));
        }
        for (name, value) in shape[1..].iter().zip(&row.as_array().unwrap()[3..]) {
            let name = name.as_str().unwrap();
            match name.split_at(1) {
                ("$", name) => event.insert(name.into(), word(value)),
                ("?", name) => event.insert(name.into(), (value == 1).into()),
                _ => event.insert(name.into(), value.clone()),
            };
        }
        serde_json::from_value(Value::Object(event)).unwrap()
    };
    rows.iter().enumerate().map(event).collect()
}

#[test]
fn a_story_is_short_and_tells_every_proof() {
    for name in FIXTURES {
        let fixture = fixtures::load(name);
        let data = data(&single(&fixture).render());
        let story = data["runs"][0]["story"].as_array().unwrap().clone();
        assert!((5..=9).contains(&story.len()), "{name}: {story:#?}");
        for evidence in &fixture.verdict.evidence {
            let tells = |beat: &&Value| beat["event"] == evidence.event && beat["mark"] == "proof";
            assert!(
                story.iter().any(|beat| tells(&beat)),
                "{name}: {evidence:?}"
            );
        }
        assert!(story.is_sorted_by_key(|beat| beat["event"].as_u64()));
    }
}

#[test]
fn the_story_of_a_crash_reads_in_order() {
    let fixture = fixtures::load("naive.crash");
    let data = data(&single(&fixture).render());
    let beats = data["runs"][0]["story"].as_array().unwrap();
    let texts: Vec<&str> = beats
        .iter()
        .map(|beat| beat["text"].as_str().unwrap())
        .collect();
    assert_eq!(
        texts,
        [
            "A asks for the lock and waits.",
            "A has done step 1 of 2: creates the key.",
            "A is killed (signal 9) between its two steps.",
            "B is refused the lock.",
            "B asks for the lock and waits.",
            "B is still refused.",
            "The lab stops waiting: 3 × TTL since the kill.",
            "The lab reads the store: key there, no expiry, owner gone.",
        ]
    );
}

#[test]
fn nothing_from_outside_becomes_markup() {
    let fixture = hostile();
    let mut page = single(&fixture);
    page.title = HOSTILE.into();
    page.command = HOSTILE.into();
    let text = page.render();
    keep("hostile.html", &text);
    assert!(!text.contains("<img"), "{:?}", text.find("<img"));
    assert_eq!(text.matches("</script>").count(), 2);
    assert_eq!(data(&text)["runs"][0]["because"], HOSTILE);
    assert_eq!(
        unpacked(&data(&text), &data(&text)["runs"][0]),
        fixture.events
    );
}

#[test]
fn the_policy_allows_this_script_and_these_styles_and_nothing_else() {
    let fixture = fixtures::load("safe.crash");
    let text = single(&fixture).render();
    let policy = between(&text, r#"Content-Security-Policy" content=""#, "\"");
    let hash = |part: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(part)));
    assert_eq!(
        policy,
        format!(
            "default-src 'none'; style-src {}; script-src {}; img-src data:; base-uri 'none'; form-action 'none'",
            hash(between(&text, "<style>", "</style>")),
            hash(between(&text, r#"<script type="module">"#, "</script>"))
        )
    );
    assert!(!text.contains(" style=") && !text.contains(" onclick="));
    for outside in ["http://", "https://", "//cdn", "@import", "url("] {
        let known = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!known.contains(outside), "{outside}");
    }
}

#[test]
fn the_script_is_one_without_modules_and_without_a_name_twice() {
    let fixture = fixtures::load("safe.crash");
    let text = single(&fixture).render();
    let script = between(&text, r#"<script type="module">"#, "</script>");
    let mut names = HashSet::new();
    for line in script.lines() {
        assert!(
            !line.starts_with("import") && !line.starts_with("export"),
            "{line}"
        );
        for word in ["const ", "let ", "class ", "function ", "function* "] {
            let Some(rest) = line.strip_prefix(word) else {
                continue;
            };
            let name = rest.split([' ', '(', '=']).next().unwrap();
            assert!(names.insert(name.to_owned()), "{name} is defined twice");
        }
    }
    assert!(names.len() > 80, "{}", names.len());
}

#[test]
fn a_run_of_twenty_thousand_events_is_whole_and_a_longer_one_says_what_it_left_out() {
    let whole = long(20_000);
    let text = single(&whole).render();
    keep("twenty-thousand.html", &text);
    assert_eq!(data(&text)["runs"][0]["events"]["whole"], 20_000);
    assert!(text.len() < 1_200_000, "{}", text.len());

    let mut longer = long(30_000);
    longer.verdict = fixtures::load("safe.ttl-edge").verdict;
    for (evidence, n) in longer.verdict.evidence.iter_mut().zip([10, 25_003, 29_998]) {
        evidence.event = n;
    }
    let text = single(&longer).render();
    keep("longer.html", &text);
    let data = data(&text);
    let events = &data["runs"][0]["events"];
    assert_eq!(
        (&events["total"], &events["whole"]),
        (&30_000.into(), &20_000.into())
    );
    let named = events["named"].as_array().unwrap();
    assert!(
        named.contains(&25_003.into()) && named.contains(&29_998.into()),
        "{named:?}"
    );
    assert_eq!(
        events["rows"].as_array().unwrap().len(),
        20_000 + named.len()
    );
}

#[test]
fn a_page_of_many_long_runs_keeps_what_their_verdicts_rest_on() {
    let runs: Vec<Fixture> = (0..5).map(|_| long(20_000)).collect();
    let data = data(&fixtures::page(&runs).render());
    let whole: Vec<&Value> = data["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["events"]["whole"])
        .collect();
    assert_eq!(whole, [20_000, 20_000, 20_000, 0, 0]);
    assert!(!data["runs"][4]["story"].as_array().unwrap().is_empty());
}

/// The page of `run-all`, with 16 sales of 50 processes and 46 lock trials.
#[test]
fn a_page_of_sixty_two_runs_is_smaller_than_two_megabytes() {
    let mut runs: Vec<Fixture> = (0..16).map(|_| long(500)).collect();
    for at in 0..46 {
        runs.push(fixtures::load(FIXTURES[at % FIXTURES.len()]));
    }
    for (at, run) in runs.iter_mut().enumerate() {
        run.header.strategy = format!("strategy-{}", at / 7);
        run.header.scenario = format!("scenario-{}", at % 7);
    }
    let text = fixtures::page(&runs).render();
    keep("sixty-two.html", &text);
    assert!(text.len() < 1_000_000, "{}", text.len());
}

#[test]
fn an_empty_run_is_a_page_too() {
    let mut fixture = fixtures::load("safe.crash");
    fixture.events.clear();
    let text = single(&fixture).render();
    keep("empty.html", &text);
    assert_eq!(data(&text)["runs"][0]["events"]["total"], 0);
}
