//! Tests of the matrix of a report in the browser.

use crate::chromium::Chromium;
use crate::live::keep;
use crate::stage::Stage;

/// The description of a lock can be read in full, even on a narrow screen.
pub(crate) fn descriptions_in_the_matrix_are_never_cut() {
    let stage = Stage::new();
    let report = stage.path("report.html");
    let arguments = format!(
        "oversell --all --store sqlite --stock=1 --concurrency=2 --quiet --report {}",
        report.display()
    );
    let (code, _, said) = stage.run(&arguments);
    assert!(code <= 1, "{said}");
    let mut browser = Chromium::start();
    browser.prefer("light");
    for width in [1000, 1200, 1600] {
        browser.resize(width);
        browser.open(&report);
        let cut = browser.evaluate(
            "[...document.querySelectorAll('.matrix small')].filter(about => about.scrollWidth > about.clientWidth + 1).map(about => about.textContent).join('; ')",
        );
        assert_eq!(cut, "", "at {width}");
        let shown =
            browser.evaluate("document.querySelectorAll('.matrix th[scope=row] small').length");
        assert!(shown.as_u64() > Some(10), "{shown}");
        let needed = browser.evaluate("document.documentElement.scrollWidth");
        assert!(needed.as_u64() <= Some(width.into()), "{needed} of {width}");
    }
    browser.resize(1200);
    browser.settle();
    keep(&mut browser, "matrix-1200.png");
}

/// A gauntlet has more scenarios than a table has room for columns. Each verdict can be read, and none covers its neighbour.
pub(crate) fn verdicts_of_a_gauntlet_are_never_cut() {
    let stage = Stage::new();
    let report = stage.path("report.html");
    let scenarios = [
        "oversell",
        "deadlock",
        "deadlock-sorted",
        "crash",
        "ttl-edge",
        "pause",
        "stale-release",
        "short-stock",
        "lost-wakeup",
        "names",
        "deadline",
    ];
    let arguments = format!(
        "gauntlet --lock=safe --store sqlite --scenario {} --jobs 4 --quiet --report {}",
        scenarios.join(" --scenario "),
        report.display()
    );
    let (code, _, said) = stage.run(&arguments);
    assert!(code <= 3, "{said}");
    let mut browser = Chromium::start();
    browser.prefer("light");
    for width in [390, 1000, 1280] {
        browser.resize(width);
        browser.open(&report);
        let cut = browser.evaluate(
            "[...document.querySelectorAll('.matrix .cell')].filter(cell => cell.scrollWidth > cell.clientWidth).map(cell => cell.textContent).join('; ')",
        );
        assert_eq!(cut, "", "at {width}");
        let shown = browser.evaluate("document.querySelectorAll('.matrix button.cell').length");
        assert_eq!(shown, scenarios.len(), "at {width}");
        let needed = browser.evaluate("document.documentElement.scrollWidth");
        assert!(needed.as_u64() <= Some(width.into()), "{needed} of {width}");
    }
    keep(&mut browser, "gauntlet-1280.png");
}
