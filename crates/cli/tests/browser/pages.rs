//! Tests of report pages in the browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fencepost_trial::report::html::Page;
use fencepost_trial::verdict::{Checked, Finding, Outcome};
use serde_json::json;
use tempfile::TempDir;

use crate::chromium::Chromium;
use crate::fixtures::{self, FIXTURES, HOSTILE};

struct Opened {
    browser: Chromium,
    _folder: TempDir,
}

fn write(page: &Page<'_>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, page.render()).unwrap();
    (folder, file)
}

fn open(page: &Page<'_>) -> Opened {
    let (folder, file) = write(page);
    let mut browser = Chromium::start();
    browser.prefer("light");
    browser.resize(1440);
    browser.open(&file);
    Opened {
        browser,
        _folder: folder,
    }
}

/// Writes a report of a real run, with the real program.
fn report(arguments: &str, file: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command
        .args(arguments.split_whitespace())
        .arg("--report")
        .arg(file);
    command
        .env_remove("FENCEPOST_TRIAL_STORE")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    assert!(
        command
            .status()
            .unwrap()
            .code()
            .is_some_and(|code| code < 4)
    );
}

pub(crate) const NOTHING: Vec<String> = Vec::new();

pub(crate) fn a_report_of_the_program_draws_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Chromium::start();
    let report_of = |name: &str, arguments: &str| {
        let file = folder.path().join(name);
        report(arguments, &file);
        file
    };
    browser.open(&report_of(
        "none.html",
        "oversell --lock=none --concurrency=10 --delay=20000",
    ));
    assert!(
        browser.text("h1").contains("orders for a stock of 1."),
        "{}",
        browser.text("h1")
    );
    assert_eq!(browser.text(".verdictline"), "BROKEN");
    assert!(
        browser
            .text("#lanes .lanes-say")
            .starts_with("10 processes, 22 events")
    );
    assert!(
        browser
            .evaluate("document.querySelector('#storylist').children.length")
            .as_u64()
            >= Some(5)
    );
    assert_eq!(
        browser.evaluate("document.querySelector('#matrix').hidden"),
        true
    );
    assert_eq!(browser.troubles(), NOTHING);

    browser.open(&report_of("all.html", "oversell --all --concurrency=5"));
    assert_eq!(
        browser.evaluate("document.querySelector('#matrix').hidden"),
        false
    );
    assert!(browser.text(".matrix").contains("safe"));
    assert_eq!(browser.troubles(), NOTHING);

    let edge = "crash --ttl-edge --lock=fenced --ttl 300 --work 450";
    browser.open(&report_of("edge.html", edge));
    assert!(browser.text("#run-p").contains("TTL 300 ms"));
    assert!(
        browser
            .text("#lanes .lanes-say")
            .starts_with("2 processes, ")
    );
    assert_eq!(browser.troubles(), NOTHING);

    browser.open(&report_of(
        "retry.html",
        "retry --concurrency=4 --stock=2 --budget 8000",
    ));
    let rows = browser.evaluate("document.querySelectorAll('#retry tbody tr').length");
    let runs = browser.evaluate("document.querySelectorAll('.matrix button').length");
    assert_eq!((rows, runs), (4.into(), 4.into()));
    // A round is part of a longer history, but starts at zero nevertheless.
    browser.evaluate("location.hash = 'run=safe.line'");
    browser.wait_for("document.querySelector('#h-r').textContent === 'safe, waiting line'");
    let first = browser.text("#storylist time");
    assert!(first.starts_with("0."), "{first}");
    assert_eq!(browser.troubles(), NOTHING);
}

pub(crate) fn ways_of_waiting_count_as_on_the_terminal() {
    let fixtures = fixtures::all();
    let mut page = fixtures::page(&fixtures);
    page.retry = Some(fixtures::retry());
    let Opened { mut browser, .. } = open(&page);
    assert_eq!(browser.text("h1"), "10 of 10 as expected");
    let sum = browser.text("#matrix-sum");
    assert!(sum.starts_with("6 runs. "), "{sum}");
    assert!(
        sum.ends_with("The 4 ways of waiting have a table of their own, below."),
        "{sum}"
    );
    assert_eq!(browser.troubles(), NOTHING);
}

/// The other tests rely on this one: a list of troubles that is always empty would show nothing.
pub(crate) fn what_a_page_should_not_do_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.html");
    let mut browser = Chromium::start();
    for (page, expected) in [
        ("<script>throw new Error('ouch')</script>", "ouch"),
        ("<script>console.log('chatter')</script>", "chatter"),
        (
            "<img src=\"http://127.0.0.1:9/x.png\">",
            "asks for http://127.0.0.1:9/x.png",
        ),
        (
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'\"><script>0</script>",
            "Content Security Policy",
        ),
    ] {
        std::fs::write(&file, page).unwrap();
        browser.open_strange(&file);
        let troubles = browser.troubles();
        assert!(
            troubles.iter().any(|trouble| trouble.contains(expected)),
            "{expected}: {troubles:?}"
        );
    }
}

/// Counts the pixels of the lanes in the colour of proof: `--bad-fill` of the light theme.
pub(crate) const RED: &str = "(() => {
    const drawn = document.querySelector('#lanes .lanes-view canvas');
    const { width, height } = drawn;
    const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
    copy.drawImage(drawn, 0, 0);
    const pixels = copy.getImageData(0, 0, width, height).data;
    let red = 0;
    for (let at = 0; at < pixels.length; at += 4) if (pixels[at] === 210 && pixels[at + 1] === 48 && pixels[at + 2] === 58) red++;
    return red;
})()";

pub(crate) fn every_run_of_a_page_can_be_opened_and_red_means_broken() {
    let fixtures = fixtures::all();
    let mut page = fixtures::page(&fixtures);
    page.retry = Some(fixtures::retry());
    let mut browser = open(&page).browser;
    assert_eq!(browser.text("h1"), "10 of 10 as expected");
    for (name, says) in [
        ("naive.crash", "Never more than one holder."),
        ("safe.crash", "Never more than one holder."),
        ("safe.ttl-edge", "Up to 2 held one lock at the same time."),
        ("safe.deadlock", "Up to 2 held one lock at the same time."),
        // B was granted the lock while A's bar went on, but nobody knows what A believed while it was stopped.
        ("watchdog.pause", "Never more than one holder."),
        (
            "fenced.ttl-edge",
            "Up to 2 believed they held one lock at the same time; nothing was damaged.",
        ),
    ] {
        browser.evaluate(&format!("location.hash = 'run={name}'"));
        let (strategy, _) = name.split_once('.').unwrap();
        browser.wait_for(&format!("document.querySelector('#h-r').textContent.startsWith('{strategy},') && location.hash.endsWith('{name}')"));
        browser.wait_for(&format!(
            "document.querySelector('#lanes .lanes-say').textContent.endsWith({says:?})"
        ));
        browser.settle();
        let is_broken = browser.text("#run-v") == "BROKEN";
        let red = browser.evaluate(RED).as_u64().unwrap();
        assert_eq!(red > 0, is_broken, "{name}: {red} red pixels");
        let beats = browser.evaluate("document.querySelector('#storylist').children.length");
        assert!(
            (5..=9).contains(&beats.as_u64().unwrap()),
            "{name}: {beats}"
        );
    }
    let legend = browser.text("#legend");
    assert!(
        legend.contains("refused by its fence") && legend.contains("overlap of belief"),
        "{legend}"
    );
    assert_eq!(
        browser.evaluate("document.querySelectorAll('#retry tbody tr').length"),
        4
    );
    assert_eq!(browser.troubles(), NOTHING);
}

/// In a storm, a lock without fences may lose an update after the end of a lease, and is HELD.
pub(crate) fn damage_that_convicts_nobody_is_not_called_harmless() {
    let mut fixture = fixtures::load("safe.ttl-edge");
    fixture.verdict.outcome = Outcome::Held;
    fixture.verdict.evidence.clear();
    for (name, says) in [
        ("no_lost_update", ""),
        ("exclusion_at_resource", ""),
        ("exclusion_of_belief", "; nothing was damaged"),
    ] {
        fixture.verdict.checks = vec![Checked {
            name,
            title: name,
            finding: Finding::Violated,
            detail: String::new(),
            events: Vec::new(),
        }];
        let mut browser = open(&fixtures::page(std::slice::from_ref(&fixture))).browser;
        let says = format!("Up to 2 believed they held one lock at the same time{says}.");
        let said = browser.text("#lanes .lanes-say");
        assert!(said.ends_with(&says), "{name}: {said}");
        let facts = browser.text("#facts-body");
        assert!(facts.contains("violated, not counted"), "{name}: {facts}");
        let legend = browser.text("#legend");
        assert!(!legend.contains("no damage"), "{name}: {legend}");
        assert_eq!(browser.troubles(), NOTHING);
    }
}

fn focused(browser: &mut Chromium) -> String {
    let label =
        "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent";
    browser
        .evaluate(label)
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

pub(crate) fn the_keyboard_reaches_everything() {
    let fixtures = fixtures::all();
    let mut opened = open(&fixtures::page(&fixtures));
    let browser = &mut opened.browser;
    let tab_to = |browser: &mut Chromium, label: &str| {
        for _ in 0..80 {
            browser.press("Tab");
            if focused(browser) == label {
                return;
            }
        }
        panic!("Tab never reaches {label:?}");
    };
    browser.press("Tab");
    assert_eq!(focused(browser), "Skip to the verdict");
    tab_to(browser, "naive, crash: STUCK");
    for (key, then) in [
        ("ArrowDown", "safe, crash: HELD"),
        ("ArrowRight", "safe, ttl-edge: BROKEN"),
        ("ArrowRight", "safe, deadlock: BROKEN"),
        ("ArrowLeft", "safe, ttl-edge: BROKEN"),
    ] {
        browser.press(key);
        assert_eq!(focused(browser), then);
    }
    browser.press("Enter");
    assert_eq!(focused(browser), "safe, work beyond the lease");

    tab_to(browser, "Swim-lanes of the run");
    let says = |browser: &mut Chromium, start: &str| {
        let text = browser.text("#lanes .lanes-say");
        assert!(
            text.starts_with(start),
            "{text:?} does not start with {start:?}"
        );
    };
    browser.press("ArrowRight");
    says(browser, "A asks for product_A: from 0.500 ms");
    browser.press("ArrowRight");
    says(browser, "A holds product_A: from 8.600 ms, to 3,009.700 ms");
    browser.press("ArrowDown");
    says(browser, "B asks for product_A");
    browser.press("ArrowDown");
    says(browser, "A reads 0");
    browser.press("ArrowUp");
    browser.press("ArrowUp");
    browser.press("ArrowUp");
    says(browser, "Lease of A");
    browser.press("Escape");
    says(browser, "2 processes, 17 events");

    browser.press("+");
    browser.settle();
    assert!(!browser.text("#lanes .range").starts_with("whole run"));
    browser.press("0");
    browser.settle();
    assert!(browser.text("#lanes .range").starts_with("whole run"));
    browser.press("p");
    browser.press("p");
    says(browser, "A reads 0");

    browser.evaluate("document.querySelector('#storylist li:last-child button').focus()");
    browser.press("Enter");
    assert_eq!(
        browser.evaluate("document.activeElement.getAttribute('aria-current')"),
        "true"
    );
    says(browser, "A holds product_A");
    assert_eq!(browser.troubles(), NOTHING);
}

/// In a storm, a process may be stopped while its road is cut, and a road that was cut in one life may be free again in the next.
pub(crate) fn a_fault_lasts_until_its_own_end() {
    let fold = include_str!("../../../viewer/src/fold.js").replace("export ", "");
    let events = [
        ("A", "slowed"),
        ("A", "stopped"),
        ("B", "cut_off"),
        ("A", "reconnected"),
        ("A", "continued"),
        ("A", "clock_ahead"),
        ("A", "cut_off"),
        ("A", "clock_right"),
        ("A", "killed"),
        ("A.2", "reconnected"),
    ];
    let events = events.iter().enumerate();
    let events: Vec<_> = events
        .map(|(t, (who, fault))| json!({"n": t + 1, "t": t, "kind": "fault", "who": who, "fault": fault}))
        .collect();
    let run = json!({"outcome": "HELD", "evidence": [], "events": events});
    let folded = format!(
        "(() => {{ {fold}\n const picture = new Fold({run}); for (const event of picture.run.events) picture.take(event);
        return picture.faults.map(band => `${{band.lane.name}} ${{band.event.fault}} ${{band.t0}}-${{band.t1}}`); }})()"
    );
    let mut browser = Chromium::start();
    let bands = browser.evaluate(&folded);
    let expected = json!([
        "A slowed 0-3",
        "A stopped 1-4",
        "B cut_off 2-null",
        "A clock_ahead 5-7",
        "A cut_off 6-9",
        "A killed 8-8"
    ]);
    assert_eq!(bands, expected);
}

pub(crate) fn two_runs_share_one_axis() {
    let fixtures = fixtures::all();
    let mut opened = open(&fixtures::page(&fixtures));
    let browser = &mut opened.browser;
    let choose = |browser: &mut Chromium, id: &str| {
        browser.evaluate(&format!(
            "compare.value = '{id}', compare.dispatchEvent(new Event('change'))"
        ));
        browser.settle();
    };
    assert_eq!(browser.text("#compare"), "nothing\nfenced: HELD");
    choose(browser, "fenced.ttl-edge");
    assert!(browser.text("#beside-s").starts_with("No damage"));
    browser.evaluate("document.querySelector('#lanes .lanes-view').focus()");
    browser.press("+");
    browser.settle();
    let first = browser.text("#lanes .range");
    assert!(first.contains(" ms to "), "{first}");
    assert_eq!(browser.text("#lanes-2 .range"), first);
    browser.evaluate("document.querySelector('#lanes-2 .lanes-view').focus()");
    browser.press("0");
    browser.settle();
    assert!(browser.text("#lanes .range").starts_with("whole run"));
    choose(browser, "");
    assert_eq!(browser.evaluate("beside.hidden"), true);
    assert_eq!(browser.troubles(), NOTHING);
}

pub(crate) fn a_narrow_screen_needs_no_sideways_scrolling() {
    let fixtures = fixtures::all();
    let mut page = fixtures::page(&fixtures);
    page.retry = Some(fixtures::retry());
    let mut opened = open(&page);
    let browser = &mut opened.browser;
    for width in [390, 768, 1440] {
        browser.resize(width);
        for name in FIXTURES {
            browser.evaluate(&format!("location.hash = 'run={name}'"));
            browser.settle();
            let needed = browser
                .evaluate("document.documentElement.scrollWidth")
                .as_u64()
                .unwrap();
            assert!(needed <= u64::from(width), "{name}: {needed} of {width}");
        }
    }
    assert_eq!(browser.troubles(), NOTHING);
}

pub(crate) fn the_theme_follows_the_system_until_it_is_chosen() {
    let fixtures = fixtures::all();
    let mut opened = open(&fixtures::page(&fixtures));
    let browser = &mut opened.browser;
    let theme = |browser: &mut Chromium| browser.evaluate("document.documentElement.dataset.theme");
    assert_eq!(theme(browser), "light");
    browser.prefer("dark");
    browser.wait_for("document.documentElement.dataset.theme === 'dark'");
    browser.evaluate("document.querySelector('#theme').focus()");
    browser.press("Enter");
    assert_eq!(theme(browser), "light");
    assert_eq!(browser.troubles(), NOTHING);
}

pub(crate) fn hostile_names_stay_text() {
    let fixture = fixtures::hostile();
    let mut page = fixtures::page(std::slice::from_ref(&fixture));
    page.title = HOSTILE.into();
    page.command = HOSTILE.into();
    let mut browser = open(&page).browser;
    assert_eq!(browser.evaluate("document.images.length"), 0);
    assert_eq!(
        browser.evaluate("document.querySelector('h1').textContent"),
        HOSTILE
    );
    browser.evaluate("document.querySelector('#table').open = true");
    browser.wait_for("document.querySelectorAll('.evtable tbody tr').length === 17");
    assert!(browser.text(".evtable").contains("onerror=alert(1)"));
    assert_eq!(browser.evaluate("document.images.length"), 0);
    assert_eq!(browser.troubles(), NOTHING);
}

pub(crate) fn a_long_run_says_what_it_left_out() {
    let fixture = fixtures::long(30_000);
    let mut browser = open(&fixtures::page(std::slice::from_ref(&fixture))).browser;
    let says = browser.text("#lanes .lanes-left");
    assert!(
        says.starts_with(
            "The first 20,000 of 30,000 events are drawn; 10,000 later ones are left out"
        ),
        "{says}"
    );
    assert_eq!(browser.troubles(), NOTHING);
}
